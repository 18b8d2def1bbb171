package e2e

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// The ports are those of all servers of this test, and of all hosts: outside, where it is open, and on every host of the mesh, where nobody is to be led to.
const (
	insidePort = 9591
	insideTLS  = 9592
)

// insideAddrs are what names of this test stand for: proxies' own hosts, the mesh's own addresses and clouds' metadata, in all their forms.
var insideAddrs = map[string]netip.Addr{
	"loopback": netip.MustParseAddr("127.0.0.1"), "loopback-other": netip.MustParseAddr("127.9.9.9"), "unspecified": netip.MustParseAddr("0.0.0.0"),
	"loopback6": netip.MustParseAddr("::1"), "mapped": netip.MustParseAddr("::ffff:127.0.0.1"), "nat64": netip.MustParseAddr("64:ff9b::7f00:1"), "sixtofour": netip.MustParseAddr("2002:7f00:1::"),
	"metadata": netip.MustParseAddr("169.254.169.254"), "azure": netip.MustParseAddr("168.63.129.16"), "aws6": netip.MustParseAddr("fd00:ec2::254"), "alibaba": netip.MustParseAddr("100.100.100.200"),
	"metadata-mapped": netip.MustParseAddr("::ffff:169.254.169.254"), "metadata-nat64": netip.MustParseAddr("64:ff9b::a9fe:a9fe"),
	"control": world.ControlAddr, "control-nat64": netip.MustParseAddr("64:ff9b::a4d:1e"), "gateway": world.GatewayAddr, "node": nodeAddr, "waypoint": waypointAddr,
}

// insideSights are the requests that came to where nobody is to be led to, or outside.
type insideSights struct {
	mu   sync.Mutex
	seen []string
}

func (s *insideSights) take() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, s.seen = s.seen, nil
	return all
}

// watchAll answers on a host at all of its addresses, which those of insideAddrs are that are nobody's in this world.
func (s *insideSights) watchAll(t *testing.T, h *world.Host, ca *outside.CA) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(insideAddrs)) {
		addr := insideAddrs[name]
		if addr.IsLoopback() || addr.IsUnspecified() || addr.Is4In6() || netip.MustParsePrefix("10.77.0.0/24").Contains(addr) {
			continue
		}
		if out, err := h.Run(t.Context(), 0, "ip", "addr", "replace", netip.PrefixFrom(addr, addr.BitLen()).String(), "dev", "lo"); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, fmt.Sprintf("%s at %s for %s%s from %s", h.Name, r.Context().Value(http.LocalAddrContextKey), r.Host, r.URL, r.RemoteAddr))
		_, _ = fmt.Fprintln(w, h.Name)
	}), ConnState: func(c net.Conn, state http.ConnState) {
		if state == http.StateNew && h.Name != "outside" {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.seen = append(s.seen, fmt.Sprintf("a connection to %s at %s from %s", h.Name, c.LocalAddr(), c.RemoteAddr()))
		}
	}}
	t.Cleanup(func() { _ = server.Close() })
	for _, port := range []uint16{insidePort, insideTLS} {
		l, err := h.Listen(fmt.Sprintf("[::]:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		if port == insideTLS {
			l = tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return ca.Issue(hello.ServerName) }})
		}
		go func() { _ = server.Serve(l) }()
	}
}

// insideRole is a proxy that resolves names, or hands on to one that does, for who comes by it.
type insideRole struct {
	name string
	way  string // the domain of names that are registered for it
	dial func(host string, port uint16) (net.Conn, error)
}

