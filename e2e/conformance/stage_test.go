package conformance

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	suites "sigs.k8s.io/gateway-api/conformance"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/world"
)

const system = "istio-system"

// theirs are the namespaces that the suite makes; those whose Secrets are read must be there when the chart is installed. In ofMesh pods get
// sidecars.
var (
	theirs = []string{"gateway-conformance-infra", "gateway-conformance-app-backend", "gateway-conformance-web-backend"}
	ofMesh = []string{"gateway-conformance-mesh", "gateway-conformance-mesh-consumer"}
)

// stage is a cluster with the API's CRDs, the release, and a load balancer.
type stage struct {
	*testing.T
	*cluster.Cluster
}

// set makes the cluster ready for the suite.
func set(t *testing.T) *stage {
	t.Helper()
	c, err := cluster.Open()
	if err != nil {
		t.Skip(err)
	}
	s := &stage{t, c}
	s.remove(t.Context())
	if os.Getenv("SALLYPORT_KEEP") == "" {
		t.Cleanup(func() { s.remove(context.WithoutCancel(t.Context())) })
	}
	s.servers()
	s.crds()
	for _, ns := range append([]string{system}, theirs...) {
		s.run(s.Kubectl, "create", "namespace", ns)
	}
	s.install()
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		balance(ctx, t, kubernetes.NewForConfigOrDie(c.Config))
	}()
	t.Cleanup(func() {
		cancel()
		<-over
	})
	return s
}

// imageName finds images in manifests.
var imageName = regexp.MustCompile(`(?m)^\s*(?:- )?image: *"?(\S+?)"?$`)

// servers brings the suite's images to the node, by the names that its manifests say.
func (s *stage) servers() {
	s.Helper()
	names := map[string]string{}
	err := fs.WalkDir(suites.Manifests, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := fs.ReadFile(suites.Manifests, path)
		for _, m := range imageName.FindAllSubmatch(text, -1) {
			switch ref := string(m[1]); {
			case strings.Contains(ref, "/echo-basic:"):
				names[ref] = images.Echo
			case strings.Contains(ref, "/echo-advanced:"):
				names[ref] = images.MeshEcho
			case strings.Contains(ref, "/coredns:"):
				names[ref] = images.CoreDNS
			}
		}
		return err
	})
	if err != nil || len(names) == 0 {
		s.Fatalf("images of the suite: %v, %v", names, err)
	}
	if err := s.LoadAs(s.Context(), names); err != nil {
		s.Fatal(err)
	}
}

// crds installs the API's experimental channel, whatever channel was there. Of that, a policy lets the standard channel stay what it is; it
// is gone, and asked no more, a moment after it is deleted.
func (s *stage) crds() {
	s.Helper()
	files, err := cluster.GatewayAPI(s.Context(), cluster.Experimental)
	if err != nil {
		s.Fatal(err)
	}
	args := []string{s.Kubectl, "apply", "--server-side", "--force-conflicts"}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	s.run(s.Kubectl, "delete", "--ignore-not-found", "validatingadmissionpolicybinding,validatingadmissionpolicy", "safe-upgrades.gateway.networking.k8s.io")
	if err := world.Within(s.Context(), time.Minute, func() error {
		if out, err := s.command(s.Context(), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	}); err != nil {
		s.Fatal(err)
	}
	s.run(s.Kubectl, "wait", "--for=condition=Established", "--timeout=60s", "crd", "gatewayclasses.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io")
}

// install packages the chart and installs it.
func (s *stage) install() {
	s.Helper()
	dist := s.TempDir()
	s.run("../../chart/package", "e2e", dist)
	found, err := filepath.Glob(filepath.Join(dist, "*.tgz"))
	if err != nil || len(found) != 1 {
		s.Fatalf("%v: %v", found, err)
	}
	s.run(s.Helm, "install", "sallyport", found[0], "-n", system, "-f", "testdata/values.yaml", "--wait", "--timeout", "3m")
}

// remove takes everything out of the cluster that a run puts in. Nobody waits for proxies that drain: pods go first, and at once.
func (s *stage) remove(ctx context.Context) {
	ours := slices.Concat([]string{system}, theirs, ofMesh)
	commands := [][]string{{s.Helm, "uninstall", "sallyport", "-n", system, "--wait", "--timeout", "1m"}}
	for _, ns := range ours {
		commands = append(commands,
			[]string{s.Kubectl, "delete", "deployments,statefulsets,jobs,cronjobs", "--all", "-n", ns, "--wait=false"},
			[]string{s.Kubectl, "delete", "pods", "--all", "-n", ns, "--grace-period=1", "--timeout=120s"})
	}
	commands = append(commands,
		append([]string{s.Kubectl, "delete", "namespace", "--ignore-not-found", "--timeout=120s"}, ours...),
		[]string{s.Kubectl, "delete", "gatewayclass", "sallyport", "--ignore-not-found"})
	for _, args := range commands {
		_ = s.command(ctx, args...).Run() // nothing of it may be there
	}
}

func (s *stage) command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	return cmd
}

// run gives what a command prints.
func (s *stage) run(argv ...string) string {
	s.Helper()
	cmd := s.command(s.Context(), argv...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		s.Fatalf("%s: %v: %s", strings.Join(argv, " "), err, &problem)
	}
	return string(out)
}
