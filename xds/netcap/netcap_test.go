package netcap

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

// queue is a listener of connections that a test makes up.
type queue struct{ waiting []net.Conn }

var errEmpty = errors.New("nobody waits")

func (q *queue) Accept() (net.Conn, error) {
	if len(q.waiting) == 0 {
		return nil, errEmpty
	}
	c := q.waiting[0]
	q.waiting = q.waiting[1:]
	return c, nil
}
func (*queue) Close() error   { return nil }
func (*queue) Addr() net.Addr { return nil }

// caller is a connection from an address.
type caller struct {
	net.Conn
	from   net.Addr
	closed int
}

func (c *caller) RemoteAddr() net.Addr { return c.from }
func (c *caller) Close() error         { c.closed++; return nil }

func from(addr string) *caller {
	return &caller{from: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))}
}

func TestLimits(t *testing.T) {
	q := &queue{}
	refused := 0
	l := Listen(q, Limits{All: 4, Each: 2, Refused: func(net.Addr) { refused++ }})
	arrive := func(addr string) (net.Conn, *caller) {
		t.Helper()
		c := from(addr)
		q.waiting = append(q.waiting, c)
		got, err := l.Accept()
		if err != nil && !errors.Is(err, errEmpty) {
			t.Fatal(err)
		}
		return got, c
	}
	first, _ := arrive("10.0.0.1:1")
	if c, _ := arrive("10.0.0.1:2"); first == nil || c == nil {
		t.Fatal("two of one address were not taken")
	}
	if c, raw := arrive("[::ffff:10.0.0.1]:3"); c != nil || raw.closed != 1 {
		t.Error("a third one of the same address, in IPv6's form, was taken or left open")
	}
	one, _ := arrive("[fd00::1]:1")
	two, _ := arrive("[fd00::2]:1")
	if one == nil || two == nil {
		t.Fatal("two of another network were not taken")
	}
	if c, _ := arrive("10.0.0.3:1"); c != nil {
		t.Error("a fifth one of all was taken")
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil { // closing twice makes room for one
		t.Fatal(err)
	}
	if c, _ := arrive("[fd00::3]:1"); c != nil {
		t.Error("a third one of one /64 was taken")
	}
	if c, _ := arrive("10.0.0.1:4"); c == nil {
		t.Error("no room was made by the one that was closed")
	}
	if c, _ := arrive("10.0.0.4:1"); c != nil {
		t.Error("closing one connection twice made room for two")
	}
	if refused != 4 {
		t.Errorf("%d refusals were told, want 4", refused)
	}
}

// TestNobodyInParticular: a socket's path and loopback count with all, not as one peer.
func TestNobodyInParticular(t *testing.T) {
	q := &queue{}
	l := Listen(q, Limits{All: 4, Each: 1}).(*listener)
	for _, c := range []*caller{from("127.0.0.1:1"), from("127.0.0.1:2"), from("[::1]:1"), {from: &net.UnixAddr{Name: "a"}}} {
		q.waiting = append(q.waiting, c)
		if _, err := l.Accept(); err != nil {
			t.Errorf("%v: %v", c.from, err)
		}
	}
	if len(l.of) != 0 {
		t.Errorf("counted apart: %v", l.of)
	}
}
