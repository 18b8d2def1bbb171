package ingest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	// burstSeconds is how many seconds' worth of records an identity may have at once, after a quiet time. An agent that
	// was cut off for a while comes back with as many.
	burstSeconds = 60
	// gapEvery is how often a gap record is written of an identity at most.
	gapEvery = time.Second
	// usualSize is the bytes of text that a record may have to count as one; longer ones count as several.
	usualSize = 1 << 10
	// maxBudgets bounds the identities that are told apart, of about 200 bytes each.
	maxBudgets = 1 << 14
)

// budgets limit the records of each identity, so that nobody fills the log, or hides in what others find there. A record
// counts against whom it tells of, whoever reports it: what one workload does at a gateway leaves the others' records alone.
// What is dropped is told by gap records with its number.
type budgets struct {
	perSecond func() float64 // 0: there is no limit
	now       func() time.Time

	mu    sync.Mutex
	of    map[string]*budget
	swept time.Time // when those were last dropped that nobody uses
}

// budget is one identity's.
type budget struct {
	left float64
	at   time.Time // of left
	lost uint64    // records that no gap record has told yet
	last record.Record
	told time.Time
}

// spent is what a batch took, to be given back if it was not stored.
type spent map[string]*struct {
	taken float64
	lost  uint64
}

func newBudgets(perSecond func() float64, now func() time.Time) *budgets {
	return &budgets{perSecond: perSecond, now: now, of: map[string]*budget{}}
}

// spend takes one record from the budget of its identity; false when there is none left and the record has to go.
func (b *budgets) spend(r *record.Record, all spent) bool {
	rate := b.perSecond()
	if rate <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	key, now := r.Workload.Principal, b.now()
	one := b.find(&key, now, rate)
	one.left = min(one.left+rate*max(now.Sub(one.at).Seconds(), 0), burst(rate))
	one.at = now
	if all[key] == nil {
		all[key] = &struct {
			taken float64
			lost  uint64
		}{}
	}
	if cost := 1 + float64(r.Texts()/usualSize); one.left >= cost {
		one.left -= cost
		all[key].taken += cost
		return true
	}
	n := uint64(1)
	if r.Class == record.Gap { // it stands for others
		n = max(r.Count, 1)
	}
	one.lost += n
	one.last = *r
	all[key].lost += n
	return false
}

// find gives an identity's budget. Too many identities share one.
func (b *budgets) find(key *string, now time.Time, rate float64) *budget {
	if one := b.of[*key]; one != nil {
		return one
	}
	if len(b.of) >= maxBudgets && now.Sub(b.swept) >= gapEvery {
		b.swept = now
		for k, one := range b.of {
			if one.lost == 0 && one.left+rate*now.Sub(one.at).Seconds() >= burst(rate) {
				delete(b.of, k)
			}
		}
	}
	if len(b.of) >= maxBudgets {
		*key = ""
		if one := b.of[""]; one != nil {
			return one
		}
	}
	one := &budget{left: burst(rate), at: now}
	b.of[*key] = one
	return one
}

// burst is how much an identity may have at once; the largest record fits always.
func burst(rate float64) float64 { return max(rate*burstSeconds, 1+record.MaxSize/usualSize) }

// giveBack undoes what a batch took that was not stored: it comes again.
func (b *budgets) giveBack(all spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, s := range all {
		if one := b.of[key]; one != nil {
			one.left += s.taken
			one.lost -= min(s.lost, one.lost)
		}
	}
}

// owed are the gap records that are due. Those that could not be stored have to be owed again.
func (b *budgets) owed() (gaps []record.Record, wait bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	for _, one := range b.of {
		switch {
		case one.lost == 0:
		case now.Sub(one.told) < gapEvery:
			wait = true
		default:
			gaps = append(gaps, one.gap(b.perSecond()))
			one.lost, one.told = 0, now
		}
	}
	return gaps, wait
}

// owe takes gap records back that could not be stored.
func (b *budgets) owe(gaps []record.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, g := range gaps {
		one := b.of[g.Workload.Principal]
		if one == nil {
			one = b.of[""]
		}
		if one != nil {
			one.lost += g.Count
			one.told = time.Time{}
		}
	}
}

// gap tells what was lost, in the place of the last record of it.
func (b *budget) gap(rate float64) record.Record {
	r := b.last
	return record.Record{
		Proxy: r.Proxy, Epoch: r.Epoch, Seq: r.Seq, Time: r.Time, Class: record.Gap, Reporter: r.Reporter, Workload: r.Workload, Count: b.lost,
		Reason: fmt.Sprintf("more than %g records a second of one identity (sallyport.audit.recordsPerSecond)", rate),
	}
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
			if err := s.sink.Store(ctx, gaps); err != nil {
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
