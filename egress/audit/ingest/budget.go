package ingest

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	// burstSeconds is how many seconds' worth of records an identity may have at once, after a quiet time. An agent that
	// was cut off for a while comes back with as many.
	burstSeconds = 60
	// gapEvery is how often a gap record is written of an identity, and of a client, at most.
	gapEvery = time.Second
	// usualSize is the bytes of text that a record may have to count as one; longer ones count as several.
	usualSize = 1 << 10
	// maxBudgets bounds the identities that are told apart, of about 200 bytes each.
	maxBudgets = 1 << 14
	// maxClients bounds the clients that are told apart, of all identities together, and maxClientsOfOne those of each. Further ones share what one may have.
	maxClients, maxClientsOfOne = 1 << 16, 1 << 11
	// clientShare is the part of an identity's budget that is each client's, however much the others took. One that had it gets what is more than the other
	// part: it has all where nobody else is.
	clientShare = 0.5
)

// budgets limit the records of each identity, so that nobody fills the log, or hides in what others find there. A record
// counts against whom it tells of, whoever reports it: what one workload does at a gateway leaves the others' records alone.
// What comes to somebody from clients that are no workload whose word counts (at an ingress gateway, before a pod, at a forward proxy) counts against him, but
// one client leaves half of it to other clients. What is dropped is told by gap records with its number.
type budgets struct {
	perSecond func() float64 // 0: there is no limit
	now       func() time.Time

	mu      sync.Mutex
	of      map[string]*budget
	clients int              // of all of them
	losing  map[*budget]bool // those with something that no gap record has told yet
	swept   time.Time        // when those were last dropped that nobody uses
}

// budget is one identity's, or one client's of an identity.
type budget struct {
	share   float64 // of what an identity may have
	left    float64
	at      time.Time // of left
	lost    uint64    // records that no gap record has told yet
	last    record.Record
	told    time.Time
	clients map[string]*budget // by SPIFFE id or address; "" is those of whom there are too many
}

// spent is what a batch took, to be given back if it was not stored.
type spent map[*budget]*struct {
	taken float64
	lost  uint64
}

func (s spent) of(one *budget) *struct {
	taken float64
	lost  uint64
} {
	if s[one] == nil {
		s[one] = &struct {
			taken float64
			lost  uint64
		}{}
	}
	return s[one]
}

func newBudgets(perSecond func() float64, now func() time.Time) *budgets {
	return &budgets{perSecond: perSecond, now: now, of: map[string]*budget{}, losing: map[*budget]bool{}}
}

// payer is the identity that a record counts against, and which of its clients caused it; "" where the identity itself did.
func payer(r *record.Record) (whose, client string) {
	whose = cmp.Or(r.Workload.Principal, r.DestinationWorkload.Principal)
	switch {
	case r.Claim != "":
		return whose, r.Claim
	case r.Direction == record.Inbound, r.Reporter == record.ReporterDestination, r.Reporter == record.ReporterProxy:
		return whose, network(r.Source)
	}
	return whose, ""
}

// network is what of an address is somebody's: of IPv6 the half that he does not choose.
func network(source string) string {
	at, err := netip.ParseAddrPort(source)
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap().WithZone("")
	switch {
	case ip.IsLoopback():
		return "" // programs of the host itself are not told apart
	case ip.Is6():
		return netip.PrefixFrom(ip, 64).Masked().String()
	}
	return ip.String()
}

// spend takes one record from the budget of its identity, and of its client; false when there is none left and the record has to go.
func (b *budgets) spend(r *record.Record, all spent) bool {
	rate := b.perSecond()
	if rate <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	whose, client := payer(r)
	now := b.now()
	one := b.find(whose, now, rate)
	one.refill(now, rate)
	cost := 1 + float64(r.Texts()/usualSize)
	var from *budget // its client's
	if client != "" {
		from = b.clientOf(one, client, now, rate)
		from.refill(now, rate)
		if from.left < cost && one.left-cost < burst(rate)*(1-clientShare) { // what is left is the others'
			b.lose(from, r, all)
			return false
		}
	}
	if one.left < cost {
		b.lose(one, r, all)
		return false
	}
	one.left -= cost
	all.of(one).taken += cost
	if from != nil {
		paid := min(cost, from.left)
		from.left -= paid
		all.of(from).taken += paid
	}
	return true
}

// lose notes that a record has to go.
func (b *budgets) lose(one *budget, r *record.Record, all spent) {
	n := uint64(1)
	if r.Class == record.Gap { // it stands for others
		n = max(r.Count, 1)
	}
	one.lost += n
	one.last = *r
	b.losing[one] = true
	all.of(one).lost += n
}

// find gives an identity's budget. Too many identities share one.
func (b *budgets) find(key string, now time.Time, rate float64) *budget {
	if one := b.of[key]; one != nil {
		return one
	}
	if len(b.of) >= maxBudgets {
		b.sweep(now, rate)
	}
	if len(b.of) >= maxBudgets {
		key = ""
		if one := b.of[""]; one != nil {
			return one
		}
	}
	one := newBudget(1, now, rate)
	b.of[key] = one
	return one
}

