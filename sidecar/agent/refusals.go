package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/limit"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// Bounds of what refused answers may write: a name that is asked for all day makes one record a minute.
const (
	refusalsEvery = time.Minute
	refusedHosts  = 1024 // told apart at a time, which pods and domains share; further ones of a pod share a record
)

// refusals turns what the resolver refused into audit records.
type refusals struct {
	log    *slog.Logger
	append func(record.Record) error
	origin record.Record // who reports
	now    func() time.Time

	mu        sync.Mutex
	seen      map[string]*refused // by what is the same about them
	room      *limit.Shares       // for what is told apart
	decidedBy record.Object       // who refuses names that are not registered
}

// refused is something whose last record is less than a minute old, and what happened since.
type refused struct {
	told  time.Time
	count int // since told
	last  refusal
	apart bool // it has a place of its own
}

// refusal is one refused question or answer.
type refusal struct {
	key    string // what is the same about those that share a record
	pod    string // whose question it is, at a node
	of     string // who has its place: such a pod, or the domain of an answer; "" has not to share with others
	kind   uint16 // of the question that was asked; 0 for answers
	record record.Record
	reason func(r refusal, count int) string
}

// others stands for all refusals of a pod beyond those that are told apart.
const others = "others "

// note takes one refusal: the first of its kind is recorded at once. Of a question for a name only those of the type
// that came first count: A and AAAA are one try.
func (r *refusals) note(one refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen, r.room = map[string]*refused{}, limit.NewShares(refusedHosts)
	}
	apart := r.seen[one.key] == nil && r.room.Take(limit.Share{Of: one.of})
	if r.seen[one.key] == nil && !apart {
		one.key, one.kind, one.reason = others+one.pod, 0, reasonOfOthers
	}
	if known := r.seen[one.key]; known != nil {
		if known.last.kind == one.kind {
			known.count++
			known.last = one
		}
		return
	}
	r.seen[one.key] = &refused{told: r.now(), last: one, apart: apart}
	r.record(one, 1)
}

// run writes, until ctx ends, what came again; at the end all of it.
func (r *refusals) run(ctx context.Context) {
	tick := time.NewTicker(refusalsEvery / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			r.tell(0)
			return
		case <-tick.C:
			r.tell(refusalsEvery)
		}
	}
}

// tell writes a record for each thing that was refused again, and forgets those that were not, when their last record
// is older than age.
func (r *refusals) tell(age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	for key, known := range r.seen {
		switch {
		case now.Sub(known.told) < age:
		case known.count == 0:
			delete(r.seen, key)
			if known.apart {
				r.room.Leave(limit.Share{Of: known.last.of})
			}
		default:
			r.record(known.last, known.count)
			known.told, known.count = now, 0
		}
	}
}

// len is how many things have a record that is not much older than a minute.
func (r *refusals) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.seen)
}

// decides notes which object refuses names that are not registered.
func (r *refusals) decides(by record.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.decidedBy = by
}

// record completes and writes a record. The lock is held.
func (r *refusals) record(of refusal, count int) {
	one, own := r.origin, of.record
	one.Time, one.Class, one.Verdict, one.Protocol = r.now(), record.DNS, record.Denied, "dns"
	one.Direction, one.Host, one.Destination, one.Path = record.Outbound, own.Host, own.Destination, own.Path
	if own.Source != "" {
		one.Source = own.Source
	}
	if own.Workload != (record.Workload{}) {
		one.Workload = own.Workload
	}
	if own.Path == record.PathBlackhole {
		one.DecidedBy = r.decidedBy
	}
	one.Reason = of.reason(of, count)
	if err := r.append(one); err != nil {
		r.log.Error("a refused DNS answer cannot be recorded", "host", one.Host, "address", one.Destination, "err", err)
	}
}
