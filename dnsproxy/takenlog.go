package dnsproxy

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/limit"
)

// Bounds of what answers may have logged out of which addresses were taken: who has a name server gives as many of them as he likes, each of
// thousands of addresses. All are counted, and Config.OnRefuse is told of each.
const (
	takenShown   = 4   // addresses in a line
	takenDomains = 256 // told apart
)

var (
	takenOfDomain = limit.Rate{PerSecond: 1. / 60, Burst: 5} // lines
	takenOfAll    = limit.Rate{PerSecond: 1, Burst: 20}
)

// takenLog writes a few lines about answers out of which addresses were taken.
type takenLog struct {
	log     *slog.Logger
	domains *limit.Buckets[string]
	all     *limit.Buckets[struct{}]
	unsaid  atomic.Int64 // answers without a line since the last one that has one
}

func newTakenLog(log *slog.Logger) *takenLog {
	return &takenLog{log: log, domains: limit.New[string](takenOfDomain, takenDomains), all: limit.New[struct{}](takenOfAll, 1)}
}

// say writes a line about an answer, unless its domain has had enough of them, or all have.
func (t *takenLog) say(r Refusal, now time.Duration) {
	if !t.domains.Allow(r.Domain, now) || !t.all.Allow(struct{}{}, now) {
		t.unsaid.Add(1)
		return
	}
	shown := r.Addresses[:min(len(r.Addresses), takenShown)]
	about := []any{"view", r.View, "host", r.Host, "addresses", shown, "upstream", r.Upstream}
	if more := len(r.Addresses) - len(shown); more > 0 {
		about = append(about, "more", more)
	}
	if unsaid := t.unsaid.Swap(0); unsaid > 0 {
		about = append(about, "unsaid", unsaid)
	}
	t.log.Warn("addresses taken out of an answer", about...)
}
