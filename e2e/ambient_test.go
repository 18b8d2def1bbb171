package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The ports of this test's servers, each of which speaks whatever it is spoken to.
const (
	ambientHTTP = 9681
	ambientTLS  = 9682
	ambientTCP  = 9683
	ambientEcho = 9684
)

// The pods of the node: two namespaces, two accounts.
var (
	nodeAddr  = netip.MustParseAddr("10.77.0.60")
	alphaAddr = netip.MustParseAddr("10.77.0.61")
	betaAddr  = netip.MustParseAddr("10.77.0.62")
)

const ambientObjects = `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s, labels: {istio.io/dataplane-mode: ambient}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s-1, namespace: %[1]s, labels: {app: %[1]s}}
spec: {serviceAccountName: %[1]s-account, nodeName: node-1, containers: []}
status: {podIP: %[2]s, phase: Running}
`

// ambientPorts are they, by what is spoken.
var ambientPorts = map[string]uint16{"http": ambientHTTP, "tls": ambientTLS, "tcp": ambientTCP}

type ambientPod struct {
	name string // NAMESPACE/NAME
	addr netip.Addr
	host *world.Host
	id   string
	caller
}

type ambientNode struct {
	ctx         context.Context
	scene       *story.Scene
	node        *story.Node
	alpha, beta *ambientPod
}

// TestAmbient holds that pods without sidecars leave as those with one do, by one Envoy for all of their node.
func TestAmbient(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	a := &ambientNode{ctx: ctx, scene: s}
	a.serve(t)
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	a.alpha, a.beta = a.pod(t, "alpha", alphaAddr), a.pod(t, "beta", betaAddr)
	inOrder(t, []part{
		{"out by the gateway, each as itself", a.throughGateway},
		{"straight, and what nobody registered", a.straight},
		{"requests arrive whole", a.whole},
		{"ports come and go", a.portsComeAndGo},
		{"a policy about one of them", a.policy},
		{"what a namespace has for itself", a.ownTables},
		{"what comes in", a.inbound},
		{"ports that a client and the proxy pick", a.samePorts},
		{"names asked over IPv6", a.namesOverIPv6},
		{"only what is registered", a.registryOnly},
		{"explained", a.explained},
		{"one comes and goes, the other's stream goes on", a.churn},
		{"the controller is away", a.controllerAway},
		{"Envoy is killed", a.envoyKilled},
		{"Envoy is killed while the controller says nothing", a.killedAlone},
		{"Envoy is killed while there is no controller", a.killedBeside},
		{"let out, and gone", a.letGo},
	})
}

func (a *ambientNode) serve(t *testing.T) {
	t.Helper()
	polyglot{a.scene.Outside.CA}.serve(t, a.scene.World.Outside, world.OutsideAddrs[0], []uint16{ambientHTTP, ambientTLS, ambientTCP})
	echo, err := a.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], ambientEcho).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	objects := ""
	for name, gateway := range map[string]string{"mesh": "istio-system/istio-egressgateway", "straight": "direct", "free": ""} {
		host := name + ".ambient.test"
		a.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[0])
		if gateway == "" {
			continue // nobody registers it
		}
		objects += fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %q, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
			"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}, {number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}, {number: %d, name: tcp-echo, protocol: TCP}]}\n", host, gateway, host, ambientHTTP, ambientTLS, ambientTCP, ambientEcho)
	}
	if err := a.scene.Config.Write("ambient.yaml", objects); err != nil {
		t.Fatal(err)
	}
}