// clientOf gives the budget of one of an identity's clients.
func (b *budgets) clientOf(one *budget, client string, now time.Time, rate float64) *budget {
	if c := one.clients[client]; c != nil {
		return c
	}
	tooMany := func() bool { return b.clients >= maxClients || len(one.clients) >= maxClientsOfOne }
	if tooMany() {
		b.sweep(now, rate)
	}
	if tooMany() {
		client = ""
		if c := one.clients[""]; c != nil {
			return c
		}
	}
	c := newBudget(clientShare, now, rate)
	if one.clients == nil {
		one.clients = map[string]*budget{}
	}
	one.clients[client] = c
	b.clients++
	return c
}

// sweep drops the budgets that nobody uses, now and then.
func (b *budgets) sweep(now time.Time, rate float64) {
	if now.Sub(b.swept) < gapEvery {
		return
	}
	b.swept = now
	for k, one := range b.of {
		for c, of := range one.clients {
			if of.rests(now, rate) {
				delete(one.clients, c)
				b.clients--
			}
		}
		if len(one.clients) == 0 && one.rests(now, rate) {
			delete(b.of, k)
		}
	}
}

func newBudget(share float64, now time.Time, rate float64) *budget {
	return &budget{share: share, left: burst(rate * share), at: now}
}

// refill adds what came since the last time.
func (b *budget) refill(now time.Time, rate float64) {
	rate *= b.share
	b.left = min(b.left+rate*max(now.Sub(b.at).Seconds(), 0), burst(rate))
	b.at = now
}

// rests says whether a new one would be the same.
func (b *budget) rests(now time.Time, rate float64) bool {
	rate *= b.share
	return b.lost == 0 && b.left+rate*now.Sub(b.at).Seconds() >= burst(rate)
}

// burst is how much an identity may have at once; the largest record fits always.
func burst(rate float64) float64 { return max(rate*burstSeconds, 1+record.MaxSize/usualSize) }

// giveBack undoes what a batch took that was not stored: it comes again.
func (b *budgets) giveBack(all spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for one, s := range all {
		one.left += s.taken
		if one.lost -= min(s.lost, one.lost); one.lost == 0 {
			delete(b.losing, one)
		}
	}
}

// owedGap is a gap record, and whose it is.
type owedGap struct {
	record.Record
	of *budget
}

// owed are the gap records that are due. Those that could not be stored have to be owed again.
func (b *budgets) owed() (gaps []owedGap, wait bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for one := range b.losing {
		if now.Sub(one.told) < gapEvery {
			wait = true
			continue
		}
		gaps = append(gaps, owedGap{one.gap(b.perSecond()), one})
		one.lost, one.told = 0, now
		delete(b.losing, one)
	}
	return gaps, wait
}

// owe takes gap records back that could not be stored.
func (b *budgets) owe(gaps []owedGap) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range gaps {
		g.of.lost += g.Count
		g.of.told = time.Time{}
		b.losing[g.of] = true
	}
}

// gap tells what was lost, in the place of the last record of it.
func (b *budget) gap(rate float64) record.Record {
	r := b.last
	out := record.Record{
		Proxy: r.Proxy, Epoch: r.Epoch, Seq: r.Seq, Time: r.Time, Class: record.Gap, Reporter: r.Reporter, Workload: r.Workload, DestinationWorkload: r.DestinationWorkload, Count: b.lost,
		Reason: fmt.Sprintf("more than %g records a second of one identity (sallyport.audit.recordsPerSecond)", rate),
	}
	if b.share < 1 {
		out.Source, out.Claim = r.Source, r.Claim
		out.Reason = fmt.Sprintf("more than %g records a second of one client, while what is left of %g is for others (sallyport.audit.recordsPerSecond)", rate*b.share, rate)
	}
	return out
}

// Limit bounds the records that are taken of each identity, in records a second; 0 takes all. perSecond is asked again
// and again. Call it before the first batch.
func (s *Server) Limit(perSecond func() float64) { s.budgets = newBudgets(perSecond, time.Now) }

// tellLater stores the gap records that nothing else brings along. One such call is under way at a time.
func (s *Server) tellLater() {
	if !s.telling.CompareAndSwap(false, true) {
		return
	}
	time.AfterFunc(gapEvery, func() {
		s.telling.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), 10*gapEvery)
		defer cancel()
		gaps, wait := s.budgets.owed()
		if len(gaps) > 0 {
			if err := s.sink.Store(ctx, recordsOf(gaps)); err != nil {
				s.budgets.owe(gaps)
				s.log.Error("gaps in the audit log could not be told yet", "gaps", len(gaps), "err", err)
				wait = true
			}
		}
		if wait {
			s.tellLater()
		}
	})
}

func recordsOf(gaps []owedGap) []record.Record {
	out := make([]record.Record, len(gaps))
	for i, g := range gaps {
		out[i] = g.Record
	}
	return out
}
