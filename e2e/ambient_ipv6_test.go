package e2e

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The pods: one with both families, one with IPv6 alone; and a gateway that is found by IPv6.
var (
	dualAddr6   = netip.MustParseAddr("fd00:77::61")
	onlyAddr6   = netip.MustParseAddr("fd00:77::62")
	egress6Addr = netip.MustParseAddr("10.77.0.65")
	egress6At   = netip.MustParseAddr("fd00:77::65")
	node6       = netip.MustParseAddr("fd00:77::60")
)

const ipv6Objects = `apiVersion: v1
kind: Service
metadata: {name: egress6, namespace: istio-system}
spec: {selector: {app: egress6}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: egress6-1, namespace: istio-system, labels: {kubernetes.io/service-name: egress6}}
addressType: IPv6
ports: [{name: https, port: 8443}]
endpoints: [{addresses: ["%[1]s"], conditions: {ready: true}, targetRef: {kind: Pod, name: egress6-1, namespace: istio-system}}]
---
apiVersion: v1
kind: Pod
metadata: {name: egress6-1, namespace: istio-system, labels: {app: egress6}}
spec: {serviceAccountName: egress6, containers: []}
status: {podIP: "%[1]s", phase: Running}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: six, namespace: istio-system, annotations: {egress.sallyport.io/gateway: istio-system/egress6}}
spec:
  hosts: [six.ambient.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: %[2]d, name: http, protocol: HTTP}, {number: %[3]d, name: tls, protocol: TLS}, {number: %[4]d, name: tcp, protocol: TCP}]
`

// ambientIPv6 is a node with such pods.
type ambientIPv6 struct {
	*ambientNode
	dual, only *ambientPod
	at         map[*ambientPod]netip.Addr
}

// TestAmbientIPv6 holds that pods without sidecars reach and are reached by IPv6 as by IPv4, where they have both and where they have nothing else, and that what is closed is closed by
// it, too.
func TestAmbientIPv6(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	a := &ambientIPv6{ambientNode: &ambientNode{ctx: ctx, scene: s}}
	a.serve(t)
	if err := s.World.AddIPv6(); err != nil {
		t.Fatal(err)
	}
	polyglot{s.Outside.CA}.serve(t, s.World.Outside, world.OutsideAddr6, []uint16{ambientHTTP, ambientTLS, ambientTCP})
	s.Outside.Set("sixfree.ambient.test", time.Minute, world.OutsideAddr6)
	s.Outside.Set("six.ambient.test", time.Minute, world.OutsideAddrs[0]) // to the gateway it is by IPv6
	a.gateway(t)
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	a.dual, a.only = a.pod6(t, "dual", alphaAddr, dualAddr6, true), a.pod6(t, "only", betaAddr, onlyAddr6, false)
	a.at = map[*ambientPod]netip.Addr{a.dual: dualAddr6, a.only: onlyAddr6}
	inOrder(t, []part{
		{"names have addresses of both families", a.names},
		{"straight, from the pod's own address", a.straight},
		{"by a gateway", a.throughGateway},
		{"what comes in", a.inbound},
		{"what comes in by HBONE", a.tunnels},
		{"only what is registered", a.registryOnly},
		{"the agent is away", a.agentAway},
	})
}

func (a *ambientIPv6) gateway(t *testing.T) {
	t.Helper()
	a.write(t, "six.yaml", fmt.Sprintf(ipv6Objects, egress6At, ambientHTTP, ambientTLS, ambientTCP))
	g, err := a.scene.AddDualRouter(a.ctx, "egress6-1", "istio-system", "egress6", egress6Addr, egress6At, "app=egress6")
	if err != nil {
		t.Fatal(err)
	}
	// It trusts the outside's CA, as real ones trust the public ones.
	if err := errors.Join(a.scene.World.GiveIPv6(g.Host(), egress6At), g.Host().Etc("ssl/certs/ca-certificates.crt", a.scene.Outside.CA.PEM()), g.Restart(a.ctx, false)); err != nil {
		t.Fatal(err)
	}
}