// pod makes a pod and has it taken in.
func (a *ambientNode) pod(t *testing.T, name string, addr netip.Addr) *ambientPod {
	t.Helper()
	host, err := a.scene.World.AddPod(name, addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.scene.Config.Write("pod-"+name+".yaml", fmt.Sprintf(ambientObjects, name, addr)); err != nil {
		t.Fatal(err)
	}
	p := &ambientPod{name: name + "/" + name + "-1", addr: addr, host: host, id: "spiffe://cluster.local/ns/" + name + "/sa/" + name + "-account", caller: appOf(a.scene)}
	p.caller.host = host
	if err := a.node.Tell(a.ctx, "add", p.name, host); err != nil {
		t.Fatal(err)
	}
	return p
}

// nodeThreads is how often in a row something has to be as it should at a node: each connection is one of its Envoy's threads', and what is in force at one need not be at the other.
const nodeThreads = 4

// whileOpen is the caller with the patience of somebody who waits for an answer, where there is to be one.
func (c caller) whileOpen(open bool) caller {
	if open {
		c.patience = leastLimit
	}
	return c
}

// until waits until a host is open, or closed, for a pod by all ways.
func (a *ambientNode) until(t *testing.T, p *ambientPod, host string, open bool) {
	t.Helper()
	c := p.caller.whileOpen(open)
	if err := world.Within(a.ctx, 2*time.Minute, func() error {
		for range nodeThreads {
			for scheme, port := range ambientPorts {
				if _, err := c.try(a.ctx, scheme, host, port, "/"); (err == nil) != open {
					return fmt.Errorf("%s: %s://%s is open: %t, want %t (%w)", p.name, scheme, host, err == nil, open, err)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// recorded waits for a record about a host, of what was asked before.
func (a *ambientNode) recorded(t *testing.T, what, host string, fits func(record.Record) bool) {
	t.Helper()
	a.recordedOf(t, what, host, func() {}, fits)
}

// recordedOf waits for a record of what is asked again each time, since what was asked before may have been before an edit was in force.
func (a *ambientNode) recordedOf(t *testing.T, what, host string, asks func(), fits func(record.Record) bool) {
	t.Helper()
	recordedOf(a.ctx, t, a.scene, what, host, asks, fits)
}

// triesAll tries all ways of a pod's to a host, whatever becomes of it.
func (a *ambientNode) triesAll(p *ambientPod, host string) func() {
	return func() {
		for scheme, port := range ambientPorts {
			_, _ = p.try(a.ctx, scheme, host, port, "/")
		}
	}
}

func (a *ambientNode) throughGateway(t *testing.T) {
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		a.until(t, p, "mesh.ambient.test", true)
		for _, protocol := range []string{"http", "tls", "tcp"} {
			a.recorded(t, protocol+" of "+p.name, "mesh.ambient.test", func(r record.Record) bool {
				return r.Workload.Principal == p.id && r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.Protocol == protocol
			})
		}
	}
}

// straight holds that what leaves without a gateway leaves from the pod's own address, and that the name is in the record of what
// nobody registered.
func (a *ambientNode) straight(t *testing.T) {
	for _, host := range []string{"straight.ambient.test", "free.ambient.test"} {
		for _, p := range []*ambientPod{a.alpha, a.beta} {
			a.until(t, p, host, true)
			for scheme, port := range ambientPorts {
				if peer, err := p.whileOpen(true).try(a.ctx, scheme, host, port, "/"); err != nil || peer != p.addr {
					t.Errorf("%s: the server of %s://%s saw %v (%v), want %v", p.name, scheme, host, peer, err, p.addr)
				}
			}
		}
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		for host, path := range map[string]string{"straight.ambient.test": record.PathDirect, "free.ambient.test": record.PathPassthrough} {
			a.recorded(t, "straight from "+p.name, host, func(r record.Record) bool {
				return r.Workload.Principal == p.id && p.name == r.Workload.Namespace+"/"+r.Workload.Name && r.Path == path && r.Verdict == record.Allowed
			})
		}
	}
}

// policy holds that what leaves straight from the node is asked about with the pod's identity.
func (a *ambientNode) policy(t *testing.T) {
	a.write(t, "policy.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: closed, namespace: alpha}\n"+
		"spec: {rules: [{name: nothing, action: Deny, hosts: [straight.ambient.test]}, {name: rest, action: Allow, hosts: ['*']}]}\n")
	a.until(t, a.alpha, "straight.ambient.test", false)
	enforced(a.ctx, t, a.scene, "alpha/closed", "the node's proxy and the gateway", func(selected int) bool { return selected >= 2 })
	a.until(t, a.alpha, "free.ambient.test", true)
	a.until(t, a.alpha, "mesh.ambient.test", true)
	a.until(t, a.beta, "straight.ambient.test", true)
	a.recordedOf(t, "denied by the policy", "straight.ambient.test", a.triesAll(a.alpha, "straight.ambient.test"), func(r record.Record) bool {
		return r.Workload.Principal == a.alpha.id && deniedBy(r, "closed", "nothing")
	})
	if err := a.scene.Config.Remove("policy.yaml"); err != nil {
		t.Fatal(err)
	}
	a.until(t, a.alpha, "straight.ambient.test", true)
}

// inbound holds that who reaches a pod reaches its app, and is seen there as who it is.
func (a *ambientNode) inbound(t *testing.T) {
	polyglot{a.scene.Outside.CA}.serve(t, a.beta.host, a.beta.addr, []uint16{ambientHTTP})
	for from, host := range map[netip.Addr]*world.Host{a.alpha.addr: a.alpha.host, nodeAddr: a.node.Host} {
		c := a.alpha.whileOpen(true)
		c.host = host
		if peer, err := c.try(a.ctx, "http", a.beta.addr.String(), ambientHTTP, "/"); err != nil || peer != from {
			t.Errorf("the app was reached by %v (%v), want %v", peer, err, from)
		}
	}
}

// whole holds that what servers outside, and other pods, answer arrives.
func (a *ambientNode) whole(t *testing.T) {
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: all, namespace: default}\n" +
		"spec: {hosts: [all.ambient.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}]}\n"
	a.write(t, "all.yaml", fmt.Sprintf(entry, wholePort))
	a.scene.Outside.Set("all.ambient.test", time.Minute, world.OutsideAddrs[0])
	if _, err := a.alpha.answered(a.ctx, "all.ambient.test"); err != nil { // before, it is what nobody registered
		t.Fatal(err)
	}
	dial := func(host string) func(context.Context) (net.Conn, error) {
		return func(ctx context.Context) (net.Conn, error) {
			at, err := a.alpha.resolve(ctx, host)
			if err != nil {
				return nil, err
			}
			return a.alpha.host.DialContext(ctx, "tcp", netip.AddrPortFrom(at, wholePort).String())
		}
	}
	outside, pod := serveWhole(t, a.scene.World.Outside, netip.AddrPortFrom(world.OutsideAddrs[0], wholePort)), serveWhole(t, a.beta.host, netip.AddrPortFrom(a.beta.addr, wholePort))
	for what, w := range map[string]requestWay{
		"by the gateway":         {outside, fmt.Sprintf("all.ambient.test:%d", wholePort), dial("all.ambient.test")},
		"what nobody registered": {outside, fmt.Sprintf("free.ambient.test:%d", wholePort), dial("free.ambient.test")},
		"to a pod beside, by TCP": {pod, netip.AddrPortFrom(a.beta.addr, wholePort).String(), func(ctx context.Context) (net.Conn, error) {
			return a.alpha.host.DialContext(ctx, "tcp", netip.AddrPortFrom(a.beta.addr, wholePort).String())
		}},
	} {
		t.Run(what, w.holds)
	}
}

// namesOverIPv6 holds that a pod's DNS is caught and answered whatever its resolver's address.
func (a *ambientNode) namesOverIPv6(t *testing.T) {
	if _, err := a.alpha.host.Run(a.ctx, 0, "ip", "-6", "addr", "add", "fd00:77::61/64", "dev", "eth0", "nodad"); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"udp", "tcp"} {
		resolver := net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return a.alpha.host.DialContext(ctx, network, "[fd00:77::53]:53") // nobody is there
		}}
		ctx, cancel := context.WithTimeout(a.ctx, time.Minute)
		found, err := resolver.LookupNetIP(ctx, "ip4", "mesh.ambient.test.")
		cancel()
		if err != nil || len(found) == 0 {
			t.Errorf("by %s: %v (%v)", network, found, err)
		}
	}
}

// registryOnly holds that what nobody registered is closed, with the name that was tried in the record.
func (a *ambientNode) registryOnly(t *testing.T) {
	a.quic(t, true)
	if err := a.scene.SetPolicy(a.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		a.until(t, p, "free.ambient.test", false)
		a.until(t, p, "mesh.ambient.test", true)
		a.recordedOf(t, "closed for "+p.name, "free.ambient.test", a.triesAll(p, "free.ambient.test"), func(r record.Record) bool {
			return r.Workload.Principal == p.id && r.Class != record.DNS && r.Verdict == record.Denied && r.Path == record.PathBlackhole
		})
	}
	a.quic(t, false)
	a.recordedOf(t, "a name that DNS refused", "free.ambient.test", a.triesAll(a.alpha, "free.ambient.test"), func(r record.Record) bool {
		return r.Class == record.DNS && r.Verdict == record.Denied && r.Workload.Principal != ""
	})
}

// quic waits until pods' datagrams to port 443, which no proxy reads, go out, or are refused at once.
func (a *ambientNode) quic(t *testing.T, open bool) {
	t.Helper()
	server, err := a.scene.World.Outside.ListenPacket(netip.AddrPortFrom(world.OutsideAddrs[0], 443).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		buffer := make([]byte, 16)
		for {
			_, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = server.WriteTo([]byte("!"), from)
		}
	}()
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		if err := world.Within(a.ctx, time.Minute, func() error {
			conn, err := p.host.DialContext(a.ctx, "udp", netip.AddrPortFrom(world.OutsideAddrs[0], 443).String())
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }()
			_ = conn.SetDeadline(time.Now().Add(tryWithin))
			_, err = conn.Write([]byte("?"))
			if err == nil {
				_, err = conn.Read(make([]byte, 16))
			}
			if (err == nil) != open || !open && errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("%s: QUIC: %w, want it open: %t", p.name, err, open)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

// explained holds that what is said would happen is what was seen.
func (a *ambientNode) explained(t *testing.T) {
	for host, want := range map[string]string{"mesh.ambient.test": "gateway", "straight.ambient.test": "direct", "free.ambient.test": "blackhole"} {
		out, _ := a.scene.Call(a.ctx, "explain", "--config-dir", a.scene.Config.Path, "--mesh-config", a.scene.MeshConfig(),
			"--from", "alpha/alpha-1?app=alpha", "-o", "json", fmt.Sprintf("http://%s:%d", host, ambientHTTP))
		var said struct{ Path string }
		if err := json.Unmarshal(out, &said); err != nil || said.Path != want {
			t.Errorf("explain %s: %s (%v), want %s", host, out, err, want)
		}
		_, err := a.alpha.whileOpen(true).try(a.ctx, "http", host, ambientHTTP, "/")
		if (err == nil) != (want != "blackhole") {
			t.Errorf("%s: %v, explained as %s", host, err, want)
		}
	}
}

// churn holds that a pod that comes and goes is nothing to another one's stream.
func (a *ambientNode) churn(t *testing.T) {
	kept, err := a.alpha.keep(a.ctx, "mesh.ambient.test", ambientEcho)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = kept.Close() }()
	gamma := a.pod(t, "gamma", netip.MustParseAddr("10.77.0.63"))
	a.until(t, gamma, "mesh.ambient.test", true)
	if err := errors.Join(a.scene.Config.Remove("pod-gamma.yaml"), a.node.Tell(a.ctx, "remove", gamma.name, gamma.host)); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(a.ctx, time.Minute, func() error { return a.opens(gamma, false) }); err != nil {
		t.Error(err)
	}
	if err := kept.ping(); err != nil {
		t.Errorf("the other pod's stream: %v", err)
	}
}

// controllerAway holds that traffic and DNS go on without the controller.
func (a *ambientNode) controllerAway(t *testing.T) {
	if err := a.scene.KillController(a.ctx); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		a.until(t, p, "mesh.ambient.test", true)
		a.until(t, p, "free.ambient.test", false)
	}
	if err := a.scene.StartController(a.ctx); err != nil {
		t.Fatal(err)
	}
}

// letGo holds that a pod whose label says so is let out, and that nothing holds the network of one that is gone.
func (a *ambientNode) letGo(t *testing.T) {
	a.write(t, "pod-alpha.yaml", strings.Replace(fmt.Sprintf(ambientObjects, "alpha", alphaAddr), "{app: alpha}", "{app: alpha, istio.io/dataplane-mode: none}", 1))
	if err := world.Within(a.ctx, time.Minute, func() error {
		peer, err := a.alpha.try(a.ctx, "http", world.OutsideAddrs[0].String(), ambientHTTP, "/")
		if err == nil && peer != alphaAddr {
			err = fmt.Errorf("seen as %v", peer)
		}
		return err
	}); err != nil {
		t.Errorf("let out: %v", err)
	}
	if err := world.Within(a.ctx, time.Minute, func() error { return a.opens(a.alpha, false) }); err != nil {
		t.Error(err)
	}
	if err := errors.Join(a.scene.Config.Remove("pod-beta.yaml"), a.node.Tell(a.ctx, "remove", a.beta.name, a.beta.host)); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(a.ctx, time.Minute, func() error { return a.opens(a.beta, false) }); err != nil {
		t.Error(err)
	}
}

// opens says whether a pod's listeners are open, or not, as they should be.
func (a *ambientNode) opens(p *ambientPod, want bool) error {
	return p.host.Do(func() error {
		for _, port := range []string{"15001", "15006", "15053"} {
			conn, err := net.DialTimeout("tcp4", "127.0.0.1:"+port, time.Second)
			if err == nil {
				_ = conn.Close()
			}
			if (err == nil) != want {
				return fmt.Errorf("%s: port %s is open: %t, want %t", p.name, port, err == nil, want)
			}
		}
		return nil
	})
}

func (a *ambientNode) write(t *testing.T, file, text string) {
	t.Helper()
	if err := a.scene.Config.Write(file, text); err != nil {
		t.Fatal(err)
	}
}

// keptConn is a connection to a server that answers each line.
type keptConn struct {
	net.Conn
	in *bufio.Reader
}

// keep opens one by a name.
func (p *ambientPod) keep(ctx context.Context, host string, port uint16) (*keptConn, error) {
	addr, err := p.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	conn, err := p.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return nil, err
	}
	k := &keptConn{conn, bufio.NewReader(conn)}
	return k, k.ping()
}

func (k *keptConn) ping() error {
	_ = k.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintln(k, "ping"); err != nil {
		return err
	}
	_, err := k.in.ReadString('\n')
	return err
}
