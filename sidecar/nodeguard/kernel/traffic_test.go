package kernel

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

const port = 443

func at(a netip.Addr) string { return netip.AddrPortFrom(a, port).String() }

// exchange sends a datagram and says what came back.
func (n *node) exchange(from *world.Host, address string) string {
	return n.exchangeWithin(patience, from, address)
}

func (n *node) exchangeWithin(limit time.Duration, from *world.Host, address string) string {
	c, ended := n.connect(from, "udp", address)
	if ended != "" {
		return ended
	}
	defer func() { _ = c.Close() }()
	return outcome(echoWithin(limit, c))
}

// out is where the world is.
var out = []netip.Addr{world.OutsideAddrs[0], out6}

func TestWhoReachesWhat(t *testing.T) {
	t.Run("bridged", func(t *testing.T) { testWhoReachesWhat(t, newNode(t, true)) })
	t.Run("routed", func(t *testing.T) { testWhoReachesWhat(t, newNode(t, false)) })
}

func testWhoReachesWhat(t *testing.T, n *node) {
	n.serve(n.App, world.AppAddr, app6)
	n.serve(n.Gateway, world.GatewayAddr, gate6)
	n.serve(n.Control, world.ControlAddr, open6)
	n.serve(n.Outside, out...)
	n.must(n.table.Replace(plan(t, true, nil)))

	worldAt := world.OutsideAddrs[0]
	for _, a := range out {
		if got := n.dial(n.App, "tcp", at(a)); got != "refused" {
			t.Errorf("a guarded pod to %s by TCP: %q, want refused", a, got)
		}
		if got := n.exchange(n.App, at(a)); got != "prohibited" {
			t.Errorf("a guarded pod to %s by UDP: %q, want prohibited", a, got)
		}
		for _, open := range []*world.Host{n.Control, n.Gateway} {
			if tcp, udp := n.dial(open, "tcp", at(a)), n.exchange(open, at(a)); tcp != "" || udp != "" {
				t.Errorf("%s to %s: TCP %q, UDP %q", open.Name, a, tcp, udp)
			}
		}
	}
	for _, inside := range []netip.Addr{world.GatewayAddr, world.ControlAddr, gate6, open6} {
		if tcp, udp := n.dial(n.App, "tcp", at(inside)), n.exchange(n.App, at(inside)); tcp != "" || udp != "" {
			t.Errorf("a guarded pod to the pod %s: TCP %q, UDP %q", inside, tcp, udp)
		}
	}
	// Whoever comes from outside is answered.
	for _, a := range []netip.Addr{world.AppAddr, app6} {
		if tcp, udp := n.dial(n.Outside, "tcp", at(a)), n.exchange(n.Outside, at(a)); tcp != "" || udp != "" {
			t.Errorf("from outside to the guarded pod %s: TCP %q, UDP %q", a, tcp, udp)
		}
	}
	// The user does not matter, and neither does the protocol.
	if out, err := n.App.Run(t.Context(), world.ProxyUID, "curl", "--silent", "--max-time", "2", "http://"+at(worldAt)); err == nil {
		t.Errorf("user %d got out: %s", world.ProxyUID, out)
	}
	if got := n.ping(n.App, worldAt); got != "prohibited" {
		t.Errorf("a guarded pod pings the world: %q, want prohibited", got)
	}
	if got := n.ping(n.Control, worldAt); got != "" {
		t.Errorf("another pod pings the world: %q", got)
	}

	counts, err := n.table.Counts()
	n.must(err)
	if counts.Refused[world.AppAddr].Packets < 4 || counts.Refused[app6].Packets < 2 || len(counts.Refused) != 2 {
		t.Errorf("counts of the guarded pod: %+v", counts)
	}
	if counts.Refused[world.AppAddr].Bytes < 4*40 || counts.Named[nodeguard.CounterUnknown].Packets != 0 || len(counts.Named) != 3 {
		t.Errorf("counts: %+v", counts)
	}
}

