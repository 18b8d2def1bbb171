package howto

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/sallyport/sallyport/e2e/cluster/apiserver"
	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/tools"
	"github.com/sallyport/sallyport/e2e/world"
)

// patience is how long a reader waits for what takes its time: a build, a first start on a busy machine.
const patience = 4 * time.Minute

func bash(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
}

// quote makes one command of words.
func quote(words ...string) string {
	var quoted []string
	for _, w := range words {
		quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(quoted, " ")
}

// here is a reader in a folder of this machine, with more in the environment.
func here(t *testing.T, folder string, env map[string]string) *Reader {
	t.Helper()
	return readerBy(t, folder, func(ctx context.Context, _ string, _ int, script string) *exec.Cmd {
		cmd := bash(ctx, script)
		cmd.Dir, cmd.Env = folder, os.Environ()
		for name, value := range env {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
		return cmd
	})
}

// readerBy is a reader whose commands are made by a function. What stays is ended with the test.
func readerBy(t *testing.T, folder string, command func(context.Context, string, int, string) *exec.Cmd) *Reader {
	t.Helper()
	r := &Reader{Folder: folder, Command: command, Patience: patience}
	stays := 0
	r.Start = func(host string, user int, script string) (func() error, error) {
		stays++
		log := filepath.Join(t.TempDir(), fmt.Sprintf("stays-%d.log", stays))
		p, err := world.Launch("what stays", log, command(context.WithoutCancel(t.Context()), host, user, script))
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			if err := p.StopAll(20 * time.Second); err != nil {
				t.Log(err)
			}
			if t.Failed() {
				text, _ := os.ReadFile(log)
				t.Logf("%s\n%s", script, last(string(text), 4000))
			}
		})
		return func() error {
			err := p.Running()
			if err != nil {
				text, _ := os.ReadFile(log)
				err = fmt.Errorf("%w\n%s", err, last(string(text), 4000))
			}
			return err
		}, nil
	}
	return r
}

func last(text string, n int) string { return text[max(0, len(text)-n):] }

// kit is a folder with the programs, for the PATH of any user.
func kit(t *testing.T, dir string) (string, story.Programs) {
	t.Helper()
	root, err := story.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := story.FindPrograms(root)
	if err != nil {
		t.Skip(err)
	}
	bin := filepath.Join(dir, "kit")
	if programs, err = programs.CopyTo(bin); err != nil {
		t.Fatal(err)
	}
	if helm, err := tools.Cached("helm", "helm"); err == nil {
		if err := os.Symlink(helm, filepath.Join(bin, "helm")); err != nil {
			t.Fatal(err)
		}
	}
	return bin, programs
}

// environment is a reader's: the programs on his PATH, a home of his own, and Go's caches, which are not his home's
// business.
func environment(t *testing.T, bin, home string) map[string]string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": bin + ":" + os.Getenv("PATH") + ":/usr/sbin:/sbin", "HOME": home, "XDG_CACHE_HOME": cache, "KUBECONFIG": ""}
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GOSUMDB"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env[name] = strings.TrimSpace(string(out))
	}
	return env
}

// The names of the outside, and the address of each.
var names = map[string]netip.Addr{"external.com": world.OutsideAddrs[0], "elsewhere.com": world.OutsideAddrs[2]}

// stage is a world with an outside, and a folder that all hosts share.
type stage struct {
	*world.World
	outside *outside.Outside
	folder  string
	bin     string
	env     map[string]string
	hosts   map[string]*world.Host
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if err := world.CanNamespace(); err != nil {
		t.Skip(err)
	}
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	w, err := world.New(run)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{World: w, folder: filepath.Join(run.Dir, "folder"), hosts: map[string]*world.Host{"": w.App, "app": w.App, "gateway": w.Gateway, "controller": w.Control}}
	plan := outside.Plan{Addrs: world.OutsideAddrs, HTTPPort: 80, HTTPSPort: 443, NameServer: netip.AddrPortFrom(world.NameServerAddr, 53)}
	for name := range names {
		plan.Names = append(plan.Names, name)
	}
	plan.Names = append(plan.Names, "dns.example")
	if s.outside, err = outside.Start(w.Outside, plan); err != nil {
		t.Fatal(err)
	}
	run.OnClose(s.outside.Close)
	for name, addr := range names {
		s.outside.Set(name, time.Minute, addr)
	}
	t.Cleanup(func() { // after what stays was asked to end
		for _, h := range s.hosts {
			_ = h.KillAll()
		}
	})
	home := filepath.Join(run.Dir, "home")
	if err := errors.Join(os.Mkdir(s.folder, 0o777), os.Chmod(s.folder, 0o777), os.Mkdir(home, 0o777)); err != nil {
		t.Fatal(err)
	}
	s.bin, _ = kit(t, run.Dir)
	s.env = environment(t, s.bin, home)
	roots := filepath.Join(home, "roots.pem") // where anybody may watch it
	if err := os.WriteFile(roots, s.outside.CA.PEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE"} { // whom a machine trusts
		s.env[name] = roots
	}
	return s
}

