package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/cluster/node"
	"github.com/sallyport/sallyport/e2e/world"
)

const (
	upLimit   = 3 * time.Minute
	downLimit = time.Minute
)

// TestLifecycle brings a cluster up, uses it, kills it, brings it up again and removes it. It takes a minute or two
// and the one cluster that a machine can have, so it must be asked for.
func TestLifecycle(t *testing.T) {
	if os.Getenv("SALLYPORT_CLUSTER") != "own" {
		t.Skip("set SALLYPORT_CLUSTER=own to let this test bring up and remove this machine's test cluster")
	}
	if os.Geteuid() != 0 {
		t.Fatal("SALLYPORT_CLUSTER=own needs root")
	}
	if _, err := cluster.Open(); !errors.Is(err, cluster.ErrDown) {
		t.Skip("there is a cluster already, which may be in use")
	}
	before := snapshot(t)
	t.Cleanup(func() { down(t) })

	c := up(t)
	use(t, c)

	t.Log("killing the node's first process")
	pid, running, err := node.Running(cluster.Dir)
	if err != nil || !running {
		t.Fatalf("node: running %v, %v", running, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), downLimit, func() error {
		if _, running, err := node.Running(cluster.Dir); running || err != nil {
			return errors.Join(errors.New("a node that was killed is taken for one that runs"), err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	use(t, up(t))

	down(t)
	before.compare(t)
}

// TestRunning uses the cluster that is up, and leaves it up.
func TestRunning(t *testing.T) {
	c, err := cluster.Open()
	if err != nil {
		t.Skip(err)
	}
	use(t, c)
}

func up(t *testing.T) *cluster.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	began := time.Now()
	c, err := cluster.Up(ctx, cluster.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("up after %s", time.Since(began).Round(time.Second/10))
	return c
}

func down(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), downLimit)
	defer cancel()
	began := time.Now()
	if err := cluster.Down(ctx); err != nil {
		t.Fatal(err)
	}
	t.Logf("down after %s", time.Since(began).Round(time.Second/10))
}

// use runs pods, services, name resolution inside and outside the cluster, and a cable to a network outside.
func use(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upLimit)
	defer cancel()
	if _, err := c.LoadImages(ctx, images.App, images.Curl); err != nil {
		t.Fatal(err)
	}
	if again, err := c.LoadImages(ctx, images.App); err != nil || len(again) != 0 {
		t.Errorf("loading what is there: %v, %v", again, err)
	}
	manifest := strings.NewReplacer("$APP", images.Ref(images.App), "$CURL", images.Ref(images.Curl)).Replace(pods)
	if err := c.Apply(ctx, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	defer kubectl(ctx, t, c, "delete", "namespace", "smoke", "--timeout=1m")
	kubectl(ctx, t, c, "wait", "-n", "smoke", "--for=condition=Ready", "pods", "--all", "--timeout=90s")

	client := strings.TrimSpace(kubectl(ctx, t, c, "get", "pod", "-n", "smoke", "client", "-o", "jsonpath={.status.podIP}"))
	server := strings.TrimSpace(kubectl(ctx, t, c, "get", "pod", "-n", "smoke", "server", "-o", "jsonpath={.status.podIP}"))
	if addr, err := netip.ParseAddr(client); err != nil || !cluster.PodNetwork.Contains(addr) {
		t.Fatalf("address of the client's pod: %q", client)
	}

	// From the host to the pod; from there to the service, by name. Its rules come some moments after its pods.
	var got map[string]any
	if err := world.Within(ctx, time.Minute, func() error {
		if got = ask(ctx, t, client, "/fetch", "url", "http://server.smoke.svc.cluster.local/hello"); got["status"] != 200.0 {
			return fmt.Errorf("from the client to the service: %v", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var seen struct{ Name, Remote, Path string }
	body, _ := got["body"].(string)
	if err := json.Unmarshal([]byte(body), &seen); err != nil {
		t.Fatalf("%v: %v", err, got)
	}
	if host, _, _ := strings.Cut(seen.Remote, ":"); seen.Name != "server" || host != client || seen.Path != "/hello" {
		t.Errorf("by the service: %+v, want the server to see %s", seen, client)
	}
	// A pod reaches itself by its own service, too.
	if got := ask(ctx, t, server, "/fetch", "url", "http://server.smoke.svc.cluster.local/"); got["status"] != 200.0 {
		t.Errorf("to itself by the service: %v", got)
	}
	if got := ask(ctx, t, client, "/tcp", "addr", "server.smoke:9090", "send", "hello"); got["received"] != "server: hello\n" {
		t.Errorf("line: %v", got)
	}
	if out := kubectl(ctx, t, c, "exec", "-n", "smoke", "curl", "--", "sh", "-c", "curl -sS -o /dev/null -w '%{http_code}' http://server.smoke/"); out != "200" {
		t.Errorf("curl by kubectl exec: %q", out)
	}
	if out := kubectl(ctx, t, c, "logs", "-n", "smoke", "server"); !strings.Contains(out, "serving") {
		t.Errorf("log of the server: %q", out)
	}
	outside(ctx, t, c, client)
}

// outside plays a network outside the cluster, with a name server and a web server.
func outside(ctx context.Context, t *testing.T, c *cluster.Cluster, client string) {
	t.Helper()
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = run.Close() }()
	w, err := world.New(run)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(ctx, t, client, "/resolve", "name", "api.example.com"); got["notFound"] != true {
		t.Errorf("a name outside, before there is an outside: %v", got)
	}
	there := netip.MustParseAddr("192.0.2.77") // RFC 5737; the world uses the other networks for documentation
	if got := ask(ctx, t, client, "/tcp", "addr", there.String()+":80"); got["connected"] == true {
		t.Errorf("there is a way out of the cluster: %v", got)
	}
	if err := c.Connect("out", w.Outside.Namespace(), []netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")},
		[]netip.Prefix{netip.PrefixFrom(there, 24)}); err != nil {
		t.Fatal(err)
	}
	serveOutside(t, w.Outside, there)
	if err := c.SetDNS(ctx, netip.AddrPortFrom(there, 53)); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.SetDNS(ctx); err != nil {
			t.Error(err)
		}
	}()
	// The name server that is replaced may be asked once more, and what it said that there is no such name is kept for some seconds.
	if err := world.Within(ctx, time.Minute, func() error {
		if got := ask(ctx, t, client, "/fetch", "url", "http://api.example.com/"); got["status"] != 200.0 || got["body"] != client {
			return fmt.Errorf("from outside: %v, want 200 and that the pod's own address was seen", got)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func serveOutside(t *testing.T, h *world.Host, addr netip.Addr) {
	t.Helper()
	packets, err := h.ListenPacket(addr.String() + ":53")
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if q := r.Question[0]; q.Qtype == dns.TypeA && q.Name == "api.example.com." {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 5}, A: addr.AsSlice()})
		}
		_ = w.WriteMsg(m)
	}
	server := &dns.Server{PacketConn: packets, Handler: dns.HandlerFunc(answer)}
	go func() { _ = server.ActivateAndServe() }()
	t.Cleanup(func() { _ = server.Shutdown() })

	listener, err := h.Listen(addr.String() + ":80")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := strings.Cut(r.RemoteAddr, ":")
		_, _ = io.WriteString(w, host)
	})}
	go func() { _ = web.Serve(listener) }()
	t.Cleanup(func() { _ = web.Close() })
}

// ask calls a pod of the app from the host.
func ask(ctx context.Context, t *testing.T, pod, path string, query ...string) map[string]any {
	t.Helper()
	q := url.Values{}
	for i := 0; i < len(query); i += 2 {
		q.Add(query[i], query[i+1])
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s:8080%s?%s", pod, path, q.Encode()), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	if err := json.Unmarshal(content, &result); err != nil {
		t.Fatalf("%s answers %s: %s", request.URL, response.Status, content)
	}
	return result
}

func kubectl(ctx context.Context, t *testing.T, c *cluster.Cluster, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(ctx, c.Kubectl, append([]string{"--kubeconfig", c.Kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

const pods = `
apiVersion: v1
kind: Namespace
metadata: {name: smoke}
---
apiVersion: v1
kind: Pod
metadata: {name: server, namespace: smoke, labels: {app: server}}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: $APP, imagePullPolicy: Never, readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: client, namespace: smoke}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: app, image: $APP, imagePullPolicy: Never, readinessProbe: {httpGet: {path: /healthz, port: 8080}, periodSeconds: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: curl, namespace: smoke}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - {name: curl, image: $CURL, imagePullPolicy: Never}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: smoke}
spec:
  selector: {app: server}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp, port: 9090}
`