// ping sends an ICMP echo with an unprivileged socket's means: root's raw socket.
func (n *node) ping(from *world.Host, to netip.Addr) string {
	var c net.Conn
	err := from.Do(func() (err error) { c, err = net.Dial("ip4:icmp", to.String()); return err })
	if err != nil {
		return outcome(err)
	}
	defer func() { _ = c.Close() }()
	n.must(c.SetDeadline(time.Now().Add(patience)))
	if _, err := c.Write([]byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}); err != nil { // echo request with its checksum
		return outcome(err)
	}
	buf := make([]byte, 128)
	size, err := c.Read(buf)
	if err != nil {
		return outcome(err)
	}
	// A raw socket reads what ICMP says as well, and is told by an error only when it asks for that.
	if buf[0]>>4 == 4 && size > 20 {
		buf = buf[20:]
	}
	switch {
	case buf[0] == 0:
		return ""
	case buf[0] == 3 && buf[1] == 13:
		return "prohibited"
	default:
		return fmt.Sprintf("ICMP %d/%d", buf[0], buf[1])
	}
}

func TestBecomesGuarded(t *testing.T) {
	t.Run("bridged", func(t *testing.T) { testBecomesGuarded(t, newNode(t, true)) })
	t.Run("routed", func(t *testing.T) { testBecomesGuarded(t, newNode(t, false)) })
}

func testBecomesGuarded(t *testing.T, n *node) {
	n.serve(n.Outside, out...)
	before, after := plan(t, false, nil), plan(t, true, nil)
	n.must(n.table.Replace(before))
	var open []net.Conn
	for _, network := range []string{"tcp", "udp"} {
		for _, a := range []netip.Addr{world.OutsideAddrs[0], out6} {
			c, ended := n.connect(n.App, network, at(a))
			if ended != "" {
				t.Fatalf("before, %s to %s: %s", network, a, ended)
			}
			defer func() { _ = c.Close() }()
			n.must(echo(c))
			open = append(open, c)
		}
	}
	n.must(n.table.Change(nodeguard.Diff(before, after)))
	for _, c := range open {
		if err := echoWithin(enough, c); err == nil {
			t.Errorf("the open connection %s to %s goes on", c.RemoteAddr().Network(), c.RemoteAddr())
		}
	}
	// And back.
	n.must(n.table.Change(nodeguard.Diff(after, before)))
	if got := n.dial(n.App, "tcp", at(world.OutsideAddrs[0])); got != "" {
		t.Errorf("no longer guarded: %q", got)
	}
}

// TestDownload: what the world sends on a connection from before is not taken either, although the pod says nothing.
func TestDownload(t *testing.T) {
	n := newNode(t, true)
	before, after := plan(t, false, nil), plan(t, true, nil)
	n.must(n.table.Replace(before))
	server, err := n.Outside.ListenPacket(at(world.OutsideAddrs[0]))
	n.must(err)
	defer func() { _ = server.Close() }()
	c, ended := n.connect(n.App, "udp", at(world.OutsideAddrs[0]))
	if ended != "" {
		t.Fatal(ended)
	}
	defer func() { _ = c.Close() }()
	_, err = c.Write([]byte("hello"))
	n.must(err)
	_, client, err := server.ReadFrom(make([]byte, 16))
	n.must(err)
	receive := func(within time.Duration) error {
		if _, err := server.WriteTo([]byte("data"), client); err != nil {
			return err
		}
		n.must(c.SetReadDeadline(time.Now().Add(within)))
		_, err := c.Read(make([]byte, 16))
		return err
	}
	n.must(receive(patience))
	n.must(n.table.Change(nodeguard.Diff(before, after)))
	if got := outcome(receive(enough)); got != "timeout" {
		t.Errorf("the world's datagram on an old connection: %q, want none", got)
	}
	counts, err := n.table.Counts()
	n.must(err)
	if counts.Named[nodeguard.CounterAnswers].Packets != 1 {
		t.Errorf("counts: %+v", counts.Named)
	}
}

