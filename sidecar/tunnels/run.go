package tunnels

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
	"github.com/sallyport/sallyport/xds/wire"
)

const (
	// atOnce is how many questions are asked at a time.
	atOnce = 8
	// mostAtOnce is after how many questions it is looked again what is to be asked, or after this part of them, where that is more: a look costs what is due.
	mostAtOnce, partAtOnce = 128, 8
	// patience is how long an answer may take.
	patience = 5 * time.Second
	// sweepEvery is how often tunnels are held against the kernel's connections: of those whose end was lost nothing else tells.
	sweepEvery = 30 * time.Second
)

// Run asks, and ends what is denied, until ctx ends.
func (t *Table) Run(ctx context.Context) {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.wake:
		case <-timer.C:
		case <-sweep.C:
			t.sweep()
		}
		t.endCut(ctx)
		t.look(ctx)
		t.mu.Lock()
		next := t.plan.next()
		t.mu.Unlock()
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(time.Until(next), 0))
		}
	}
}

// inTurn are the first so many questions of those that are due, one of each client's namespace after the other: the others stay due. So one that
// has many open waits for itself.
func inTurn(due []*question, most int) (out []*question) {
	of := map[string][]*question{}
	var namespaces []string
	for _, q := range due {
		if of[q.namespace] == nil {
			namespaces = append(namespaces, q.namespace)
		}
		of[q.namespace] = append(of[q.namespace], q)
	}
	slices.SortFunc(namespaces, func(a, b string) int { return cmp.Compare(len(of[a]), len(of[b])) })
	for i := 0; len(out) < min(most, len(due)); i++ {
		for _, ns := range namespaces {
			if i < len(of[ns]) && len(out) < most {
				out = append(out, of[ns][i])
			}
		}
	}
	return out
}

// look asks what is due.
func (t *Table) look(ctx context.Context) {
	t.mu.Lock()
	ready := t.plan.ready(time.Now())
	due := inTurn(ready, max(mostAtOnce, len(ready)/partAtOnce))
	t.mu.Unlock()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, q := range due {
		group.Go(func() error {
			t.ask(ctx, q)
			return nil
		})
	}
	_ = group.Wait() // none has an error
}

// ask asks about a question's tunnels, and ends them where they are denied for the second time.
func (t *Table) ask(ctx context.Context, q *question) {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	v, err := t.cfg.Ask(asking, q.Question)
	if ctx.Err() != nil {
		return
	}
	t.mu.Lock()
	if v.Denied && q.Kind == wire.KindHTTP && t.plan.unseen.mean(v.By, q.namespace) {
		v, t.stats.Unasked = envoylog.Answer{}, t.stats.Unasked+1
	}
	if err != nil {
		t.stats.Unasked++
	}
	end := t.plan.answered(q, v, err, time.Now())
	var list []*tunnel
	cannot := 0
	for of := range q.tunnels {
		switch {
		case !end || of.ended != "":
		case of.cut == nil && t.cfg.Ender == nil:
			cannot++
		default:
			list = append(list, of)
		}
	}
	complain := err != nil && seldom(&t.unanswered)
	t.mu.Unlock()
	if complain {
		t.cfg.Log.Warn("the proxy's table does not say whether open tunnels may be there; it is asked again", "host", q.Authority, "client", q.Peer, "err", err)
	}
	if cannot > 0 {
		t.cfg.Log.Warn("open tunnels are denied by now, and nobody may end them", "host", q.Authority, "client", q.Peer, "tunnels", cannot, "why", v.Why)
	}
	for _, of := range list {
		t.end(ctx, q, of, v.Why)
	}
}

// end ends one tunnel. Why is there before its record can come.
func (t *Table) end(ctx context.Context, q *question, of *tunnel, why string) {
	t.mu.Lock()
	of.ended = why
	t.mu.Unlock()
	var err error
	if of.cut != nil {
		err = of.cut(why)
	} else {
		err = t.cfg.Ender.End(ctx, of.connection, of.beyond...)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil:
		t.stats.Ended++
		if why == crowded {
			return // of thousands who asks for it says it
		}
		t.cfg.Log.Info("a tunnel is ended, or a request", "host", q.Authority, "client", q.Peer, "from", q.From, "path", q.Path, "why", why)
	case errors.Is(err, sockdiag.ErrGone):
		of.ended = "" // it was quicker
	default:
		of.ended = ""
		t.plan.ask(q, time.Now().Add(retry))
		t.notEnded(err, "a tunnel that is denied by now could not be ended; it is tried again", "host", q.Authority, "client", q.Peer, "from", of.client)
	}
}

// endResting ends a connection that is in use by nobody, and counts it, or that it could not: it says whether it did.
func (t *Table) endResting(ctx context.Context, c sockdiag.Connection, count *uint64, failed string, which ...any) bool {
	err := t.cfg.Ender.End(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.notEnded(err, failed, which...)
		return false
	}
	*count++
	return true
}

// notFound says, now and then, that connections could not be looked for.
func (t *Table) notFound(err error, what string) {
	t.mu.Lock()
	complain := seldom(&t.complained)
	t.mu.Unlock()
	if complain {
		t.cfg.Log.Warn(what, "err", err)
	}
}

// notEnded counts a connection that was not ended, and says of which, if it is not one that had gone by itself. The table is held.
func (t *Table) notEnded(err error, what string, which ...any) {
	if errors.Is(err, sockdiag.ErrGone) {
		return
	}
	t.stats.Failed++
	if seldom(&t.complained) {
		t.cfg.Log.Error(what, append(which, "err", err, "failures", t.stats.Failed)...)
	}
}

// seldom says whether it is to be said again, which was said last at a time: of thousands one line says it.
func seldom(last *time.Time) bool {
	now := time.Now()
	if now.Sub(*last) < time.Minute {
		return false
	}
	*last = now
	return true
}

// sweep forgets tunnels that the kernel did not have twice.
func (t *Table) sweep() {
	t.mu.Lock()
	pods := map[string]bool{}
	for _, of := range t.open {
		if of.cut == nil { // of a request its own stream tells of its end
			pods[of.connection.Pod] = true
		}
	}
	t.mu.Unlock()
	if len(pods) == 0 {
		return
	}
	there := map[sockdiag.Connection]bool{}
	if err := t.cfg.Kernel.Open(slices.Sorted(maps.Keys(pods)), func(c sockdiag.Connection) { there[c] = true }); err != nil {
		t.cfg.Log.Warn("the kernel does not say which connections are open; tunnels that have ended may be remembered", "err", err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, of := range t.open {
		switch {
		case of.cut != nil: // its own stream tells of its end
		case there[of.connection]:
			of.missed = false
		case of.missed:
			t.forget(of)
		default:
			of.missed = true
		}
	}
}
