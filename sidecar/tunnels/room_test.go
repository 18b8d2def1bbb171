package tunnels

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestMakesRoom: the newest of who has more than half of the places are ended, a few at a time, and nobody else's; whoever has half keeps it.
func TestMakesRoom(t *testing.T) {
	const most = 100
	inLab(t, most, func(t *testing.T, l *lab) {
		began := time.Now()
		open := func(namespace string, from, n int) {
			for i := from; i < from+n; i++ {
				client := netip.MustParseAddrPort(fmt.Sprintf("10.0.0.9:%d", 1000+i))
				l.mu.Lock()
				l.kernel[client] = uint64(1000 + i)
				l.mu.Unlock()
				peer := ""
				if namespace != "" {
					peer = "spiffe://cluster.local/ns/" + namespace + "/sa/" + fmt.Sprint("account-", i%10)
				}
				l.Begin(envoylog.Tunnel{
					Question: envoylog.Question{Kind: wire.KindTLS, Authority: "a.test:443", Peer: peer}, Local: gateway, Client: client, Began: began.Add(time.Duration(i) * time.Millisecond),
				})
			}
		}
		open("quiet", 0, 30)
		open("loud", 30, 50)
		if n := l.MakeRoom(t.Context()); n != 0 {
			t.Errorf("%d of who has half", n)
		}
		open("loud", 80, 12)
		if n := l.MakeRoom(t.Context()); n != 5 {
			t.Errorf("%d at once", n)
		}
		l.MakeRoom(t.Context())
		if n := l.MakeRoom(t.Context()); n != 2 {
			t.Errorf("%d in the end", n)
		}
		if n := l.MakeRoom(t.Context()); n != 0 {
			t.Errorf("%d more", n)
		}
		synctest.Wait()
		l.mu.Lock()
		ended := slices.Sorted(slices.Values(l.ended))
		l.mu.Unlock()
		if len(ended) != 12 || ended[0] != 1080 || ended[11] != 1091 {
			t.Errorf("ended: %v", ended)
		}
		if why := l.Done("10.0.0.9:1091", began.Add(91*time.Millisecond)); why != crowded {
			t.Errorf("its record says %q", why)
		}
	})
	inLab(t, most, func(t *testing.T, l *lab) { // a forward proxy's clients have no namespace
		for i := range 60 {
			client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i % 2), 9}), uint16(1000+i))
			l.mu.Lock()
			l.kernel[client] = uint64(i)
			l.mu.Unlock()
			l.Begin(envoylog.Tunnel{Question: envoylog.Question{Kind: wire.KindTLS, Authority: "a.test:443"}, Local: gateway, Client: client, Began: time.Now()})
		}
		if n := l.MakeRoom(t.Context()); n != 0 {
			t.Errorf("two addresses have 30 each, and %d are ended", n)
		}
	})
}