// TestNamesInsideAtAllRoles holds that no name, and no form of an address, leads anybody to a proxy's own host, to the mesh's own addresses or to a cloud's metadata by a proxy.
func TestNamesInsideAtAllRoles(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := waypointIn(ctx, t, s)
	a := w.ambientNode
	a.alpha, a.beta = a.pod(t, "alpha", alphaAddr), a.pod(t, "gamma", betaAddr)
	sights := &insideSights{}
	for _, h := range []*world.Host{s.World.Control, s.World.Gateway, s.World.App, s.World.Outside, a.node.Host, a.alpha.host, a.beta.host, w.pod.Host()} {
		sights.watchAll(t, h, s.Outside.CA)
	}
	a.write(t, "inside.yaml", insideObjects(s))
	if err := s.SetPolicy(ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	in := &insideTest{waypointTest: w, sights: sights}
	for _, r := range in.roles() {
		t.Run(r.name, func(t *testing.T) { in.holds(t, r) })
	}
	t.Run("by HBONE", in.byHBONE)
	t.Run("by Host and CONNECT", in.byHost)
	t.Run("by endpoints", in.byEndpoints)
}

type insideTest struct {
	*waypointTest
	sights *insideSights
}

// insideObjects registers names for each way out, each by itself and below a pattern.
func insideObjects(s *story.Scene) string {
	var objects strings.Builder
	objects.WriteString("apiVersion: v1\nkind: Namespace\nmetadata: {name: delta, labels: {by: waypoint, istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: beta}}\n")
	for way, in := range map[string]string{
		"gateway": "namespace: default", "straight": "namespace: default, annotations: {egress.sallyport.io/gateway: direct}", "front": "namespace: delta",
	} {
		entry := func(name, host, resolution, more string) {
			fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s-%s, %s}\n"+
				"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: %s, ports: [{number: %d, name: http, protocol: HTTP}, {number: %d, name: tls, protocol: TLS}]%s}\n", way, name, in, host, resolution, insidePort, insideTLS, more)
		}
		for _, name := range append(slices.Sorted(maps.Keys(insideAddrs)), "open", "moves") {
			host := name + "." + way + ".test"
			s.Outside.Set(host, time.Second, insideAddrOf(name))
			entry(name, host, "DNS", "")
			s.Outside.Set(name+".wild."+way+".test", time.Second, insideAddrOf(name))
		}
		if way != "front" {
			entry("wild", "*.wild."+way+".test", "DYNAMIC_DNS", "")
		}
		for i, endpoint := range insideEndpoints {
			entry(fmt.Sprintf("local-%d", i), fmt.Sprintf("local-%d.%s.test", i, way), "DNS", fmt.Sprintf(", endpoints: [{address: %q}]", endpoint))
		}
	}
	return objects.String()
}

// insideEndpoints are names of endpoints that resolvers take for whoever asks.
var insideEndpoints = []string{"localhost", "localhost.", "x.localhost", "LOCALHOST", "ip6-localhost"}

func insideLocals() (all []string) {
	for i := range insideEndpoints {
		all = append(all, fmt.Sprintf("local-%d", i))
	}
	return all
}

func insideAddrOf(name string) netip.Addr {
	if addr, ok := insideAddrs[name]; ok {
		return addr
	}
	return world.OutsideAddrs[0]
}

func (in *insideTest) roles() []insideRole {
	from := func(c caller) func(string, uint16) (net.Conn, error) {
		return func(host string, port uint16) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(in.ctx, 10*time.Second)
			defer cancel()
			addr, err := c.resolve(ctx, host)
			if err != nil {
				return nil, err
			}
			return c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
		}
	}
	return []insideRole{
		{"gateway, from a sidecar", "gateway", from(appOf(in.scene))},
		{"gateway, from a node", "gateway", from(in.alpha.caller)},
		{"sidecar", "straight", from(appOf(in.scene))},
		{"node", "straight", from(in.alpha.caller)},
		{"waypoint", "front", from(in.alpha.caller)},
	}
}

// ask sends one request to where a host is, and gives the answer's status and text.
func (r insideRole) ask(at string, port uint16, request string) (status int, text string, err error) {
	c, err := r.dial(at, port)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(c, request); err != nil {
		return 0, "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// getOf is a request to a host.
func getOf(authority string) string {
	return "GET /x HTTP/1.1\r\nHost: " + authority + "\r\nConnection: close\r\n\r\n"
}

func (in *insideTest) holds(t *testing.T, r insideRole) {
	open := fmt.Sprintf("open.%s.test", r.way)
	if err := world.Within(t.Context(), time.Minute, func() error {
		got, text, err := r.ask(open, insidePort, getOf(fmt.Sprintf("%s:%d", open, insidePort)))
		if err != nil || got != 200 {
			return fmt.Errorf("%s: %d %q (%w)", open, got, text, err)
		}
		return nil
	}); err != nil {
		records, _ := in.scene.AuditRecords(in.ctx, "--host", open)
		for _, r := range records[:min(3, len(records))] {
			t.Logf("%+v", r)
		}
		t.Fatal(err)
	}
	in.mustShake(t, r, open)
	in.sights.take()
	names := append(slices.Sorted(maps.Keys(insideAddrs)), insideLocals()...)
	for _, name := range names {
		hosts := map[string]string{name + "." + r.way + ".test": ""}
		if r.way != "front" && !strings.HasPrefix(name, "local-") {
			hosts[name+".wild."+r.way+".test"] = open // the address of a pattern's name is what DNS says, and the pod may go there
		}
		for host, at := range hosts {
			at = cmp.Or(at, host)
			got, text, err := r.ask(at, insidePort, getOf(fmt.Sprintf("%s:%d", host, insidePort)))
			if seen := in.sights.take(); len(seen) > 0 || got == 200 {
				t.Errorf("%s: %d %q (%v), seen %q", host, got, text, err, seen)
			}
			err = r.shake(at, host)
			if seen := in.sights.take(); len(seen) > 0 || err == nil {
				t.Errorf("by TLS %s: %v, seen %q", host, err, seen)
			}
		}
	}
	in.moves(t, r)
}

// shake shakes hands with who is there under a name.
func (r insideRole) shake(at, name string) error {
	c, err := r.dial(at, insideTLS)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return tls.Client(c, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: name}).HandshakeContext(context.Background())
}

func (in *insideTest) mustShake(t *testing.T, r insideRole, host string) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, func() error { return r.shake(host, host) }); err != nil {
		t.Fatalf("by TLS %s: %v", host, err)
	}
}

