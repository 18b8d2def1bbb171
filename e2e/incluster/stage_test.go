package incluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/world"
)

// Where everything is. The outside uses a network for documentation (RFC 5737) that the world does not.
const (
	system = "istio-system"
	shop   = "shop"  // its pods are injected
	plain  = "plain" // its pods are not

	external = "external.com"
	second   = "second.com"
	nobody   = "unregistered.test"
)

var (
	outsideNet   = netip.MustParsePrefix("192.0.2.1/24")
	nameServer   = netip.MustParseAddrPort("192.0.2.53:53")
	outsideAddrs = []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("192.0.2.20"), netip.MustParseAddr("192.0.2.66")}
)

// stage is a cluster with the release installed, an outside, and an app.
type stage struct {
	*testing.T
	*cluster.Cluster
	client  kubernetes.Interface
	outside *outside.Outside
	connect func() error // lays the cable to it
	unplug  func()       // takes the cable away, whose other end's network the kernel may keep for a while
	chart   string       // the packaged chart
}

// set installs everything anew, with these values beside those of testdata.
func set(t *testing.T, values ...string) *stage {
	t.Helper()
	s := prepare(t)
	s.install(values...)
	s.startApp(shop, "app")
	return s
}

// prepare is a cluster with an outside and namespaces, without the release. What an earlier run left is removed first.
func prepare(t *testing.T) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("installs a release and uses it, which takes its time: not with -short")
	}
	c, err := cluster.Open()
	if err != nil {
		t.Skip(err)
	}
	s := &stage{T: t, Cluster: c, client: kubernetes.NewForConfigOrDie(c.Config)}
	s.remove(t.Context())
	t.Cleanup(func() {
		if t.Failed() {
			s.tell()
		}
		if os.Getenv("SALLYPORT_KEEP") == "" {
			s.remove(context.WithoutCancel(t.Context()))
		}
	})
	s.playOutside()
	for _, ns := range []string{system, shop, plain} {
		s.kubectl("create", "namespace", ns)
	}
	s.kubectl("label", "namespace", shop, "istio-injection=enabled")
	for _, ns := range []string{system, shop, plain} {
		s.apply(fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: outside-roots, namespace: %s}\ndata:\n  roots.pem: |\n    %s\n",
			ns, strings.ReplaceAll(strings.TrimSpace(string(s.outside.CA.PEM())), "\n", "\n    ")))
	}
	return s
}

// playOutside connects a network with a name server, and web servers for its names, to the cluster.
func (s *stage) playOutside() {
	s.Helper()
	run, err := world.NewRun()
	s.must(err)
	s.Cleanup(func() { _ = run.Close() })
	w, err := world.New(run)
	s.must(err)
	there := []netip.Prefix{netip.PrefixFrom(nameServer.Addr(), 24)}
	for _, a := range outsideAddrs {
		there = append(there, netip.PrefixFrom(a, 24))
	}
	s.connect = func() error { return s.Connect("out", w.Outside.Namespace(), []netip.Prefix{outsideNet}, there) }
	s.unplug = func() { _ = exec.Command("ip", "-n", w.Outside.Namespace(), "link", "delete", "cluster").Run() }
	s.becomes("the outside is connected", time.Minute, s.connect) // the cable of an earlier run goes in its own time
	s.outside, err = outside.Start(w.Outside, outside.Plan{
		Names: []string{external, second, nobody}, Addrs: outsideAddrs, HTTPPort: 80, HTTPSPort: 443, NameServer: nameServer,
	})
	s.must(err)
	s.Cleanup(func() { _ = s.outside.Close() })
	for i, name := range []string{external, second, nobody} {
		s.outside.Set(name, 3*time.Second, outsideAddrs[i])
	}
	s.Cleanup(func() { _ = s.SetDNS(context.WithoutCancel(s.Context())) }) // the next one finds it as it was
	s.must(s.SetDNS(s.Context(), nameServer))
}

