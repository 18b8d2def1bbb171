package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The second injected pod, its Service, and a neighbour that has no proxy.
var (
	peerAddr     = netip.MustParseAddr("10.77.0.40")
	peerService  = netip.MustParseAddr("10.96.0.40") // a ClusterIP: nothing but a proxy leads there
	strangerAddr = netip.MustParseAddr("10.77.0.50")
)

const (
	peerHost = "peer.default.svc.cluster.local"
	peerID   = "spiffe://cluster.local/ns/default/sa/peer"
)

// peerPorts are where the peer's app listens; its Service has the same ports.
var peerPorts = []int{80, 443, 8080, 9000}

// peerObjects is the peer as a cluster shows it, and what an attacker would like to reach through it: port 9000 is
// registered for a TCP service outside, too.
const peerObjects = `apiVersion: v1
kind: Service
metadata: {name: peer, namespace: default}
spec:
  clusterIP: 10.96.0.40
  selector: {app: peer}
  ports:
  - {name: http, port: 80, targetPort: 80}
  - {name: https, port: 443, targetPort: 443}
  - {name: http-alt, port: 8080, targetPort: 8080}
  - {name: tcp, port: 9000, targetPort: 9000}
  - {name: http-all, port: 9686, targetPort: 9686}
---
apiVersion: v1
kind: Service
metadata: {name: peer-headless, namespace: default}
spec:
  clusterIP: None
  selector: {app: peer}
  ports:
  - {name: http-alt, port: 8080, targetPort: 8080}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: peer-1, namespace: default, labels: {kubernetes.io/service-name: peer}}
addressType: IPv4
ports:
- {name: http, port: 80, protocol: TCP}
- {name: https, port: 443, protocol: TCP}
- {name: http-alt, port: 8080, protocol: TCP}
- {name: tcp, port: 9000, protocol: TCP}
- {name: http-all, port: 9686, protocol: TCP}
endpoints:
- {addresses: [10.77.0.40], conditions: {ready: true}, targetRef: {kind: Pod, name: peer-1, namespace: default}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: peer-headless-1, namespace: default, labels: {kubernetes.io/service-name: peer-headless}}
addressType: IPv4
ports:
- {name: http-alt, port: 8080, protocol: TCP}
endpoints:
- {addresses: [10.77.0.40], conditions: {ready: true}, targetRef: {kind: Pod, name: peer-1, namespace: default}}
---
apiVersion: v1
kind: Pod
metadata: {name: peer-1, namespace: default, labels: {app: peer}}
spec: {serviceAccountName: peer, containers: []}
status: {podIP: 10.77.0.40, phase: Running}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: bank, namespace: default}
spec:
  hosts: [bank.test]
  addresses: [203.0.113.66]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 9000, name: tcp, protocol: TCP}
  - {number: 7777, name: http, protocol: HTTP}
`

// inbound is a scene with a second injected pod and a neighbour without a proxy.
type inbound struct {
	scene    *story.Scene
	peer     *story.Pod
	stranger *world.Host
	apps     *peerApps
}