// pod6 makes a pod with an IPv6 address, with or without its IPv4 one, and has it taken in.
func (a *ambientIPv6) pod6(t *testing.T, name string, addr4, addr6 netip.Addr, both bool) *ambientPod {
	t.Helper()
	w := a.scene.World
	host, err := w.AddPod(name, addr4)
	if err == nil && !both {
		err = w.TakeIPv4(host)
	}
	if err := errors.Join(err, w.GiveIPv6(host, addr6)); err != nil {
		t.Fatal(err)
	}
	shown, addr := fmt.Sprintf("podIP: %[1]s, podIPs: [{ip: %[1]s}, {ip: \"%[2]s\"}]", addr4, addr6), addr4
	if !both {
		shown, addr = fmt.Sprintf("podIP: \"%[1]s\", podIPs: [{ip: \"%[1]s\"}]", addr6), addr6
	}
	a.write(t, "pod-"+name+".yaml", fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %[1]s, labels: {istio.io/dataplane-mode: ambient}}\n---\napiVersion: v1\nkind: Pod\n"+
		"metadata: {name: %[1]s-1, namespace: %[1]s, labels: {app: %[1]s}}\nspec: {serviceAccountName: %[1]s-account, nodeName: node-1, containers: []}\nstatus: {%[2]s, phase: Running}\n", name, shown))
	p := &ambientPod{name: name + "/" + name + "-1", addr: addr, host: host, id: "spiffe://cluster.local/ns/" + name + "/sa/" + name + "-account", caller: appOf(a.scene)}
	p.caller.host = host
	if err := a.node.Tell(a.ctx, "add", p.name, host); err != nil {
		t.Fatal(err)
	}
	return p
}

func (a *ambientIPv6) pods() []*ambientPod { return []*ambientPod{a.dual, a.only} }

// lookup asks the pod's DNS for an IPv6 address, over IPv6.
func (a *ambientIPv6) lookup(ctx context.Context, p *ambientPod, host string) (netip.Addr, error) {
	resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.host.DialContext(ctx, "udp", "[fd00:77::53]:53") // nobody is there: the node answers
	}}
	found, err := resolver.LookupNetIP(ctx, "ip6", host+".")
	if err != nil {
		return netip.Addr{}, err
	}
	return found[0], nil
}

// try6 connects by IPv6.
func (a *ambientIPv6) try6(p *ambientPod, scheme, host string, at netip.Addr, open bool) (netip.Addr, error) {
	c := p.caller.at(at)
	c.patience = tryWithin
	c = c.whileOpen(open)
	return c.try(a.ctx, scheme, host, ambientPorts[scheme], "/")
}

