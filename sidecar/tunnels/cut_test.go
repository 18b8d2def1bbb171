package tunnels

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
)

// TestCut: what is left of a connection whose request was cut is reset, and no other one, as of the same client with another port; where none is left there is nothing to do.
func TestCut(t *testing.T) {
	inLab(t, 10, func(t *testing.T, l *lab) {
		at := func(n uint16) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), n) }
		l.kernel[at(1)], l.kernel[at(2)], l.kernel[at(3)] = 1, 2, 3
		l.Cut(nil)
		broken := func(n, port uint16) envoylog.Broken { return envoylog.Broken{Client: at(n), Port: port} }
		l.Cut([]envoylog.Broken{broken(2, gateway.Port()), broken(4, gateway.Port()), broken(1, 80)})
		l.Cut([]envoylog.Broken{broken(3, gateway.Port())})
		if _, ended := l.since(time.Second); !slices.Contains(ended, 2) || !slices.Contains(ended, 3) || len(ended) != 2 {
			t.Errorf("ended %v, want 2 and 3", ended)
		}
		l.mu.Lock()
		l.broken = 1
		l.mu.Unlock()
		l.Cut([]envoylog.Broken{broken(1, gateway.Port())})
		if _, ended := l.since(time.Second); len(ended) != 0 || l.Stats().Failed != 1 {
			t.Errorf("without a right %v are ended, and %d failed", ended, l.Stats().Failed)
		}
	})
}
