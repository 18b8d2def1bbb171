package verify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// hexOf is an address as the kernel shows it on this machine.
func hexOf(text string) string {
	p := netip.MustParseAddrPort(text)
	raw := p.Addr().AsSlice()
	for i := 0; i < len(raw); i += 4 {
		binary.NativeEndian.PutUint32(raw[i:], binary.BigEndian.Uint32(raw[i:]))
	}
	return fmt.Sprintf("%X:%04X", raw, p.Port())
}

func TestPair(t *testing.T) {
	table := "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
		row(0, "0.0.0.0:15001", "0.0.0.0:0") + row(1, "10.0.0.1:40000", "203.0.113.5:443") + row(2, "127.0.0.1:15001", "10.0.0.1:40000") +
		row(3, "[::ffff:127.0.0.1]:15053", "[::ffff:10.0.0.1]:40001") + row(4, "[2001:db8::1]:15001", "[2001:db8::1]:40002")
	for ours, want := range map[string]pair{
		"10.0.0.1:40000":      {open: true, other: netip.MustParseAddrPort("127.0.0.1:15001")},
		"10.0.0.1:40001":      {other: netip.MustParseAddrPort("127.0.0.1:15053")},
		"[2001:db8::1]:40002": {other: netip.MustParseAddrPort("[2001:db8::1]:15001")},
		"10.0.0.1:40009":      {},
	} {
		var got pair
		if err := got.find(strings.NewReader(table), netip.MustParseAddrPort(ours)); err != nil || got != want {
			t.Errorf("%s: %+v, want %+v (%v)", ours, got, want, err)
		}
	}
	if err := new(pair).find(strings.NewReader("0: nonsense:1 nonsense:2 01\n"), netip.AddrPort{}); err == nil {
		t.Error("nonsense was read")
	}
}

func row(n int, local, remote string) string {
	return fmt.Sprintf("%4d: %s %s 01 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n", n, hexOf(local), hexOf(remote))
}

// TestFindTaker: a server of this host's own address was reached itself; one that another address led to was not.
func TestFindTaker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	local := addrPort(c.LocalAddr())
	if by, err := findTaker(netip.MustParseAddrPort("192.0.2.1:1"), local); err == nil {
		t.Errorf("a connection that is not there: taken by %q", by)
	}
	if by, err := findTaker(local, addrPort(c.RemoteAddr())); by != "" || err != nil {
		t.Errorf("reached itself: taken by %q (%v)", by, err)
	}
	want := Taken(fmt.Sprintf("port %d of this pod", addrPort(l.Addr()).Port()))
	if by, err := findTaker(local, netip.MustParseAddrPort("203.0.113.5:443")); by != want || err != nil {
		t.Errorf("redirected: taken by %q, want %q (%v)", by, want, err)
	}
}

// TestDialLooksAgain: that nobody took a connection is only said of something that was connected to several times.
func TestDialLooksAgain(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	type seen struct {
		by  Taken
		err error
	}
	other := errors.New("no table")
	for _, c := range []struct {
		name  string
		seen  []seen
		want  Taken
		err   error
		dials int
	}{
		{"at once", []seen{{ByProxy, nil}}, ByProxy, nil, 1},
		{"the second time", []seen{{"", nil}, {ByProxy, nil}}, ByProxy, nil, 2},
		{"after it was over", []seen{{"", errOver}, {"", nil}, {ByProxy, nil}}, ByProxy, nil, 3},
		{"never", []seen{{"", nil}, {"", nil}, {"", nil}}, "", nil, 3},
		{"always over", []seen{{"", errOver}, {"", errOver}, {"", errOver}}, "", errOver, 3},
		{"no table", []seen{{"", other}}, "", other, 1},
	} {
		dials := 0
		e := &Env{Wait: 10 * time.Second, taken: func(netip.AddrPort, netip.AddrPort) (Taken, error) {
			dials++
			return c.seen[dials-1].by, c.seen[dials-1].err
		}}
		got, err := e.dial(t.Context(), l.Addr().String())
		if !errors.Is(err, c.err) || dials != c.dials || err == nil && got.taken != c.want {
			t.Errorf("%s: %+v (%v) after %d", c.name, got, err, dials)
		}
		if got != nil {
			_ = got.Close()
		}
	}
}