// opened6 waits until a host is open, or closed, by all ways.
func (a *ambientIPv6) opened6(t *testing.T, p *ambientPod, host string, at netip.Addr, open bool, peer netip.Addr) {
	t.Helper()
	if err := world.Within(a.ctx, 2*time.Minute, func() error {
		for scheme := range ambientPorts {
			seen, err := a.try6(p, scheme, host, at, open)
			if (err == nil) != open {
				return fmt.Errorf("%s: %s://%s at %v is open: %t, want %t (%w)", p.name, scheme, host, at, err == nil, open, err)
			}
			if open && peer.IsValid() && seen != peer {
				return fmt.Errorf("%s: the server of %s://%s saw %v, want %v", p.name, scheme, host, seen, peer)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func (a *ambientIPv6) names(t *testing.T) {
	for _, p := range a.pods() {
		if err := world.Within(a.ctx, time.Minute, func() error {
			at, err := a.lookup(a.ctx, p, "six.ambient.test")
			if err == nil && !netip.MustParsePrefix("2001:2::/48").Contains(at) {
				err = fmt.Errorf("%v is not made up", at)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

func (a *ambientIPv6) straight(t *testing.T) {
	for _, p := range a.pods() {
		a.opened6(t, p, "sixfree.ambient.test", world.OutsideAddr6, true, a.at[p])
		a.recorded(t, "straight from "+p.name, "sixfree.ambient.test", func(r record.Record) bool {
			return r.Workload.Principal == p.id && r.Path == record.PathPassthrough && r.Verdict == record.Allowed
		})
		at, err := a.lookup(a.ctx, p, "straight.ambient.test")
		if err != nil {
			t.Fatal(err)
		}
		if p == a.dual { // the host itself is at IPv4 outside
			a.opened6(t, p, "straight.ambient.test", at, true, alphaAddr)
		}
	}
}

func (a *ambientIPv6) throughGateway(t *testing.T) {
	for _, p := range a.pods() {
		at, err := a.lookup(a.ctx, p, "six.ambient.test")
		if err != nil {
			t.Fatal(err)
		}
		a.opened6(t, p, "six.ambient.test", at, true, egress6Addr)
		for _, protocol := range []string{"http", "tls", "tcp"} {
			a.recorded(t, protocol+" of "+p.name, "six.ambient.test", func(r record.Record) bool {
				return r.Workload.Principal == p.id && r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.Protocol == protocol
			})
		}
	}
	at, err := a.lookup(a.ctx, a.dual, "mesh.ambient.test")
	if err != nil {
		t.Fatal(err)
	}
	a.opened6(t, a.dual, "mesh.ambient.test", at, true, world.GatewayAddr) // by a gateway that is found by IPv4
}

func (a *ambientIPv6) inbound(t *testing.T) {
	for _, p := range a.pods() {
		polyglot{a.scene.Outside.CA}.serve(t, p.host, a.at[p], []uint16{ambientHTTP, ambientTCP, ambientTLS})
	}
	if err := a.scene.World.GiveIPv6(a.node.Host, node6); err != nil {
		t.Fatal(err)
	}
	onNode := &ambientPod{name: "the node", host: a.node.Host, caller: a.dual.caller}
	onNode.caller.host = a.node.Host
	a.at[onNode] = node6
	for _, to := range a.pods() {
		for _, from := range append(a.pods(), onNode) {
			if from != to {
				a.opened6(t, from, "inside.ambient.test", a.at[to], true, a.at[from])
			}
		}
	}
}

// tunnels holds that HBONE, as another node's proxy makes it, comes in by IPv6: to the pod's own addresses, as they are written, and nowhere else.
func (a *ambientIPv6) tunnels(t *testing.T) {
	h := &hboneTest{ambientNode: a.ambientNode, mesh: meshCA(t, a.scene.DataDir())}
	roots := x509.NewCertPool()
	roots.AddCert(h.mesh.cert)
	for _, p := range a.pods() {
		serveTold(t, p.host, a.at[p], tunnelApp)
		at6 := *p
		at6.addr = a.at[p]
		tr := h.clientTo(t, &at6, roots, h.member(t, "one"))
		peer, err := tell(a.ctx, tr, h.app(&at6), "who")
		if err != nil || peer != node6.String() {
			t.Errorf("the app of %s was reached by %q (%v), want %v", p.name, peer, err, node6)
		}
		const size = 1 << 20
		if got, err := tell(a.ctx, tr, h.app(&at6), fmt.Sprintf("send %d", size)); err != nil || len(got) != size {
			t.Errorf("of %s %d of %d bytes came (%v)", p.name, len(got), size, err)
		}
		for _, elsewhere := range []string{
			netip.AddrPortFrom(node6, tunnelApp).String(), netip.AddrPortFrom(world.OutsideAddr6, ambientHTTP).String(), netip.AddrPortFrom(a.at[a.other(p)], tunnelApp).String(),
			fmt.Sprintf("[::1]:%d", tunnelApp), fmt.Sprintf("[::ffff:127.0.0.1]:%d", tunnelApp), fmt.Sprintf("[%s]:15001", a.at[p]), fmt.Sprintf("[%s]:0%d", a.at[p], tunnelApp),
		} {
			var status notTaken
			if got, err := tell(a.ctx, tr, elsewhere, "who"); !errors.As(err, &status) || status != http.StatusBadRequest {
				t.Errorf("by a tunnel of %s to %s: %q %v, want status %d", p.name, elsewhere, got, err, http.StatusBadRequest)
			}
		}
		if got, err := tell(a.ctx, h.clientTo(t, &at6, roots), h.app(&at6), "who"); err == nil {
			t.Errorf("who shows no certificate reached %s: %q", p.name, got)
		}
		stranger := strangeCA(t, h.mesh).issue(t, "spiffe://cluster.local/ns/far/sa/one", time.Hour)
		if got, err := tell(a.ctx, h.clientTo(t, &at6, roots, stranger), h.app(&at6), "who"); err == nil {
			t.Errorf("who is of another mesh reached %s: %q", p.name, got)
		}
	}
}

func (a *ambientIPv6) other(p *ambientPod) *ambientPod {
	if p == a.dual {
		return a.only
	}
	return a.dual
}

func (a *ambientIPv6) registryOnly(t *testing.T) {
	if err := a.scene.SetPolicy(a.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	for _, p := range a.pods() {
		a.opened6(t, p, "sixfree.ambient.test", world.OutsideAddr6, false, netip.Addr{})
		tries := func() {
			for scheme := range ambientPorts {
				_, _ = a.try6(p, scheme, "sixfree.ambient.test", world.OutsideAddr6, false)
			}
		}
		a.recordedOf(t, "closed for "+p.name, "sixfree.ambient.test", tries, func(r record.Record) bool {
			return r.Workload.Principal == p.id && r.Class != record.DNS && r.Verdict == record.Denied && r.Path == record.PathBlackhole
		})
		at, err := a.lookup(a.ctx, p, "six.ambient.test")
		if err != nil {
			t.Fatal(err)
		}
		a.opened6(t, p, "six.ambient.test", at, true, egress6Addr)
	}
}

// agentAway holds that without anybody at the end of the rules nothing leaves by IPv6.
func (a *ambientIPv6) agentAway(t *testing.T) {
	if err := a.kills(a.node); err != nil {
		t.Fatal(err)
	}
	for _, p := range a.pods() {
		for scheme := range ambientPorts {
			if seen, err := a.try6(p, scheme, "six.ambient.test", world.OutsideAddr6, false); err == nil {
				t.Errorf("%s: %s reached the server as %v", p.name, scheme, seen)
			}
		}
	}
}
