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
	if c, _ := arrive("[fd00::3]:1"); c != nil {
		t.Error("a third one of one /64 was taken")
	}
	third, _ := arrive("10.0.0.3:1") // one of the others gives
	if third == nil {
		t.Fatal("who has none was not taken")
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil { // closing twice makes room for one
		t.Fatal(err)
	}
	if c, _ := arrive("10.0.0.1:4"); c == nil {
		t.Error("no room was made by the one that was closed")
	}
	if refused != 3 {
		t.Errorf("%d refusals were told, want 3", refused)
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
	if len(l.open.of) != 0 {
		t.Errorf("counted apart: %v", l.open.of)
	}
}

// TestWhoHasMostGives: peers that fill a listener leave another one its place, and one of the many is closed for it.
func TestWhoHasMostGives(t *testing.T) {
	q := &queue{}
	l := Listen(q, Limits{All: 5, Each: 3})
	arrive := func(addr string) (taken bool, raw *caller) {
		t.Helper()
		c := from(addr)
		q.waiting = append(q.waiting, c)
		got, err := l.Accept()
		if err != nil && !errors.Is(err, errEmpty) {
			t.Fatal(err)
		}
		return got != nil, c
	}
	var many []*caller
	for _, addr := range []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3", "10.0.0.2:1", "10.0.0.2:2"} {
		taken, c := arrive(addr)
		if !taken {
			t.Fatalf("%s was not taken", addr)
		}
		many = append(many, c)
	}
	if taken, _ := arrive("10.0.0.9:1"); !taken {
		t.Error("who has none finds no place")
	}
	if many[2].closed != 1 || many[0].closed+many[1].closed+many[3].closed+many[4].closed != 0 {
		t.Error("the newest one of who has most is not the one that gave")
	}
	if taken, _ := arrive("10.0.0.9:2"); taken {
		t.Error("somebody gave who has no more than the other would have")
	}
	if taken, _ := arrive("127.0.0.1:1"); !taken {
		t.Error("nobody in particular finds no place, though others have two")
	}
	if taken, _ := arrive("10.0.0.3:1"); !taken {
		t.Error("the last one that had two gives none")
	}
	if taken, _ := arrive("10.0.0.4:1"); taken {
		t.Error("a sixth one was taken")
	}
}

// TestShares: what is taken is all there or not at all, and is given back once.
func TestShares(t *testing.T) {
	s := NewShares(100)
	a, b, c := netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("10.0.0.2/32"), netip.MustParsePrefix("10.0.0.3/32")
	ended := map[string]int{}
	take := func(peer netip.Prefix, n int, name string) func() {
		t.Helper()
		back, ok := s.Take(peer, n, func() { ended[name]++ })
		if !ok {
			t.Fatalf("no room for %s", name)
		}
		return back
	}
	old, second := take(a, 40, "old"), take(a, 30, "second")
	third := take(a, 20, "third")
	if _, ok := s.Take(a, 20, nil); ok {
		t.Error("who has most takes from himself")
	}
	if _, ok := s.Take(b, 95, nil); ok || len(ended) != 0 {
		t.Errorf("somebody gave to who would have more: %v", ended)
	}
	ofB := take(b, 30, "b") // the third gives its 20, and there were 10
	if ended["third"] != 1 || ended["second"] != 0 || s.taken != 100 {
		t.Errorf("%v, %d are taken", ended, s.taken)
	}
	third()
	take(c, 25, "c") // the second, for b has no more than c would have with what it lacks
	if ended["second"] != 1 || s.Held(a) != 40 || s.taken != 95 {
		t.Errorf("%v, %d are taken, %d by a", ended, s.taken, s.Held(a))
	}
	second()
	old()
	old()
	ofB()
	if s.taken != 25 || s.Held(a)+s.Held(b) != 0 || len(s.of) != 1 {
		t.Errorf("%d are taken by %v", s.taken, s.of)
	}
}
