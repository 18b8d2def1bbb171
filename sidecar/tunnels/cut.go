package tunnels

import (
	"context"
	"net/netip"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// A request by HTTP/1.1 that is cut in the middle of its answer takes its connection with it. But Envoy keeps that until its client has taken what came before, so one that reads nothing, or little, would have it for as long
// as it likes: it is reset, too (docs/adr/0185-who-does-not-read-is-cut-too.md).

// Cut takes the clients of connections whose request was ended in the middle of its answer, and that carry nothing else. Those that are there still are reset.
func (t *Table) Cut(clients []netip.AddrPort) {
	if len(clients) == 0 || t.cfg.Ender == nil {
		return
	}
	t.mu.Lock()
	t.cut = append(t.cut, clients...)
	t.mu.Unlock()
	t.rouse()
}

// endCut resets the connections of requests that were cut.
func (t *Table) endCut(ctx context.Context) {
	t.mu.Lock()
	clients := t.cut
	t.cut = nil
	t.mu.Unlock()
	if len(clients) == 0 {
		return
	}
	of := make(map[netip.AddrPort]bool, len(clients))
	for _, client := range clients {
		of[client] = true
	}
	var list []sockdiag.Connection
	if err := t.cfg.Kernel.Activities(func(a sockdiag.Activity) {
		if of[a.Remote] {
			list = append(list, a.Connection)
		}
	}); err != nil {
		t.notFound(err, "connections of requests that were ended cannot be found; their clients have them until they have read what came before")
	}
	for _, c := range list {
		if err := t.cfg.Ender.End(ctx, c); err != nil {
			t.mu.Lock()
			t.notEnded(err, "the connection of a request that was ended could not be reset", "from", c.Remote)
			t.mu.Unlock()
		}
	}
}