// TestUnknown: an address that is no known pod's waits, and gets out at once when its pod is known and open.
func TestUnknown(t *testing.T) {
	n := newNode(t, true)
	n.serve(n.Outside, out...)
	without := func(o *nodeguard.Options, v *nodeguard.View) { v.Pods = v.Pods[:1] }
	unknown, known := plan(t, true, without), plan(t, true, nil)
	n.must(n.table.Replace(unknown))
	for _, a := range []netip.Addr{world.OutsideAddrs[0], out6} {
		if got := n.dialWithin(enough, n.Control, "tcp", at(a)); got != "timeout" {
			t.Errorf("an unknown pod to %s: %q, want that it waits", a, got)
		}
	}
	connected := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		c, err := n.Control.DialContext(t.Context(), "tcp", at(world.OutsideAddrs[0]))
		if err == nil {
			err = c.Close()
		}
		connected <- err
	}()
	<-started
	n.must(world.Poll(t.Context(), 10*time.Millisecond, func() error {
		counts, err := n.table.Counts()
		if err == nil && counts.Named[nodeguard.CounterUnknown].Packets < 3 {
			err = fmt.Errorf("counts: %+v", counts.Named)
		}
		return err
	}))
	n.must(n.table.Change(nodeguard.Diff(unknown, known)))
	n.must(<-connected) // by the second SYN, after a second

	n.must(n.table.Replace(plan(t, true, func(o *nodeguard.Options, v *nodeguard.View) {
		without(o, v)
		o.AllowUnknown = true
	})))
	if got := n.dial(n.Control, "tcp", at(world.OutsideAddrs[0])); got != "" {
		t.Errorf("an unknown pod where those are allowed: %q", got)
	}
}

// TestSpoofed: an address that the pod does not have is no way out, be it nobody's.
func TestSpoofed(t *testing.T) {
	n := newNode(t, true)
	n.serve(n.Outside, out...)
	n.ip(n.App, "addr add 192.0.2.7/32 dev lo")
	n.ip(n.Outside, "route add 192.0.2.0/24 via 203.0.113.1")
	n.ip(n.Router, "route add default dev outside") // the way to 192.0.2.7 is not the pod's
	send := func() string {
		var c net.Conn
		n.must(n.App.Do(func() (err error) {
			c, err = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("192.0.2.7")}, Timeout: enough}).Dial("tcp", at(world.OutsideAddrs[0]))
			if err == nil {
				_ = c.Close()
			}
			return nil
		}))
		counts, err := n.table.Counts()
		n.must(err)
		return fmt.Sprint(counts.Named[nodeguard.CounterSpoofed].Packets > 0)
	}
	n.must(n.table.Replace(plan(t, true, func(o *nodeguard.Options, _ *nodeguard.View) { o.AllowSpoofed = true })))
	if got := send(); got != "false" {
		t.Error("counted although allowed")
	}
	n.must(n.table.Replace(plan(t, true, nil)))
	if got := send(); got != "true" {
		t.Error("the packet with another's address was not dropped")
	}
}

// TestSentByTheNode: with IPVS the node itself sends on what pods sent to a Service, in their name.
func TestSentByTheNode(t *testing.T) {
	n := newNode(t, true)
	n.serve(n.Outside, out...)
	transparent := func(_, _ string, c syscall.RawConn) error {
		var err error
		return errors.Join(c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_IP, unix.IP_TRANSPARENT, 1) }), err)
	}
	n.must(n.table.Replace(plan(t, true, nil)))
	for source, want := range map[netip.Addr]bool{world.AppAddr: true, world.ControlAddr: false} {
		before, err := n.table.Counts()
		n.must(err)
		n.must(n.Router.Do(func() error {
			dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: source.AsSlice()}, Timeout: enough, Control: transparent}
			if c, err := dialer.Dial("tcp", at(world.OutsideAddrs[0])); err == nil {
				return c.Close()
			}
			return nil // the answer goes to the pod, which knows nothing of it
		}))
		after, err := n.table.Counts()
		n.must(err)
		if got := after.Refused[world.AppAddr].Packets > before.Refused[world.AppAddr].Packets; got != want {
			t.Errorf("sent in the name of %s: refused %v, want %v", source, got, want)
		}
	}
	// The node's own traffic is not the guard's business, whichever of its addresses it uses.
	if got := n.dial(n.Router, "tcp", at(world.OutsideAddrs[0])); got != "" {
		t.Errorf("the node itself: %q", got)
	}
	n.ip(n.Outside, "route add 10.77.0.1/32 via 203.0.113.1")
	err := n.Router.Do(func() error {
		c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("10.77.0.1")}, Timeout: patience}).Dial("tcp", at(world.OutsideAddrs[0]))
		if err == nil {
			err = c.Close()
		}
		return err
	})
	if err != nil {
		t.Errorf("the node itself, by an address in its pods' network: %v", err)
	}
}
