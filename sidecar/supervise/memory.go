package supervise

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// leastFree is how much free memory, in bytes, is worth asking for.
const leastFree = 16 << 20

// heap is what Envoy's admin interface says of its allocator, in bytes.
type heap struct {
	Size     int64 `json:"heap_size,string"`
	Unmapped int64 `json:"pageheap_unmapped,string"` // of it, what the kernel has back
	Free     int64 `json:"pageheap_free,string"`     // of it, what nobody uses and the kernel does not have
}

// giveBack makes Envoy's allocator hand back what it holds for nobody, until ctx ends. The allocator keeps to its soft limit when it
// needs pages, and at no other time: an Envoy that rests after a burst keeps the burst's memory for as long as it rests. Writing the
// allocator's own statistics needs megabytes at once, which is such a time; it takes Envoy's main thread a few milliseconds.
func (s *Supervisor) giveBack(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: s.cfg.LookEvery}
	tick := time.NewTicker(s.cfg.LookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// An Envoy that does not answer starts or ends, or others wait for it, too.
		text, err := admin(ctx, client, http.MethodGet, s.cfg.Admin, "/memory")
		if err != nil {
			continue
		}
		var now heap
		if err := json.Unmarshal([]byte(text), &now); err != nil {
			s.cfg.Log.Debug("Envoy's page of its memory is not what it was", "err", err)
			continue
		}
		if now.Free >= leastFree && now.Size-now.Unmapped > s.cfg.EasyHeap {
			_, _ = admin(ctx, client, http.MethodGet, s.cfg.Admin, "/memory/tcmalloc")
		}
	}
}