// reader is on the hosts of the stage. Each host has a /run of its own.
func (s *stage) reader(t *testing.T) *Reader {
	r := readerBy(t, s.folder, func(ctx context.Context, host string, user int, script string) *exec.Cmd {
		words := []string{"env", "-C", s.folder}
		for name, value := range s.env {
			words = append(words, name+"="+value)
		}
		if user != 0 {
			words = append(words, "setpriv", "--reuid", fmt.Sprint(user), "--regid", fmt.Sprint(user), "--clear-groups")
		}
		words = append(words, "bash", "-euo", "pipefail", "-c", script)
		mount := "mount -t tmpfs none /run; mkdir -m 1777 /run/sallyport; exec " + quote(words...)
		return s.hosts[host].Command(ctx, 0, "sh", "-ec", mount)
	})
	r.Judge = func(ctx context.Context, text string) error {
		return judgeYAML(ctx, filepath.Join(s.bin, "sallyport"), filepath.Join(s.bin, "helm"), text)
	}
	return r
}

// onMachine is a machine with the programs on its PATH; README is read in a checkout.
func onMachine(t *testing.T, document string) (*Reader, func()) {
	s := newStage(t)
	r := s.reader(t)
	switch document {
	case "README.md":
		checkout(t, s.folder)
	case "audit-log.md", "console.md", "detect.md", "simulate.md":
		s.used(t, r)
	case "choose-dns-upstreams.md":
		s.resolveByTLS(t)
	}
	return r, nil
}

// used starts `sallyport up` and uses it, so that there is a log.
func (s *stage) used(t *testing.T, r *Reader) {
	t.Helper()
	for _, b := range []Block{
		{Kind: Shell, Text: "mkdir egress\nsallyport up ./egress\n", Note: Note{Until: "curl -s -o /dev/null 127.0.0.1:3128"}},
		{Kind: Console, Text: "$ HTTPS_PROXY=http://127.0.0.1:3128 curl -s https://elsewhere.com\n", Note: Note{Fails: []int{1}}},
	} {
		if err := r.Follow(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
}

// resolveByTLS gives the name server the addresses that the document has, and TLS.
func (s *stage) resolveByTLS(t *testing.T) {
	t.Helper()
	for _, addr := range []string{"192.0.2.1", "192.0.2.2"} {
		for _, call := range [][]string{
			{"-n", s.World.Outside.Namespace(), "addr", "add", addr + "/32", "dev", "lo"},
			{"-n", s.Router.Namespace(), "route", "add", addr + "/32", "via", world.NameServerAddr.String()},
		} {
			if out, err := exec.Command("ip", call...).CombinedOutput(); err != nil {
				t.Fatalf("ip %v: %v %s", call, err, out)
			}
		}
		l, err := s.World.Outside.Listen(addr + ":853")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.outside.CA.Issue("dns.example") }
		go forward(tls.NewListener(l, &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12}), func() (net.Conn, error) {
			return s.World.Outside.DialContext(context.Background(), "tcp", s.outside.NameServer.String())
		})
	}
}

// forward joins each connection with one that dial makes, until the listener is closed.
func forward(l net.Listener, dial func() (net.Conn, error)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = c.Close() }()
			up, err := dial()
			if err != nil {
				return
			}
			defer func() { _ = up.Close() }()
			go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
			_, _ = io.Copy(c, up)
		}()
	}
}

// meshFromFiles is the document that makes a mesh on hosts. Others begin with that mesh.
const meshFromFiles = "run-from-files.md"

// followed does what another document says.
func followed(t *testing.T, r *Reader, document string) {
	t.Helper()
	for _, d := range documents(t) {
		for _, b := range d.blocks {
			if d.name != document || b.Not != "" || b.Kind == Text {
				continue
			}
			if err := r.Follow(t.Context(), b.Block); err != nil {
				t.Fatalf("%s:%d: %v", d.path, b.Line, err)
			}
		}
	}
}

