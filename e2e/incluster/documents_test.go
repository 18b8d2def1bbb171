package incluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/cluster"
	"github.com/sallyport/sallyport/e2e/cluster/images"
	"github.com/sallyport/sallyport/e2e/howto"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestDocuments runs the blocks of README and the how-tos that are about a cluster, as they are written. Package howto runs
// the others. What helm is told beside: the images of this cluster, and what it is too small for.
func TestDocuments(t *testing.T) {
	paths, err := filepath.Glob("../../docs/how-to/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append([]string{"../../README.md"}, paths...) {
		blocks := clusterBlocks(t, path)
		if len(blocks) == 0 {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			given, known := givens[filepath.Base(path)]
			if !known {
				t.Fatal("say in givens what the reader of this document has")
			}
			s := prepare(t)
			t.Cleanup(func() { // what the documents change of a namespace that is not ours
				ctx := context.WithoutCancel(t.Context())
				_, _ = s.run(ctx, s.Kubectl, "label", "namespace", "default", "istio-injection-")
				_, _ = s.run(ctx, s.Kubectl, "delete", "-n", "default", "deployment/web", "serviceentry/external", "--ignore-not-found")
			})
			r := s.reader()
			if given != nil {
				given(s, r)
			}
			for _, b := range blocks {
				began := time.Now()
				if err := r.Follow(t.Context(), b); err != nil {
					t.Fatalf("%s:%d: %v", path, b.Line, err)
				}
				t.Logf("%s:%d works after %s", path, b.Line, since(began))
			}
		})
	}
}

// givens are what the readers of documents about a cluster have, beside the cluster.
var givens = map[string]func(*stage, *howto.Reader){
	"README.md":                  nil,
	"install-on-kubernetes.md":   (*stage).runsSomething,
	"ambient.md":                 (*stage).hasWaypoints,
	"ask-a-cluster.md":           (*stage).isInstalled,
	"close-the-ways-around.md":   (*stage).isInstalled,
	"gateway-api.md":             (*stage).hasGatewayAPI,
	"let-others-read-the-log.md": (*stage).asksOnAndOn,
	"several-clusters.md":        (*stage).hasTwoContexts,
	"verify.md":                  (*stage).isInstalled,
}

