package tunnels

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// crowdedLab is a gateway with a hundred places.
type crowdedLab struct {
	t *testing.T
	*lab
	began time.Time
	next  uint16
}

const mostPlaces = 100

// connects has so many connections come from an address, whose cookies are numbered on; of a peer's each is a tunnel that the table knows. Each rests for a second longer than the one after it.
func (l *crowdedLab) connects(n int, from, peer string) {
	for range n {
		l.next++
		client := netip.AddrPortFrom(netip.MustParseAddr(from), 1000+l.next)
		l.mu.Lock()
		l.kernel[client], l.rest[client] = uint64(l.next), time.Duration(1000-l.next)*time.Second
		l.mu.Unlock()
		if peer != "" {
			l.Begin(envoylog.Tunnel{
				Question: envoylog.Question{Kind: wire.KindTLS, Authority: "a.test:443", Peer: peer}, Local: gateway, Client: client, Began: l.began.Add(time.Duration(l.next)),
			})
		}
	}
}

// room has room made when so many percent are taken, and says which were ended.
func (l *crowdedLab) room(percent uint64) []uint64 {
	l.t.Helper()
	n, err := l.MakeRoom(l.t.Context(), percent, func(port uint16) bool { return port == gateway.Port() })
	if err != nil {
		l.t.Error(err)
	}
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := l.ended
	if l.ended = nil; n != len(ended) {
		l.t.Errorf("it says that it has ended %d, and has %d", n, len(ended))
	}
	slices.Sort(ended)
	return ended
}

func numbers(from, to int) (out []uint64) {
	for i := from; i <= to; i++ {
		out = append(out, uint64(i))
	}
	return out
}

func peerOf(ns, account string) string { return "spiffe://cluster.local/ns/" + ns + "/sa/" + account }

func inCrowd(t *testing.T, name string, test func(l *crowdedLab)) {
	t.Run(name, func(t *testing.T) {
		inLab(t, mostPlaces, func(t *testing.T, l *lab) { test(&crowdedLab{t: t, lab: l, began: time.Now()}) })
	})
}

// TestMakesRoom: whoever has most gives, by namespace, account and address, what rests longest; a twentieth of all at once.
func TestMakesRoom(t *testing.T) {
	inCrowd(t, "an account beside another one of its namespace", func(l *crowdedLab) {
		l.connects(10, "10.0.0.8", peerOf("loud", "b"))
		l.connects(80, "10.0.0.9", peerOf("loud", "a"))
		l.connects(6, "10.0.0.7", peerOf("quiet", "a"))
		if got := l.room(96); !slices.Equal(got, numbers(11, 15)) {
			t.Errorf("of who has most are ended: %v", got)
		}
		if why := l.Done("10.0.0.9:1011", l.began.Add(11)); why != crowded {
			t.Errorf("its record says %q", why)
		}
		if why := l.Crowded("10.0.0.9:1012"); why != "" {
			t.Errorf("said twice: %q", why)
		}
	})
	inCrowd(t, "somebody whom only the kernel knows", func(l *crowdedLab) {
		l.connects(90, "10.0.0.9", "")
		l.connects(10, "10.0.0.7", "")
		if got := l.room(100); !slices.Equal(got, numbers(1, 5)) {
			t.Errorf("ended: %v", got)
		}
		if why := l.Crowded("10.0.0.9:1001"); why != crowded {
			t.Errorf("its record says %q", why)
		}
		if why := l.Crowded("10.0.0.9:1006"); why != "" {
			t.Errorf("the record of one that goes on says %q", why)
		}
	})
	inCrowd(t, "known by an address", func(l *crowdedLab) {
		for i, from := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
			l.connects(20, from, "")
			l.Saw(&record.Record{Reporter: record.ReporterDestination, Claim: peerOf("loud", fmt.Sprint(i)), Source: from + ":1"})
		}
		l.connects(40, "10.0.0.9", "")
		if got := l.room(100); len(got) != 5 || got[4] > 60 {
			t.Errorf("a namespace with three pods has 60, an address 40; ended: %v", got)
		}
	})
	inCrowd(t, "IPv6", func(l *crowdedLab) {
		l.connects(30, "2001:db8::1", "")
		l.connects(20, "2001:db8::2", "")
		l.connects(45, "10.0.0.9", "")
		if got := l.room(100); !slices.Equal(got, numbers(1, 5)) {
			t.Errorf("ended: %v", got)
		}
	})
	inCrowd(t, "who has a twentieth gives nothing", func(l *crowdedLab) {
		for i := range 20 {
			l.connects(5, fmt.Sprint("10.0.0.", i+1), "")
		}
		if got := l.room(100); got != nil {
			t.Errorf("ended: %v", got)
		}
	})
	inCrowd(t, "several have equally many in the end", func(l *crowdedLab) {
		l.connects(44, "10.0.0.1", "")
		l.connects(43, "10.0.0.2", "")
		l.connects(9, "10.0.0.3", "")
		if got, want := l.room(96), append(numbers(1, 3), 45, 46); !slices.Equal(got, want) {
			t.Errorf("ended: %v, want %v", got, want)
		}
	})
	inCrowd(t, "nobody may end any", func(l *crowdedLab) {
		l.connects(100, "10.0.0.1", "")
		l.mu.Lock()
		l.broken = 1000
		l.mu.Unlock()
		if got := l.room(100); got != nil || l.Crowded("10.0.0.1:1001") != "" {
			t.Errorf("ended: %v", got)
		}
	})
}

// TestForwardProxyMakesRoom: its clients have no namespace.
func TestForwardProxyMakesRoom(t *testing.T) {
	inCrowd(t, "addresses", func(l *crowdedLab) {
		for i := range 96 {
			client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i % 3 / 2), 9}), uint16(1000+i))
			l.mu.Lock()
			l.kernel[client] = uint64(i)
			l.mu.Unlock()
			l.Begin(envoylog.Tunnel{Question: envoylog.Question{Kind: wire.KindTLS, Authority: "a.test:443"}, Local: gateway, Client: client, Began: time.Now()})
		}
		for _, cookie := range l.room(100) {
			if cookie%3 == 2 {
				t.Errorf("%d is ended, of who has a third", cookie)
			}
		}
	})
}
