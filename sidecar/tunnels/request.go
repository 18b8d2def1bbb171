package tunnels

import (
	"cmp"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
)

// UnderWay takes a request that is under way, which shares its connections with others; done has to be called when it is over. cut ends it, and nothing else; of one that is
// over its error is sockdiag.ErrGone. It is false of one that nobody can ask about, and of those that are too many: nobody could end them, so they may not go on.
//
// Too many are more than MostRequests altogether, and half of that of one client's namespace. Then one is cut of who has most, and the new one taken, unless its client has as many.
func (t *Table) UnderWay(of envoylog.Tunnel, cut func(why string) error) (done func(), taken bool) {
	r := &tunnel{cut: cut}
	ns, account := of.Namespace(), cmp.Or(of.Peer, of.From)
	room, taken := t.takeRequest(of, r, ns, account)
	if room != nil {
		_ = room.cut(crowdedRequests) // of one that is over there is nothing to end
	}
	if !taken {
		return nil, false
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.forget(r)
		t.stats.Requests--
		t.requests.remove(ns, account, r)
	}, true
}

// crowdedRequests is why a request is cut that makes room.
const crowdedRequests = "as many requests are under way as may be, and its client has most of them"

// takeRequest says whether a request is taken, and which is to be cut for it.
func (t *Table) takeRequest(of envoylog.Tunnel, r *tunnel, ns, account string) (room *tunnel, taken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !of.Unknown {
		room, taken = t.requests.room(t.cfg.MostRequests, ns, account)
	}
	if !taken {
		t.stats.Refused++
		return nil, false
	}
	t.numbered++
	r.key = key{began: -t.numbered}
	t.open[r.key] = r
	t.requests.add(ns, account, r)
	t.stats.Requests++
	if room != nil {
		room.ended = crowdedRequests
		t.stats.Ended++
	}
	if t.plan.begin(of.Question, r, of.Began, time.Now()) {
		t.rouse()
	}
	return room, true
}

// requests are those under way, by their clients' namespaces, and there by accounts; where no account is known, by addresses. Those that are being cut are not among them.
type requests struct {
	n  int
	of map[string]*accounts
}

// accounts are those of one namespace.
type accounts struct {
	n  int
	of map[string]map[*tunnel]struct{}
}

func (r *requests) add(ns, account string, one *tunnel) {
	its := r.of[ns]
	if its == nil {
		its = &accounts{of: map[string]map[*tunnel]struct{}{}}
		r.of[ns] = its
	}
	if its.of[account] == nil {
		its.of[account] = map[*tunnel]struct{}{}
	}
	its.of[account][one] = struct{}{}
	its.n++
	r.n++
}

func (r *requests) remove(ns, account string, one *tunnel) {
	its := r.of[ns]
	if its == nil {
		return
	}
	if _, there := its.of[account][one]; !there {
		return
	}
	its.n--
	r.n--
	if delete(its.of[account], one); len(its.of[account]) == 0 {
		delete(its.of, account)
	}
	if its.n == 0 {
		delete(r.of, ns)
	}
}

// room says whether one more may be there, and takes out what has to be cut for it: nil is nothing.
func (r *requests) room(most int, ns, account string) (give *tunnel, may bool) {
	its := r.of[ns]
	switch {
	case its != nil && its.n >= max(most/2, 1):
		give = r.newest(ns, len(its.of[account])+1)
	case r.n >= most:
		has := 0
		if its != nil {
			has = its.n
		}
		if who, n := largest(r.of, func(a *accounts) int { return a.n }); n > has+1 {
			give = r.newest(who, 0)
		}
	default:
		return nil, true
	}
	return give, give != nil
}

// newest takes out the newest of the account of a namespace that has most, if it has more than some.
func (r *requests) newest(ns string, than int) (newest *tunnel) {
	its := r.of[ns]
	who, n := largest(its.of, func(list map[*tunnel]struct{}) int { return len(list) })
	if n <= than {
		return nil
	}
	for one := range its.of[who] {
		if newest == nil || one.began < newest.began { // numbers below 0
			newest = one
		}
	}
	r.remove(ns, who, newest)
	return newest
}

// largest is who has most; of those that have equally many the first by name.
func largest[T any](of map[string]T, count func(T) int) (who string, most int) {
	for name, list := range of {
		if n := count(list); n > most || n == most && name < who {
			who, most = name, n
		}
	}
	return who, most
}