// clusterBlocks are those of a document that are run here.
func clusterBlocks(t *testing.T, path string) []howto.Block {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := howto.Read(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return slices.DeleteFunc(blocks, func(b howto.Block) bool { return b.Scene != "cluster" })
}

// runsSomething: a cluster has deployments before a mesh comes.
func (s *stage) runsSomething(*howto.Reader) {
	s.kubectl("create", "deployment", "web", "-n", "default", "--image", images.Ref(images.App))
}

// isInstalled: the release is there, its chart is in dist, and an app runs.
func (s *stage) isInstalled(r *howto.Reader) {
	s.install()
	s.must(os.MkdirAll(filepath.Join(r.Folder, "dist"), 0o755))
	out, err := exec.CommandContext(s.Context(), "cp", s.chart, filepath.Join(r.Folder, "dist")).CombinedOutput()
	s.mustf(err, "%s", out)
	s.startApp(shop, "checkout")
}

// asksOnAndOn: an app asks for something each second. This cluster's log ends with its pod, which the document replaces.
func (s *stage) asksOnAndOn(r *howto.Reader) {
	s.isInstalled(r)
	app := s.podIP(shop, "checkout")
	ctx, stop := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ctx.Err() == nil; i++ { // for another name each time: one that is refused is recorded once a minute
			_, _ = fetch(ctx, app, fmt.Sprintf("http://n%d.%s/", i, nobody), 5*time.Second) // what it says is in the log
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	s.Cleanup(func() {
		stop()
		<-ended
	})
}

// hasWaypoints is isInstalled where the Gateway API's CRDs are.
func (s *stage) hasWaypoints(r *howto.Reader) {
	s.installGatewayAPI()
	s.isInstalled(r)
}

// hasGatewayAPI: the API's CRDs are there, and pods with sidecars, of which one can ask others.
func (s *stage) hasGatewayAPI(r *howto.Reader) {
	s.installGatewayAPI()
	s.isInstalled(r)
	for _, name := range []string{"web", "web-next"} {
		s.startApp(shop, name)
		s.kubectl("expose", "deployment", name, "-n", shop, "--port=8080", "--name", name, "--overrides", `{"spec":{"ports":[{"name":"http","port":8080}]}}`)
	}
	s.kubectl("create", "deployment", "asker", "-n", shop, "--image", images.Ref(images.Curl))
	s.kubectl("set", "serviceaccount", "-n", shop, "deployment/asker", "default")
	s.kubectl("rollout", "status", "-n", shop, "deployment/asker", "--timeout=2m")
}

// hasTwoContexts: kubectl knows two contexts, which lead to this one cluster.
func (s *stage) hasTwoContexts(r *howto.Reader) {
	s.isInstalled(r)
	s.Cleanup(func() { // what is in no namespace
		_, _ = s.run(context.WithoutCancel(s.Context()), s.Kubectl, "delete", "clusterrole/sallyport-remote-reader-istio-system", "clusterrolebinding/sallyport-remote-reader-istio-system", "--ignore-not-found")
	})
	s.must(r.Follow(s.Context(), howto.Block{Kind: howto.Shell, Text: `for context in east west; do
  kubectl config set-context $context --cluster "$(kubectl config view -o jsonpath='{.contexts[0].context.cluster}')" --user "$(kubectl config view -o jsonpath='{.contexts[0].context.user}')"
done
`}))
}

// installGatewayAPI installs the CRDs of the API's module.
func (s *stage) installGatewayAPI() {
	files, err := cluster.GatewayAPI(s.Context(), cluster.Standard)
	s.must(err)
	args := []string{"apply", "--server-side", "--force-conflicts"}
	for _, f := range files {
		args = append(args, "-f", f)
	}
	s.kubectl(args...)
	s.Cleanup(func() {
		_, _ = s.run(context.WithoutCancel(s.Context()), append([]string{s.Kubectl, "delete", "--ignore-not-found"}, args[3:]...)...)
	})
	s.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "gateways.gateway.networking.k8s.io", "httproutes.gateway.networking.k8s.io")
}

// reader is at the cluster's admin's desk, in a checkout.
func (s *stage) reader() *howto.Reader {
	s.Helper()
	folder, home := s.TempDir(), s.TempDir()
	root, err := filepath.Abs("../..")
	s.must(err)
	s.must(howto.Clone(root, folder))
	config, err := os.ReadFile(s.Kubeconfig)
	s.must(err)
	s.must(os.MkdirAll(filepath.Join(home, ".kube"), 0o700))
	s.must(os.WriteFile(filepath.Join(home, ".kube", "config"), config, 0o600))
	tools := s.TempDir()
	s.must(os.Symlink(s.Kubectl, filepath.Join(tools, "kubectl")))
	s.must(os.WriteFile(filepath.Join(tools, "helm"), fmt.Appendf(nil,
		"#!/bin/sh\ncase $1 in install|upgrade) exec %s \"$@\" --values %s --set %s ;; esac\nexec %[1]s \"$@\"\n", s.Helm, filepath.Join(root, "e2e/incluster/testdata/values.yaml"), strings.Join(placeValues(), ",")), 0o755))
	cache, err := os.UserCacheDir()
	s.must(err)
	env := append(os.Environ(), "HOME="+home, "KUBECONFIG="+filepath.Join(home, ".kube", "config"), "XDG_CACHE_HOME="+cache,
		"PATH="+tools+":"+filepath.Join(root, "bin")+":"+os.Getenv("PATH"), "REGISTRY="+images.Hub, "TAG="+images.Tag)
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} {
		out, err := exec.Command("go", "env", name).Output()
		s.must(err)
		env = append(env, name+"="+string(out[:max(0, len(out)-1)]))
	}
	command := func(ctx context.Context, script string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
		cmd.Dir, cmd.Env = folder, env
		return cmd
	}
	return &howto.Reader{
		Folder: folder, Patience: 5 * time.Minute,
		Command: func(ctx context.Context, _ string, _ int, script string) *exec.Cmd { return command(ctx, script) },
		Start: func(_ string, _ int, script string) (func() error, error) {
			p, err := world.Launch("what stays", filepath.Join(s.TempDir(), "log"), command(context.WithoutCancel(s.Context()), script))
			if err != nil {
				return nil, err
			}
			s.Cleanup(func() { _ = p.StopAll(10 * time.Second) })
			return p.Running, nil
		},
	}
}
