package kernel

import (
	"context"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// The addresses of the node's pods: app is guarded, control is not, gateway is what the guarded ones may use. The router
// is the node. IPv6 is beside what package world has.
var (
	pods4 = netip.MustParsePrefix("10.77.0.0/24")
	pods6 = netip.MustParsePrefix("fd77::/64")
	app6  = netip.MustParseAddr("fd77::10")
	gate6 = netip.MustParseAddr("fd77::20")
	open6 = netip.MustParseAddr("fd77::30")
	out6  = netip.MustParseAddr("2001:db8::10")
)

// node is a node with its pods, and the world behind it.
type node struct {
	*world.World
	t     *testing.T
	table *Table
}

func newNode(t *testing.T, bridged bool) *node {
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
	netns, err := os.Open(filepath.Join("/run/netns", w.Router.Namespace()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = netns.Close() })
	n := &node{World: w, t: t, table: In(int(netns.Fd()))}
	for host, address := range map[*world.Host]string{w.App: app6.String(), w.Gateway: gate6.String(), w.Control: open6.String(), w.Outside: out6.String()} {
		n.linkLocal(host, "eth0", "fe80::2")
		n.ip(host, "addr add "+address+"/64 dev eth0 nodad")
		n.ip(host, "-6 route add default via fe80::1 dev eth0")
	}
	for dev, address := range map[string]string{"pods": "fd77::1", "outside": "2001:db8::1"} {
		n.linkLocal(w.Router, dev, "fe80::1")
		n.ip(w.Router, "addr add "+address+"/64 dev "+dev+" nodad")
	}
	if !bridged {
		n.route()
	}
	// What a namespace finds below /proc/sys is that of the thread that opens it.
	n.must(w.Router.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) }))
	return n
}

// route takes the pods off the bridge: each has a wire and a route of its own, as with the plugins ptp and Calico.
func (n *node) route() {
	for pod, addresses := range map[*world.Host][2]netip.Addr{n.App: {world.AppAddr, app6}, n.Gateway: {world.GatewayAddr, gate6}, n.Control: {world.ControlAddr, open6}} {
		n.ip(n.Router, "link set "+pod.Name+" nomaster")
		n.linkLocal(n.Router, pod.Name, "fe80::1")
		n.ip(pod, "addr flush dev eth0 scope global")
		for _, a := range addresses {
			p, _ := a.Prefix(a.BitLen())
			n.ip(n.Router, "route add "+p.String()+" dev "+pod.Name)
			n.ip(pod, "addr add "+p.String()+" dev eth0 nodad")
		}
		n.ip(pod, "route add default via 10.77.0.1 dev eth0 onlink")
		n.ip(pod, "-6 route replace default via fe80::1 dev eth0")
	}
}

// linkLocal gives an interface a link-local address that is usable at once: detecting duplicates of one takes seconds.
func (n *node) linkLocal(h *world.Host, dev, address string) {
	n.ip(h, "link set "+dev+" addrgenmode none")
	n.ip(h, "-6 addr flush dev "+dev+" scope link")
	n.ip(h, "addr add "+address+"/64 dev "+dev+" nodad")
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) ip(h *world.Host, call string) {
	n.t.Helper()
	out, err := exec.Command("ip", append([]string{"-n", h.Namespace()}, strings.Fields(call)...)...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("ip %s: %v: %s", call, err, out)
	}
}

// nft runs nft on the node.
func (n *node) nft(args ...string) string {
	n.t.Helper()
	if _, err := exec.LookPath("nft"); err != nil {
		n.t.Skip("needs nft: `make tools` installs it")
	}
	out, err := exec.Command("ip", append([]string{"netns", "exec", n.Router.Namespace(), "nft"}, args...)...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("nft %v: %v: %s", args, err, out)
	}
	return string(out)
}

// plan is that of the node, with the app guarded or not.
func plan(t *testing.T, guarded bool, change func(*nodeguard.Options, *nodeguard.View)) nodeguard.Plan {
	t.Helper()
	o := nodeguard.Options{Node: "here", Namespaces: []string{"shop"}}
	if !guarded {
		o.Namespaces = []string{"other"}
	}
	v := nodeguard.View{
		Nodes: []nodeguard.Node{{Name: "here", PodNetworks: []netip.Prefix{pods4, pods6}, Addresses: []netip.Addr{netip.MustParseAddr("203.0.113.1")}}},
		Pods: []nodeguard.Pod{
			{Namespace: "shop", Name: "app", Addresses: []netip.Addr{world.AppAddr, app6}},
			{Namespace: "istio-system", Name: "gateway", Addresses: []netip.Addr{world.GatewayAddr, gate6}},
			{Namespace: "legacy", Name: "control", Addresses: []netip.Addr{world.ControlAddr, open6}},
		},
	}
	if change != nil {
		change(&o, &v)
	}
	p, err := nodeguard.Build(o, v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	patience = 30 * time.Second       // for what comes at once on an idle machine
	enough   = 400 * time.Millisecond // to see that nothing comes
)

// dial connects from a host and says how it ended: "", "refused" or the error.
func (n *node) dial(from *world.Host, network, address string) string {
	n.t.Helper()
	return n.dialWithin(patience, from, network, address)
}

// dialWithin is dial with a time, after which it says "timeout".
func (n *node) dialWithin(limit time.Duration, from *world.Host, network, address string) string {
	n.t.Helper()
	c, ended := n.connectWithin(limit, from, network, address)
	if c != nil {
		_ = c.Close()
	}
	return ended
}

func (n *node) connect(from *world.Host, network, address string) (net.Conn, string) {
	return n.connectWithin(patience, from, network, address)
}

func (n *node) connectWithin(limit time.Duration, from *world.Host, network, address string) (net.Conn, string) {
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	c, err := from.DialContext(ctx, network, address)
	return c, outcome(err)
}

func outcome(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case asErrno(err, syscall.ECONNREFUSED), asErrno(err, syscall.ECONNRESET):
		return "refused"
	case asErrno(err, syscall.EHOSTUNREACH), asErrno(err, syscall.EACCES):
		return "prohibited"
	case asNet(err, &timeout) && timeout.Timeout():
		return "timeout"
	default:
		return err.Error()
	}
}

// serve echoes TCP and UDP on addresses of a host until the test ends.
func (n *node) serve(h *world.Host, addresses ...netip.Addr) {
	n.t.Helper()
	for _, a := range addresses {
		n.serveAt(h, at(a))
	}
}

func (n *node) serveAt(h *world.Host, address string) {
	n.t.Helper()
	l, err := h.Listen(address)
	n.must(err)
	u, err := h.ListenPacket(address)
	n.must(err)
	var served sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	n.t.Cleanup(func() {
		end()
		_, _ = l.Close(), u.Close()
		served.Wait()
	})
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { _ = c.Close() })
			served.Go(func() { _, _ = io.Copy(c, c); _ = c.Close() })
		}
	})
	served.Go(func() {
		buf := make([]byte, 2048)
		for {
			size, from, err := u.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = u.WriteTo(buf[:size], from)
		}
	})
}

// echo sends a line and waits for it to come back.
func echo(c net.Conn) error { return echoWithin(patience, c) }

func echoWithin(limit time.Duration, c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 5))
	return err
}