// moves: a name that was outside when it was first asked for leads nowhere when its owner says that it is inside.
func (in *insideTest) moves(t *testing.T, r insideRole) {
	for _, host := range []string{"moves." + r.way + ".test", "moves.wild." + r.way + ".test"} {
		at := host
		if strings.Contains(host, ".wild.") {
			if r.way == "front" {
				continue
			}
			at = "open." + r.way + ".test"
		}
		ask := func() (int, error) {
			got, _, err := r.ask(at, insidePort, getOf(fmt.Sprintf("%s:%d", host, insidePort)))
			return got, err
		}
		asked := func() int {
			return len(in.scene.Outside.Queries(func(q outside.Query) bool { return q.Name == host }))
		}
		steps := [][]netip.Addr{{world.OutsideAddrs[0]}, {insideAddrs["loopback"]}, {world.OutsideAddrs[0], insideAddrs["loopback"]}, {insideAddrs["control"]}, {world.OutsideAddrs[0]}}
		if at != host {
			steps = steps[:2] // Envoy keeps the address that it had, and asks a minute later
		}
		for _, addrs := range steps {
			in.scene.Outside.Set(host, time.Second, addrs...)
			before := asked()
			if err := world.Within(t.Context(), 4*time.Minute, func() error {
				got, err := ask()
				if asked() <= before+1 { // one question may have been answered before
					return fmt.Errorf("%s is %v, and nobody asks (%d, %w)", host, addrs, got, err)
				}
				if addrs[0] == world.OutsideAddrs[0] && got != 200 {
					return fmt.Errorf("%s at %v: %d (%w)", host, addrs, got, err)
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
			for range 5 {
				_, _ = ask()
			}
			in.onlyOutside(t, host)
		}
	}
}

// onlyOutside: nothing came to where nobody is to be led to.
func (in *insideTest) onlyOutside(t *testing.T, what string) {
	t.Helper()
	for _, seen := range in.sights.take() {
		if !strings.HasPrefix(seen, "outside at ") || strings.Contains(seen, "outside at 1") && !strings.Contains(seen, "outside at 198.51.100.10") {
			t.Errorf("%s: %s", what, seen)
		}
	}
}

// writtenInside are authorities that say an address, or what may be taken for one.
func writtenInside() (all []string) {
	for _, addr := range insideAddrs {
		all = append(all, netip.AddrPortFrom(addr, insidePort).String())
		if addr.Is6() {
			all = append(all, fmt.Sprintf("%s:%d", addr, insidePort), fmt.Sprintf("[%s%%25lo]:%d", addr, insidePort))
		}
	}
	for _, host := range []string{"localhost", "LOCALHOST", "localhost.", "x.localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.1.", "127.0.0.1.nip.test", "ip6-localhost", "loopback.gateway.test@127.0.0.1"} {
		all = append(all, fmt.Sprintf("%s:%d", host, insidePort))
	}
	return all
}

// byHBONE: a tunnel leads to the pod that takes it, or by a waypoint to what it stands before, and to no address that its client says.
func (in *insideTest) byHBONE(t *testing.T) {
	tr := map[string]*hboneClient{"waypoint": in.hboneClient(t, "one"), "pod": in.client(t, in.member(t, "one"))}
	for what, tr := range tr {
		for _, authority := range writtenInside() {
			c, err := through(in.ctx, tr, authority)
			if err != nil {
				continue
			}
			_, _ = io.WriteString(c, getOf("x"))
			got, _ := io.ReadAll(io.LimitReader(c, 1000))
			_ = c.Close()
			if seen := in.sights.take(); len(seen) > 0 {
				t.Errorf("%s, CONNECT %s: %q, seen %q", what, authority, got, seen)
			}
		}
	}
}

// byHost: nor does a CONNECT, or a Host, where names are looked up that nobody registered.
func (in *insideTest) byHost(t *testing.T) {
	if err := in.scene.WriteMode("ALLOW_ANY_DYNAMIC_DNS"); err != nil {
		t.Fatal(err)
	}
	in.scene.Outside.Set("dyn.unknown.test", time.Second, world.OutsideAddrs[0])
	in.scene.Outside.Set("127.0.0.1.nip.test", time.Second, insideAddrs["loopback"])
	for name, addr := range insideAddrs {
		in.scene.Outside.Set(name+".unknown.test", time.Second, addr)
	}
	for _, c := range []caller{appOf(in.scene), in.alpha.caller} {
		r := insideRole{name: c.host.Name, dial: func(_ string, port uint16) (net.Conn, error) {
			return c.host.DialContext(in.ctx, "tcp", netip.AddrPortFrom(world.OutsideAddrs[1], port).String())
		}}
		if err := world.Within(t.Context(), 2*time.Minute, func() error {
			in.sights.take()
			got, text, err := r.ask("", insidePort, getOf(fmt.Sprintf("dyn.unknown.test:%d", insidePort)))
			if seen := fmt.Sprint(in.sights.take()); got != 200 || !strings.Contains(seen, "outside at "+world.OutsideAddrs[0].String()) {
				return fmt.Errorf("%d %q (%w), seen %s", got, text, err, seen)
			}
			return nil
		}); err != nil {
			t.Fatalf("from %s: %v", r.name, err)
		}
		authorities := writtenInside()
		for name := range insideAddrs {
			authorities = append(authorities, fmt.Sprintf("%s.unknown.test:%d", name, insidePort), name+".unknown.test")
		}
		for _, authority := range authorities {
			for what, request := range map[string]string{
				"Host": getOf(authority), "CONNECT": "CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n", "target": "GET http://" + authority + "/x HTTP/1.1\r\nHost: dyn.unknown.test\r\nConnection: close\r\n\r\n",
			} {
				_, _, _ = r.ask("", insidePort, request)
				in.onlyOutside(t, fmt.Sprintf("from %s, %s %s", r.name, what, authority))
			}
		}
	}
	if err := in.scene.SetPolicy(in.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
}

// metaObjects is a Service behind the waypoint whose endpoints somebody wrote.
const metaObjects = `apiVersion: v1
kind: Service
metadata: {name: meta, namespace: beta}
spec: {clusterIP: 10.96.0.79, ports: [{name: http, port: 9591}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: meta-4, namespace: beta, labels: {kubernetes.io/service-name: meta}}
addressType: IPv4
ports: [{name: http, port: 9591}]
endpoints: [{addresses: [203.0.113.10]}, {addresses: [168.63.129.16]}, {addresses: [169.254.169.254]}, {addresses: [127.0.0.1]}, {addresses: [10.77.0.30]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: meta-6, namespace: beta, labels: {kubernetes.io/service-name: meta}}
addressType: IPv6
ports: [{name: http, port: 9591}]
endpoints: [{addresses: ["fd00:ec2::254"]}, {addresses: ["64:ff9b::a9fe:a9fe"]}, {addresses: ["64:ff9b::a4d:1e"]}, {addresses: ["2002:a83f:8110::"]}]
`

// byEndpoints: a waypoint connects to endpoints, and not to addresses at which there can be none, whoever writes them.
func (in *insideTest) byEndpoints(t *testing.T) {
	in.write(t, "meta.yaml", metaObjects)
	far := in.hboneClient(t, "one")
	ask := func() (string, error) {
		c, err := through(in.ctx, far, fmt.Sprintf("10.96.0.79:%d", insidePort))
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, getOf("meta.beta.svc.cluster.local"))
		line, err := bufio.NewReader(c).ReadString('\n')
		return strings.TrimSpace(line), err
	}
	for range 60 {
		if err := world.Within(t.Context(), time.Minute, func() error {
			line, err := ask()
			if err != nil || line != "HTTP/1.1 200 OK" {
				return fmt.Errorf("%q (%w)", line, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	in.onlyOutside(t, "a Service's endpoints")
}
