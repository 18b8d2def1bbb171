package kernel

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// TestSamePortAsTheClient: the node's proxy connects to the app with its client's address, from a port that the kernel picks in the pod; the client picks the ports of
// its connections elsewhere. Where one is open from a port, a connection of the other's from the same port is another one all the same.
func TestSamePortAsTheClient(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			l := newLab(t, kind)
			if out, err := l.play(l.pod, role{Do: "ambient"}, "PATH="+l.path); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, at := range []struct{ pod, outside string }{{podV4, outsideV4}, {podV6, outsideV6}} {
				s := spoofing{t: t, lab: l, app: netip.AddrPortFrom(netip.MustParseAddr(at.pod), 8080), client: netip.MustParseAddr(at.outside)}
				s.serve()
				first := s.connect(61001, 61002)
				second := s.connect(61002, 61001)
				for range 3 {
					first.asks()
					second.asks()
				}
			}
		})
	}
}

// spoofing is a pod whose node's proxy connects to its app with clients' addresses.
type spoofing struct {
	t       *testing.T
	lab     *lab
	app     netip.AddrPort
	client  netip.Addr
	inbound net.Listener // the proxy's
}

// inside does something in a network namespace.
func (s spoofing) inside(namespace string, do func() error) {
	s.t.Helper()
	if err := ns.WithNetNSPath("/run/netns/"+namespace, func(ns.NetNS) error { return do() }); err != nil {
		s.t.Fatalf("%s: %v", namespace, err)
	}
}

// serve has the app say from where a connection comes, as often as it is asked, and the proxy listen.
func (s *spoofing) serve() {
	s.t.Helper()
	var app net.Listener
	s.inside(s.lab.pod, func() (err error) {
		if app, err = net.Listen("tcp", s.app.String()); err != nil {
			return err
		}
		any := netip.IPv4Unspecified()
		if s.client.Is6() {
			any = netip.IPv6Unspecified()
		}
		network := map[bool]string{true: "tcp6", false: "tcp4"}[s.client.Is6()]
		s.inbound, err = net.Listen(network, netip.AddrPortFrom(any, redirect.AmbientInboundPort).String())
		return err
	})
	s.t.Cleanup(func() { _, _ = app.Close(), s.inbound.Close() })
	go func() {
		for {
			c, err := app.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = c.Close() }()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					_, _ = fmt.Fprintln(c, c.RemoteAddr())
				}
			}()
		}
	}()
}

// spoofed is a connection of a client's to the app, by the proxy.
type spoofed struct {
	spoofing
	client  net.Conn
	answers *bufio.Reader
	as      string // what the app takes its client for
}

// connect has the client connect from a port, and the proxy go on from another one.
func (s spoofing) connect(port, goesOnFrom uint16) spoofed {
	s.t.Helper()
	c := spoofed{spoofing: s, as: netip.AddrPortFrom(s.client, goesOnFrom).String()}
	s.inside(s.lab.outside, func() (err error) {
		d := net.Dialer{Timeout: answerWithin, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.client, port))}
		c.client, err = d.Dial("tcp", s.app.String())
		return err
	})
	s.t.Cleanup(func() { _ = c.client.Close() })
	c.answers = bufio.NewReader(c.client)
	if err := s.inbound.(*net.TCPListener).SetDeadline(time.Now().Add(answerWithin)); err != nil {
		s.t.Fatal(err)
	}
	taken, err := s.inbound.Accept()
	if err != nil {
		s.t.Fatalf("what came from port %d did not come to the proxy: %v", port, err)
	}
	s.t.Cleanup(func() { _ = taken.Close() })
	var on net.Conn
	s.inside(s.lab.pod, func() (err error) {
		d := net.Dialer{Timeout: answerWithin, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.client, goesOnFrom)), Control: spoof}
		on, err = d.Dial("tcp", s.app.String())
		return err
	})
	s.t.Cleanup(func() { _ = on.Close() })
	go func() { _, _ = io.Copy(on, taken) }()
	go func() { _, _ = io.Copy(taken, on) }()
	return c
}

// answerWithin is more than anything here takes.
const answerWithin = 30 * time.Second

// asks holds that the client has the app's answers.
func (c spoofed) asks() {
	c.t.Helper()
	_ = c.client.SetDeadline(time.Now().Add(answerWithin))
	_, err := fmt.Fprintln(c.client, "who?")
	if err != nil {
		c.t.Fatal(err)
	}
	if answer, err := c.answers.ReadString('\n'); err != nil || answer != c.as+"\n" {
		c.t.Errorf("%s: the app says %q (%v), want %s", c.client.LocalAddr(), answer, err, c.as)
	}
}

// spoof marks a connection as the node's proxy does, and lets it have another's address.
func spoof(network, _ string, raw syscall.RawConn) error {
	level, option := unix.SOL_IP, unix.IP_TRANSPARENT
	if network == "tcp6" {
		level, option = unix.SOL_IPV6, unix.IPV6_TRANSPARENT
	}
	var err error
	_ = raw.Control(func(fd uintptr) {
		if err = unix.SetsockoptInt(int(fd), level, option, 1); err == nil {
			err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, redirect.AmbientAppMark)
		}
	})
	return err
}

// ambient writes the rules of a pod that its node serves. Arguments say what they are beside both families.
func (r role) ambient() error {
	rules := redirect.AmbientRules{IPv6: true, BlockQUIC: slices.Contains(r.Args, "quic")}
	return Apply(context.Background(), redirect.BuildAmbient(rules), redirect.AmbientDivert, Run{Wait: answerWithin, Log: slog.New(slog.DiscardHandler)})
}
