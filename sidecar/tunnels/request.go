package tunnels

import (
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
)

// UnderWay takes a request that is under way, which shares its connections with others; done has to be called when it is over. cut ends it, and nothing else; of one that is
// over its error is sockdiag.ErrGone. It is false of one that nobody can ask about, and of those that are too many altogether, or of one client's namespace: nobody could end
// them, so they may not go on.
func (t *Table) UnderWay(of envoylog.Tunnel, cut func(why string) error) (done func(), taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ns := of.Namespace()
	if of.Unknown || t.stats.Requests >= t.cfg.MostRequests || t.requests[ns] >= max(t.cfg.MostRequests/2, 1) {
		t.stats.Refused++
		return nil, false
	}
	t.numbered++
	r := &tunnel{key: key{began: -t.numbered}, cut: cut}
	t.open[r.key] = r
	t.requests[ns]++
	t.stats.Requests++
	if t.plan.begin(of.Question, r, of.Began, time.Now()) {
		t.rouse()
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.forget(r)
		t.stats.Requests--
		if t.requests[ns]--; t.requests[ns] == 0 {
			delete(t.requests, ns)
		}
	}, true
}