// onHosts has the addresses and names that the documents use. At the end, what the mesh is for has to work.
func onHosts(t *testing.T, document string) (*Reader, func()) {
	s := newStage(t)
	hosts := map[*world.Host]string{s.App: "10.0.0.1", s.Gateway: "10.0.0.2", s.Control: "10.0.0.3"}
	if document == "machines.md" {
		machine, err := s.AddPod("machine", netip.MustParseAddr("10.77.0.95"))
		if err != nil {
			t.Fatal(err)
		}
		hosts[machine], s.hosts["machine"] = "10.0.0.4", machine
	}
	for host, addr := range hosts {
		if out, err := exec.Command("ip", "-n", host.Namespace(), "addr", "add", addr+"/24", "dev", "eth0").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		if err := host.Etc("hosts", []byte("127.0.0.1 localhost\n10.0.0.3 controller.example\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(s.bin, "envoy"), filepath.Join(s.folder, "envoy")); err != nil {
		t.Fatal(err)
	}
	r := s.reader(t)
	if document != meshFromFiles {
		followed(t, r, meshFromFiles)
		return r, nil
	}
	return r, func() {
		if err := r.Follow(t.Context(), Block{Kind: YAML, Text: entry, Note: Note{File: "mesh/external.yaml"}}); err != nil {
			t.Fatal(err)
		}
		// Until the proxies know of it, it leaves by itself: nothing is closed here.
		err := world.Within(t.Context(), patience, func() error {
			if err := r.Follow(t.Context(), Block{Kind: Console, Text: "$ curl -sf https://external.com/mesh\n", Note: Note{Host: "app", User: world.AppUID}}); err != nil {
				return err
			}
			seen := s.outside.Sightings("/mesh")
			if len(seen) == 0 || !slices.Contains([]string{world.GatewayAddr.String(), "10.0.0.2"}, seen[len(seen)-1].Peer.Addr().String()) {
				return fmt.Errorf("the outside saw %v, want the gateway at last", seen)
			}
			return nil
		})
		if err != nil {
			t.Errorf("a host that is registered then: %v", err)
		}
	}
}

const entry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: external, namespace: default}
spec:
  hosts: [external.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 443, name: https, protocol: HTTPS}
`

// checkout brings the reader what a clone would have.
func checkout(t *testing.T, folder string) {
	t.Helper()
	root, err := story.Root()
	if err == nil {
		err = Clone(root, folder)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// onRegistry is a checkout on a machine whose registry takes images without asking who comes. To be quick it asks for
// this machine's architecture only.
func onRegistry(t *testing.T, _ string) (*Reader, func()) {
	if _, err := exec.LookPath("skopeo"); err != nil {
		t.Skip("there is no skopeo: `make tools` installs it")
	}
	folder := t.TempDir()
	checkout(t, folder)
	blobs := registry.NewDiskBlobHandler(t.TempDir())
	server := httptest.NewServer(registry.New(registry.WithBlobHandler(blobs)))
	t.Cleanup(server.Close)
	addr := server.Listener.Addr().String()
	home := t.TempDir()
	conf := filepath.Join(home, ".config", "containers", "registries.conf")
	if err := os.MkdirAll(filepath.Dir(conf), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(conf, fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", addr), 0o644); err != nil {
		t.Fatal(err)
	}
	policy := filepath.Join(filepath.Dir(conf), "policy.json")
	if err := os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	env := environment(t, t.TempDir(), home)
	env["REGISTRY"], env["TAG"], env["ARCHS"] = addr+"/mesh", "v0.1.0", goarch(t)
	return here(t, folder, env), func() {
		for _, image := range []string{"sallyport", "sallyport-proxy", "sallyport-node"} {
			resp, err := server.Client().Get(server.URL + "/v2/mesh/" + image + "/manifests/v0.1.0")
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, resp.Body.Close()); err != nil {
				t.Fatal(err)
			}
			if resp.StatusCode != 200 || !strings.Contains(string(body), "attestation-manifest") {
				t.Errorf("%s in the registry: %s %s", image, resp.Status, body)
			}
		}
	}
}

func goarch(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOHOSTARCH").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// onAPIServer is where kubectl leads to an API server, with what the documents take as given.
func onAPIServer(t *testing.T, _ string) (*Reader, func()) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skip("there is no kubectl")
	}
	server := apiserver.StartWith(t, apiserver.Options{})
	dir := t.TempDir()
	bin, programs := kit(t, dir)
	home, folder := filepath.Join(dir, "home"), filepath.Join(dir, "folder")
	env := environment(t, bin, home)
	config, err := os.ReadFile(server.Kubeconfig)
	if err := errors.Join(err, os.MkdirAll(filepath.Join(home, ".kube"), 0o755), os.MkdirAll(filepath.Join(folder, "app", "templates"), 0o755),
		os.WriteFile(filepath.Join(home, ".kube", "config"), config, 0o600)); err != nil {
		t.Fatal(err)
	}
	env["KUBECONFIG"] = filepath.Join(home, ".kube", "config")
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt", "ca-cert.pem", "ca-key.pem", "cert-chain.pem", "root-cert.pem"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("PEM\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"serviceentry.yaml": entry, "app/Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n", "app/templates/pod.yaml": pod,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := here(t, folder, env)
	r.Judge = func(ctx context.Context, text string) error {
		return judgeYAML(ctx, programs.Sallyport, filepath.Join(bin, "helm"), text)
	}
	given := Block{Kind: Shell, Text: `context=$(kubectl config current-context)
kubectl config set-context staging --cluster "$(kubectl config view -o jsonpath='{.contexts[0].context.cluster}')" --user "$(kubectl config view -o jsonpath='{.contexts[0].context.user}')"
for ns in istio-system shop; do kubectl create namespace $ns; done
kubectl create -f - <<'YAML'
apiVersion: v1
kind: Node
metadata: {name: worker-1}
spec: {podCIDR: 10.244.1.0/24, podCIDRs: [10.244.1.0/24]}
YAML
`}
	if err := r.Follow(t.Context(), given); err != nil {
		t.Fatal(err)
	}
	return r, nil
}

const pod = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {sidecar.istio.io/inject: "true"}}
spec:
  containers:
  - {name: web, image: web}
`