// install packages the chart and installs it, as its how-to says, with what this cluster is too small for left out.
func (s *stage) install(values ...string) {
	s.Helper()
	dist := s.TempDir()
	out, err := exec.CommandContext(s.Context(), "../../chart/package", "e2e", dist).CombinedOutput()
	s.mustf(err, "%s", out)
	found, err := filepath.Glob(filepath.Join(dist, "*.tgz"))
	if err != nil || len(found) != 1 {
		s.Fatalf("%v: %v", found, err)
	}
	s.chart = found[0]
	began := time.Now()
	args := []string{"install", "sallyport", s.chart, "-n", system, "-f", "testdata/values.yaml", "--wait", "--timeout", "3m"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	s.helm(args...)
	s.Logf("installed and ready after %s", since(began))
}

// appSpec says what is special about a test app's pod, in YAML.
type appSpec struct{ labels, annotations, security string }

// startApp runs the test app with a service account of its name.
func (s *stage) startApp(ns, name string, special ...appSpec) {
	s.Helper()
	text, err := os.ReadFile("testdata/app.yaml")
	s.must(err)
	var spec appSpec
	for _, spec = range special {
	}
	s.apply(strings.NewReplacer("$IMAGE", images.Ref(images.App), "$NS", ns, "$NAME", name,
		"$LABELS", spec.labels, "$ANNOTATIONS", spec.annotations, "$SECURITY", spec.security).Replace(string(text)))
	began := time.Now()
	s.kubectl("rollout", "status", "-n", ns, "deployment/"+name, "--timeout=2m")
	s.Logf("%s/%s is ready after %s", ns, name, since(began))
}

// remove takes everything out of the cluster that a run puts in.
func (s *stage) remove(ctx context.Context) {
	s.Helper()
	_, _ = s.run(ctx, s.Helm, "uninstall", "sallyport", "-n", system, "--wait", "--timeout", "3m")
	s.removeAmbient(ctx)
	// How a release leaves was seen before: nobody waits here for proxies that drain, or for programs that hear no signal. Pods go first: a
	// namespace that is deleted with pods in it is looked at again when half of the time is over that these asked for.
	ours := []string{system, shop, plain, calm, roams}
	for _, ns := range ours {
		_, _ = s.run(ctx, s.Kubectl, "delete", "deployments,statefulsets,jobs,cronjobs", "--all", "-n", ns, "--wait=false")
		_, _ = s.run(ctx, s.Kubectl, "delete", "pods", "--all", "-n", ns, "--grace-period=1", "--timeout=3m")
	}
	_, _ = s.run(ctx, append([]string{s.Kubectl, "delete", "namespace", "--ignore-not-found", "--timeout=3m"}, ours...)...)
	_ = s.NodeCommand(ctx, "nft", "delete", "table", "inet", "sallyport_guard").Run() // of a run that died with its guard
}

// tell prints what is needed to understand a failure.
func (s *stage) tell() {
	ctx := context.WithoutCancel(s.Context())
	for _, args := range [][]string{
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--field-selector", "type!=Normal"},
		{"logs", "-n", system, "-l", "app=sallyport", "--tail=60", "--prefix"},
		{"logs", "-n", system, "-l", "istio=egressgateway", "--tail=40", "--prefix"},
		{"logs", "-n", system, "-l", "app=sallyport-audit", "--tail=20", "--prefix"},
		{"logs", "-n", system, "-l", agentLabel, "--tail=60", "--prefix"},
		{"logs", "-n", shop, "-l", "app", "-c", "istio-proxy", "--tail=40", "--prefix"},
	} {
		out, _ := s.run(ctx, append([]string{s.Kubectl}, args...)...)
		s.Logf("kubectl %s\n%s", strings.Join(args, " "), shortened(out))
	}
}

// shortened cuts long lines.
func shortened(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if len(l) > 300 {
			lines[i] = l[:300] + "…"
		}
	}
	return strings.Join(lines, "\n")
}

func (s *stage) run(ctx context.Context, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, exit.Stderr)
	}
	return string(out), err
}

func (s *stage) kubectl(args ...string) string {
	s.Helper()
	out, err := s.ask(args...)
	s.must(err)
	return out
}

// ask is kubectl where it may fail: in what is tried again.
func (s *stage) ask(args ...string) (string, error) {
	return s.run(s.Context(), append([]string{s.Kubectl}, args...)...)
}

func (s *stage) helm(args ...string) {
	s.Helper()
	_, err := s.run(s.Context(), append([]string{s.Helm}, args...)...)
	s.must(err)
}

func (s *stage) apply(yaml string) {
	s.Helper()
	s.must(s.Apply(s.Context(), []byte(yaml)))
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) mustf(err error, format string, args ...any) {
	s.Helper()
	if err != nil {
		s.Fatalf("%v: %s", err, fmt.Sprintf(format, args...))
	}
}

// becomes waits until f gives nil. What f asks may fail; it is asked again.
func (s *stage) becomes(what string, limit time.Duration, f func() error) {
	s.Helper()
	if err := world.Within(s.Context(), limit, f); err != nil {
		s.Fatalf("%s: not within %s: %v", what, limit, err)
	}
}

// podIP is the address of the running pod with this app label.
func (s *stage) podIP(ns, app string) string {
	s.Helper()
	return strings.TrimSpace(s.kubectl("get", "pods", "-n", ns, "-l", "app="+app, "--field-selector=status.phase=Running",
		"-o", "jsonpath={.items[0].status.podIP}"))
}

// fetched is what an app tells of a request that it made.
type fetched struct {
	Status int
	Body   string
	Remote string
	Error  string
}

// String is for messages.
func (f fetched) String() string { return fmt.Sprintf("%d %q %s", f.Status, f.Body, f.Error) }

// fetch lets an app make a request within a time; a nil error says that the app was asked, not what came of it.
func fetch(ctx context.Context, app, target string, within time.Duration) (f fetched, err error) {
	query := url.Values{"url": {target}, "timeout": {within.String()}, "ca": {"/etc/outside/roots.pem"}}
	ctx, cancel := context.WithTimeout(ctx, within+30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+app+":8080/fetch?"+query.Encode(), nil)
	if err != nil {
		return f, err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return f, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return f, err
	}
	if err := json.Unmarshal(body, &f); err != nil {
		return f, fmt.Errorf("%s: %s: %w", target, body, err)
	}
	return f, nil
}

// reaches says whether an app gets a 200 from the target.
func reaches(ctx context.Context, app, target string) error {
	f, err := fetch(ctx, app, target, 20*time.Second)
	if err == nil && f.Status != http.StatusOK {
		err = fmt.Errorf("%s: %s", target, f)
	}
	return err
}

// opens waits until an app reaches a host by HTTP and by TLS, which are told to its proxy one after the other.
func (s *stage) opens(app, host, path string) {
	s.Helper()
	for _, scheme := range []string{"http://", "https://"} {
		s.becomes(scheme+host+" is reached", time.Minute, func() error { return reaches(s.Context(), app, scheme+host+path) })
	}
}

// blocked says whether an app gets nothing from the target.
func blocked(ctx context.Context, app, target string) error {
	f, err := fetch(ctx, app, target, 5*time.Second)
	if err == nil && f.Status == http.StatusOK {
		err = fmt.Errorf("%s answered: %s", target, f)
	}
	return err
}

// get reads a page.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

func since(began time.Time) time.Duration { return time.Since(began).Round(10 * time.Millisecond) }
