package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// finding is what `sallyport verify -o json` says of one attempt.
type finding struct {
	Way, Tried, Verdict, Seen, Taken, Why, Fix string
	DecidedBy                                  *struct{ Kind, Namespace, Name, Rule string }
}

func (f finding) String() string {
	return fmt.Sprintf("%s, %s: %s: %s\n    → %s", f.Way, f.Tried, f.Verdict, f.Why, f.Fix)
}

// The pod's rules as the injector writes them, and what leaves holes in them.
var (
	podRules  = []string{"init", "-p", "15001", "-z", "15006", "-u", fmt.Sprint(world.ProxyUID), "-m", "REDIRECT", "-i", "*", "-x", "", "-b", "*", "-d", "15090,15020"}
	openRules = append(slices.Clone(podRules), "-o", excludedPort)
	shutRules = append(slices.Clone(podRules), "--block-quic")
)

const (
	excludedPort = "9443"
	nobodysHost  = "unregistered.test"
	peerPodAddr  = "10.77.0.20" // the gateway's pod: its proxy is another one
)

var nobodysAddr = world.OutsideAddrs[3]

// TestVerify: an open pod's ways out are all found, what is said to close each does, and then nothing is open.
func TestVerify(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	startServices(t, scene)
	app := scene.World.App
	if out, err := app.Run(ctx, 0, append([]string{scene.Programs.Agent}, openRules...)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	found, code := verifyApp(ctx, t, scene)
	if code != 1 {
		t.Errorf("an open pod: exit code %d, want 1", code)
	}
	for way, fix := range map[string]string{
		"name": "REGISTRY_ONLY", "address": "REGISTRY_ONLY", "metadata": "REGISTRY_ONLY", "dot": "REGISTRY_ONLY", "doh": "REGISTRY_ONLY",
		"port": "excludeOutboundPorts", "dns-tunnel": "unregistered: refuse", "quic": "--block-quic", "udp": "firewall", "icmp": "firewall",
	} {
		is := ofWay(found, way)
		if i := slices.IndexFunc(is, func(f finding) bool { return f.Verdict == "open" }); i < 0 {
			t.Errorf("of an open pod, %s is not open: %v", way, is)
		} else if !strings.Contains(is[i].Fix, fix) {
			t.Errorf("the way to close %s does not say %q: %s", way, fix, is[i])
		}
	}
	for _, way := range []string{"dns-udp", "dns-tcp", "gateway", "pod", "ipv6"} { // the pod's rules take DNS even so
		for _, f := range ofWay(found, way) {
			if f.Verdict != "closed" {
				t.Errorf("of an open pod: %s", f)
			}
		}
	}

	// What the fixes say, one after the other.
	if out, err := app.Run(ctx, 0, append([]string{scene.Programs.Agent}, shutRules...)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, code = verifyApp(ctx, t, scene)
	for _, way := range []string{"quic", "port"} {
		for _, f := range ofWay(found, way) {
			if (f.Verdict == "open") != (way == "port") || way == "port" && f.Taken != "proxy" { // it is caught, and let pass
				t.Errorf("with the pod's rules closed (exit code %d): %s", code, f)
			}
		}
	}
	if err := scene.SetPolicy(ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	found, code = verifyApp(ctx, t, scene)
	for _, f := range found {
		if open := f.Verdict == "open"; open != (f.Way == "udp" || f.Way == "icmp") {
			t.Errorf("with REGISTRY_ONLY (exit code %d): %s", code, f)
		}
	}
	fence(t, scene)
	found, code = verifyApp(ctx, t, scene)
	if code != 0 {
		t.Errorf("with everything closed: exit code %d", code)
	}
	decided := 0
	for _, f := range found {
		if f.Verdict != "closed" {
			t.Errorf("with everything closed: %s", f)
		}
		if f.DecidedBy != nil {
			decided++
		}
	}
	if decided < 5 || len(found) < 20 {
		t.Errorf("%d findings, of %d of them an object decides: %v", len(found), decided, found)
	}
	if n := scene.Outside.ConnectionsTo(nobodysAddr); n > 60 {
		t.Errorf("the target took %d connections", n)
	}
}

// TestVerifyUp: through the proxy of `sallyport up`, without root.
func TestVerifyUp(t *testing.T) {
	t.Parallel()
	ctx, scene := setScene(t, story.OnLoopback)
	targets := []string{
		"--target", nobodysHost, "--registered", "external.com", "--target-ip", "127.0.0.66", "--resolver", scene.Outside.NameServer.String(), "--pod", "127.0.0.1",
		"--http-port", fmt.Sprint(scene.Outside.HTTPPort), "--https-port", fmt.Sprint(scene.Outside.HTTPSPort),
	}
	call := append([]string{"verify", "--up", "--proxy", "http://" + scene.ProxyAddr(), "--data", filepath.Join(scene.Run.Dir, "data"), "-o", "json"}, targets...)
	found, code := verified(t, scene.Run.Command(ctx, append([]string{scene.Programs.Sallyport}, call...)...))
	for _, f := range found {
		if f.Verdict == "open" || f.Verdict == "error" {
			t.Errorf("through up: %s", f)
		}
	}
	if names := ofWay(found, "name"); code != 0 || len(names) != 2 || names[0].DecidedBy == nil {
		t.Errorf("exit code %d: %v", code, found)
	}
	// A target that is registered is let pass, and said to be.
	found, code = verified(t, scene.Run.Command(ctx, append([]string{scene.Programs.Sallyport}, append(call, "--only", "name", "--target", "external.com")...)...))
	if i := slices.IndexFunc(found, func(f finding) bool {
		return f.Verdict == "open" && strings.Contains(f.Fix, "ServiceEntry default/external")
	}); code != 1 || i < 0 {
		t.Errorf("a registered target: exit code %d: %v", code, found)
	}
}

// verifyApp tries from the app's pod, as root, who may ping, and judges by the mesh's files.
func verifyApp(ctx context.Context, t *testing.T, scene *story.Scene) ([]finding, int) {
	t.Helper()
	cmd := scene.World.App.Command(ctx, 0, scene.Programs.Agent, "verify", "-o", "json", "--wait", "5s",
		"--target", nobodysHost, "--target-ip", nobodysAddr.String(), "--resolver", world.NameServerAddr.String(), "--doh", "https://"+nobodysHost+"/dns-query",
		"--tunnel", "tunnel.test", "--port", excludedPort, "--registered", "external.com", "--gateway", "10.77.0.20:8443", "--pod", peerPodAddr)
	out, err := cmd.Output()
	if len(out) == 0 {
		t.Fatalf("the agent: %v", err)
	}
	path := filepath.Join(scene.Run.Dir, "results.json")
	if err := os.WriteFile(path, out, 0o644); err != nil {
		t.Fatal(err)
	}
	return verified(t, scene.World.Control.Command(ctx, 0, scene.Programs.Sallyport, "verify", "--results", path, "-o", "json",
		"--config-dir", scene.Config.Path, "--mesh-config", scene.MeshConfig(), "--from", "default/app?app=app"))
}

// verified reads what a call of verify says, and its exit code.
func verified(t *testing.T, cmd *exec.Cmd) ([]finding, int) {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	out, _ := cmd.Output()
	var report struct{ Ways []finding }
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatalf("%v: %q %s", err, out, said.String())
	}
	return report.Ways, cmd.ProcessState.ExitCode()
}

func ofWay(found []finding, way string) []finding {
	return slices.DeleteFunc(slices.Clone(found), func(f finding) bool { return f.Way != way })
}

// startServices has the outside answer on all ways that a pod may find.
func startServices(t *testing.T, scene *story.Scene) {
	t.Helper()
	there := scene.World.Outside
	for _, service := range []string{"169.254.169.254", "168.63.129.16"} {
		ip(t, "-n", there.Namespace(), "addr", "add", service+"/32", "dev", "lo")
		ip(t, "-n", scene.World.Router.Namespace(), "route", "add", service+"/32", "via", world.NameServerAddr.String())
		serveHTTP(t, listen(t, there, service+":80"))
	}
	scene.Outside.Set("metadata.google.internal", theTTL, nobodysAddr)
	certificate := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return scene.Outside.CA.Issue("dns.test") }
	for _, port := range []string{":853", ":443"} {
		serveHTTP(t, tls.NewListener(listen(t, there, world.NameServerAddr.String()+port), &tls.Config{GetCertificate: certificate, MinVersion: tls.VersionTLS12}))
	}
	serveHTTP(t, listen(t, there, net.JoinHostPort(nobodysAddr.String(), excludedPort)))
	answerQUIC(t, there)
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

func listen(t *testing.T, at *world.Host, addr string) net.Listener {
	t.Helper()
	l, err := at.Listen(addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func serveHTTP(t *testing.T, l net.Listener) {
	server := &http.Server{ReadHeaderTimeout: attackTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "at your service\n") })}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
}

// answerQUIC answers each datagram with the versions that it knows, as servers do that do not know the client's (RFC 9000, 6.1).
func answerQUIC(t *testing.T, at *world.Host) {
	t.Helper()
	c, err := at.ListenPacket(net.JoinHostPort(nobodysAddr.String(), "443"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 2048); ; {
			_, from, err := c.ReadFrom(buf)
			if err != nil {
				return
			}
			answer := append([]byte{0x80, 0, 0, 0, 0, 8}, buf[15:23]...)
			answer = append(append(append(answer, 8), buf[6:14]...), 0, 0, 0, 1)
			_, _ = c.WriteTo(answer, from)
		}
	}()
	t.Cleanup(func() { _ = c.Close(); <-done })
}

// fence plays the node guard: what the pod sends to the world itself is refused on its way.
func fence(t *testing.T, scene *story.Scene) {
	t.Helper()
	refuse := []string{"-A", "FORWARD", "-s", world.AppAddr.String(), "-o", "outside", "-j", "REJECT", "--reject-with", "icmp-admin-prohibited"}
	if out, err := scene.World.Router.Run(t.Context(), 0, append([]string{"iptables"}, refuse...)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
