package tunnels

import (
	"context"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// A request by HTTP/1.1 that is cut in the middle of its answer takes its connection with it. But Envoy keeps that until its client has taken what came before, so one that reads nothing, or little, would have it for as long
// as it likes: it is reset, too (docs/adr/0185-who-does-not-read-is-cut-too.md).

// Cut takes connections whose request was ended in the middle of its answer. Those that are there still are reset.
func (t *Table) Cut(list []envoylog.Broken) {
	if len(list) == 0 || t.cfg.Ender == nil {
		return
	}
	t.mu.Lock()
	t.cut = append(t.cut, list...)
	t.mu.Unlock()
	t.rouse()
}

// endCut resets the connections of requests that were cut.
func (t *Table) endCut(ctx context.Context) {
	t.mu.Lock()
	cut := t.cut
	t.cut = nil
	t.mu.Unlock()
	if len(cut) == 0 {
		return
	}
	of := make(map[envoylog.Broken]bool, len(cut))
	for _, one := range cut {
		of[one] = true
	}
	var list []sockdiag.Connection
	if err := t.cfg.Kernel.Activities(func(a sockdiag.Activity) {
		if of[envoylog.Broken{Client: a.Remote, Port: a.Local.Port()}] {
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