func newInbound(t *testing.T) *inbound {
	t.Helper()
	ctx, scene := setScene(t, story.InNamespaces)
	scene.Outside.Set("bank.test", theTTL, world.OutsideAddrs[3])
	peer, stranger := withNeighbours(ctx, t, scene, peerObjects, "peer", peerAddr, "stranger", strangerAddr)
	in := &inbound{scene: scene, peer: peer, stranger: stranger, apps: startPeerApps(t, peer.Host())}
	err := world.Within(ctx, time.Minute, func() error { // both proxies know the peer's ports
		for _, pod := range []*story.Pod{scene.App, peer} {
			if dump, err := pod.Admin(ctx, "/config_dump?resource=dynamic_listeners"); err != nil || !strings.Contains(string(dump), "0.0.0.0_7777") {
				return fmt.Errorf("no listener 0.0.0.0_7777 yet (%w)", err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// withNeighbours adds to a scene's app a second injected pod, APP-1, of which the objects tell, and a neighbour that has no proxy.
func withNeighbours(ctx context.Context, t *testing.T, scene *story.Scene, objects, app string, addr netip.Addr, neighbour string, at netip.Addr) (*story.Pod, *world.Host) {
	t.Helper()
	if err := scene.Config.Write(app+".yaml", objects); err != nil {
		t.Fatal(err)
	}
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	pod, err := scene.AddSidecar(setting, app+"-1", "default", app, addr, "app="+app)
	if err != nil {
		t.Fatal(err)
	}
	host, err := scene.World.AddPod(neighbour, at)
	if err != nil {
		t.Fatal(err)
	}
	return pod, host
}

// TestInbound: who connects to a pod reaches its app, and nothing else.
func TestInbound(t *testing.T) {
	needRoot(t)
	t.Parallel()
	in := newInbound(t)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"between pods", in.betweenPods},
		{"a Telemetry", in.telemetry},
		{"a pod calls itself", in.itself},
		{"requests arrive whole", in.whole},
		{"no egress for neighbours", in.noEgress},
		{"no egress without an app", in.nobodyListens},
		{"strange destinations", in.strangeDestinations},
		{"the proxy's own ports", in.ownPorts},
		{"the log", in.log},
	} {
		t.Run(part.name, part.test)
	}
}

// whole: what an app answers arrives, through both pods' proxies and through its own alone.
func (in *inbound) whole(t *testing.T) {
	server := serveWhole(t, in.peer.Host(), netip.AddrPortFrom(peerAddr, wholePort))
	for what, w := range map[string]struct {
		from *world.Host
		at   netip.Addr
	}{"from a pod": {in.scene.World.App, peerService}, "from one without a proxy": {in.stranger, peerAddr}} {
		t.Run(what, func(t *testing.T) {
			requestWay{server, fmt.Sprintf("%s:%d", peerHost, wholePort), func(ctx context.Context) (net.Conn, error) {
				return w.from.DialContext(ctx, "tcp", netip.AddrPortFrom(w.at, wholePort).String())
			}}.holds(t)
		})
	}
}

// betweenPods: where a Service's port is its target port, a request arrives, once, by every name and address.
func (in *inbound) betweenPods(t *testing.T) {
	for what, c := range map[string]struct{ host, dial string }{
		"by ClusterIP":       {peerHost + ":8080", peerService.String()},
		"on port 80":         {peerHost, peerService.String()},
		"short name":         {"peer.default:8080", peerService.String()},
		"headless":           {"peer-headless.default.svc.cluster.local:8080", peerAddr.String()},
		"by pod address":     {peerAddr.String() + ":8080", peerAddr.String()},
		"from outside":       {"anything.test:8080", peerAddr.String()},
		"from outside, 80":   {"anything.test", peerAddr.String()},
		"registered outside": {"anything.test:7777", peerAddr.String()}, // nobody listens there
	} {
		from := in.scene.World.App
		if strings.HasPrefix(what, "from outside") || what == "registered outside" {
			from = in.stranger
		}
		path := "/between/" + strings.NewReplacer(" ", "-", ",", "").Replace(what)
		if what != "registered outside" { // a listener is there before what leads on from it
			turns(t, func() error { _, err := askPeer(t.Context(), from, "http://"+c.host+"/there", c.dial); return err })
		}
		body, err := askPeer(t.Context(), from, "http://"+c.host+path, c.dial)
		if what == "registered outside" {
			if err == nil {
				t.Errorf("%s: answered %q", what, body)
			}
			continue
		}
		if err != nil || !strings.HasPrefix(body, "peer ") {
			t.Errorf("%s: %q (%v)", what, body, err)
		}
		if n := in.apps.requests(path); n != 1 {
			t.Errorf("%s: the app saw %d requests", what, n)
		}
	}
	for _, c := range []struct {
		from *world.Host
		dial netip.Addr
	}{{in.scene.World.App, peerService}, {in.scene.World.App, peerAddr}, {in.stranger, peerAddr}} {
		turns(t, func() error {
			if line, err := peerGreeting(t.Context(), c.from, netip.AddrPortFrom(c.dial, 9000)); err != nil || line != "peer greets\n" {
				return fmt.Errorf("TCP from %s to %s: %q (%w)", c.from.Name, c.dial, line, err)
			}
			if err := greetsByTLS(t.Context(), c.from, netip.AddrPortFrom(c.dial, 443), peerHost); err != nil {
				return fmt.Errorf("TLS from %s to %s: %w", c.from.Name, c.dial, err)
			}
			return nil
		})
	}
}

// itself: a pod reaches itself by its Service and by its address.
func (in *inbound) itself(t *testing.T) {
	for host, dial := range map[string]string{
		peerHost + ":8080": peerService.String(), "peer.default:80": peerService.String(), peerAddr.String() + ":8080": peerAddr.String(),
	} {
		path := "/itself/" + strings.ReplaceAll(host, ":", "-")
		body, err := askPeer(t.Context(), in.peer.Host(), "http://"+host+path, dial)
		if err != nil || !strings.HasPrefix(body, "peer ") || in.apps.requests(path) != 1 {
			t.Errorf("%s: %q (%v), %d requests", host, body, err, in.apps.requests(path))
		}
	}
}

// noEgress: with names of the outside in their Host or SNI, neighbours reach the app too, and nobody outside.
func (in *inbound) noEgress(t *testing.T) {
	before := in.outsideConnections()
	for _, from := range []*world.Host{in.stranger, in.scene.World.App} {
		for _, target := range []string{"http://external.com/steal", "http://unregistered.test/steal", "http://external.com:8080/steal"} {
			// A sidecar takes the caller's Host for where it wants to go: the App's goes out itself, as the App.
			if from == in.scene.World.App && target == "http://external.com/steal" {
				continue
			}
			body, err := askPeer(t.Context(), from, target, peerAddr.String())
			if err == nil && !strings.HasPrefix(body, "peer ") {
				t.Errorf("%s asked the peer for %s: %q", from.Name, target, body)
			}
		}
	}
	if err := greetsByTLS(t.Context(), in.stranger, netip.AddrPortFrom(peerAddr, 443), "external.com"); err == nil || !strings.Contains(err.Error(), "peer.default") {
		t.Errorf("TLS for external.com to the peer's port 443: %v, want the peer's own certificate", err)
	}
	if line, err := peerGreeting(t.Context(), in.stranger, netip.AddrPortFrom(peerAddr, 9000)); err != nil || line != "peer greets\n" {
		t.Errorf("TCP to a port that is registered: %q (%v)", line, err)
	}
	if now := in.outsideConnections(); now != before {
		t.Errorf("the outside took %d connections", now-before)
	}
}

// nobodyListens: the same where the app does not listen.
func (in *inbound) nobodyListens(t *testing.T) {
	in.apps.stop()
	before := in.outsideConnections()
	for _, target := range []string{"http://external.com/steal", "http://unregistered.test/steal", "http://external.com:8080/steal", "http://bank.test:7777/steal", "http://bank.test:9000/steal", "http://anything.test:15999/steal"} {
		if body, err := askPeer(t.Context(), in.stranger, target, peerAddr.String()); err == nil {
			t.Errorf("the peer answered for %s: %q", target, body)
		}
	}
	if err := greetsByTLS(t.Context(), in.stranger, netip.AddrPortFrom(peerAddr, 443), "external.com"); err == nil {
		t.Error("the peer's port 443 answered for external.com")
	}
	if now := in.outsideConnections(); now != before {
		t.Errorf("the outside took %d connections", now-before)
	}
}

// strangeDestinations: what a neighbour routes through the pod does not leave it.
func (in *inbound) strangeDestinations(t *testing.T) {
	before := in.outsideConnections()
	if err := in.peer.Host().Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) }); err != nil {
		t.Fatal(err)
	}
	for _, a := range []netip.Addr{world.OutsideAddrs[0], world.OutsideAddrs[3]} {
		out, err := exec.CommandContext(t.Context(), "ip", "-n", in.stranger.Namespace(), "route", "replace", a.String()+"/32", "via", peerAddr.String()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, port := range []string{"", ":443", ":9000", ":7777", ":12345"} {
			if body, err := askPeer(t.Context(), in.stranger, "http://external.com"+port+"/strange", a.String()); err == nil {
				t.Errorf("through the peer to %s%s: %q", a, port, body)
			}
		}
	}
	if now := in.outsideConnections(); now != before {
		t.Errorf("the outside took %d connections", now-before)
	}
}

// ownPorts: connections to the ports that the proxy catches traffic at are ended, whoever makes them and from where, and
// cost a handful of connections.
func (in *inbound) ownPorts(t *testing.T) {
	before := in.proxyConnections(t)
	for _, c := range []struct {
		from *world.Host
		to   string
	}{
		{in.stranger, peerAddr.String()}, {in.scene.World.App, peerAddr.String()}, {in.peer.Host(), peerAddr.String()}, {in.peer.Host(), "127.0.0.1"},
	} {
		for _, port := range []string{"15001", "15006"} {
			ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
			body, err := askPeer(ctx, c.from, "http://external.com:"+port+"/own", c.to)
			if err == nil || ctx.Err() != nil {
				t.Errorf("from %s to %s:%s: %q (%v)", c.from.Name, c.to, port, body, err)
			}
			cancel()
		}
	}
	if now := in.proxyConnections(t); now > before+50 {
		t.Errorf("the peer's proxy took %d connections", now-before)
	}
}

// ownSource says whether a connection came from the peer's own pod.
func ownSource(source string) bool {
	from, err := netip.ParseAddrPort(source)
	return err == nil && (from.Addr().IsLoopback() || from.Addr() == peerAddr)
}

// log: nobody made the peer say anything to the outside, and the log does not name it.
func (in *inbound) log(t *testing.T) {
	// What the peer itself does is in the log; once it is, everything from before would be.
	if _, err := askPeer(t.Context(), in.peer.Host(), "http://external.com/own-deed", world.OutsideAddrs[0].String()); err != nil {
		t.Fatal(err)
	}
	err := world.Within(t.Context(), time.Minute, func() error {
		records, err := in.scene.AuditRecords(t.Context(), "--from", "default/peer")
		if err != nil {
			return err
		}
		found, named := false, 0
		for _, r := range records {
			switch {
			case r.Host == "external.com" && r.URLPath == "/own-deed" && r.Workload.Principal == peerID:
				found = true
			case strings.HasPrefix(r.Host, "peer.default") || r.Host == peerAddr.String() || r.Class == record.DNS:
				// its calls of itself
			case (r.Port == 15001 || r.Port == 15006) && ownSource(r.Source):
				// what it sent to its proxy's own ports, which is nobody else's deed
			default:
				if named++; named <= 3 {
					t.Errorf("the log names the peer: %+v", r)
				}
			}
		}
		if !found {
			return fmt.Errorf("no record of what the peer did among %d", len(records))
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// telemetry: a Telemetry has what comes to a pod recorded, which the mesh's setting leaves out, until it says that it is not to be.
func (in *inbound) telemetry(t *testing.T) {
	round := 0
	// found says whether one of the last requests to the peer is recorded there. Another one, which is always recorded, is sent behind them.
	found := func(asks int) (is bool, err error) {
		paths := map[string]bool{}
		for range asks {
			round++
			path, after := fmt.Sprintf("/telemetry/%d", round), fmt.Sprintf("/after/%d", round)
			paths[path] = true
			if _, err := askPeer(t.Context(), in.scene.World.App, "http://"+peerHost+":8080"+path, peerService.String()); err != nil {
				return false, err
			}
			if _, err := askPeer(t.Context(), in.scene.World.App, "http://external.com"+after, world.OutsideAddrs[0].String()); err != nil {
				return false, err
			}
			err := world.Within(t.Context(), time.Minute, func() error {
				records, err := in.scene.AuditRecords(t.Context(), "--since", "10m")
				if err != nil {
					return err
				}
				last := false
				for _, r := range records {
					last = last || r.URLPath == after
					is = is || paths[r.URLPath] && r.Reporter == record.ReporterDestination
				}
				if !last {
					return errors.New("the last request is not recorded yet")
				}
				return nil
			})
			if err != nil {
				return false, err
			}
		}
		return is, nil
	}
	for _, c := range []struct {
		says string
		want bool
	}{
		{"", false},
		{"{accessLogging: [{providers: [{name: envoy}]}]}", true},
		{"{selector: {matchLabels: {app: peer}}, accessLogging: [{disabled: true}]}", false},
	} {
		if c.says != "" {
			if err := in.scene.Config.Write("telemetry.yaml", "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: peer, namespace: default}\nspec: "+c.says+"\n"); err != nil {
				t.Fatal(err)
			}
		}
		err := world.Within(t.Context(), 2*time.Minute, func() error {
			is, err := found(2)
			if err == nil && is != c.want {
				err = fmt.Errorf("recorded: %t, want %t", is, c.want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%q: %v", c.says, err)
		}
	}
}

func (in *inbound) outsideConnections() int {
	n := 0
	for _, a := range world.OutsideAddrs {
		n += in.scene.Outside.ConnectionsTo(a)
	}
	return n
}

// proxyConnections counts what the peer's Envoy took on both of its listeners.
func (in *inbound) proxyConnections(t *testing.T) int {
	t.Helper()
	stats, err := in.peer.Admin(t.Context(), "/stats?filter=listener.*(15001|15006).*downstream_cx_total$")
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(string(stats)) {
		if _, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			sum += n
		}
	}
	return sum
}

// askPeer gets a page from a given address, on a host, and fails when the answer is no 200.
func askPeer(ctx context.Context, from *world.Host, url, addr string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
		_, port, err := net.SplitHostPort(to)
		if err != nil {
			return nil, err
		}
		return from.DialContext(ctx, network, net.JoinHostPort(addr, port))
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// peerGreeting reads what a server that speaks first says.
func peerGreeting(ctx context.Context, from *world.Host, to netip.AddrPort) (string, error) {
	c, err := from.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// greetsByTLS is nil when the peer's app answers by TLS for that name; an error says which names the certificate has.
func greetsByTLS(ctx context.Context, from *world.Host, to netip.AddrPort, name string) error {
	raw, err := from.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return err
	}
	c := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	defer func() { _ = c.Close() }()
	if err := errors.Join(c.SetDeadline(time.Now().Add(attackTimeout)), c.HandshakeContext(ctx)); err != nil {
		return err
	}
	return c.ConnectionState().PeerCertificates[0].VerifyHostname(name)
}

// peerApps are the peer's servers: HTTP, HTTPS, and one that speaks first.
type peerApps struct {
	mu      sync.Mutex
	seen    map[string]int // requests by path
	closers []io.Closer
	done    sync.WaitGroup
}

func startPeerApps(t *testing.T, at *world.Host) *peerApps {
	t.Helper()
	a := &peerApps{seen: map[string]int{}}
	t.Cleanup(a.stop)
	ca, err := outside.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.Issue(peerHost)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}
	for _, port := range peerPorts {
		l, err := at.Listen(net.JoinHostPort(peerAddr.String(), strconv.Itoa(port)))
		if err != nil {
			t.Fatal(err)
		}
		a.closers = append(a.closers, l)
		switch port {
		case 443:
			a.done.Go(func() { a.greet(l, func(c net.Conn) { _ = tls.Server(c, config).Handshake() }) })
		case 9000:
			a.done.Go(func() { a.greet(l, func(c net.Conn) { _, _ = io.WriteString(c, "peer greets\n") }) })
		default:
			server := &http.Server{Handler: a, ReadHeaderTimeout: attackTimeout}
			a.closers = append(a.closers, server)
			a.done.Go(func() { _ = server.Serve(l) })
		}
	}
	return a
}

func (a *peerApps) greet(l net.Listener, greet func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		a.done.Go(func() {
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(attackTimeout))
			greet(c)
		})
	}
}

// stop ends the servers.
func (a *peerApps) stop() {
	for _, c := range a.closers {
		_ = c.Close()
	}
	a.done.Wait()
}

func (a *peerApps) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	a.seen[r.URL.Path]++
	a.mu.Unlock()
	_, _ = fmt.Fprintf(w, "peer answers for %s", r.Host)
}

func (a *peerApps) requests(path string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[path]
}
