package limit

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// DefaultClients is how many clients are told apart.
const DefaultClients = 4096

// Rate is what each client may have.
type Rate struct {
	PerSecond float64 // 0: no limit
	Burst     float64 // at once, after a pause; below 1: one second's worth
}

// Buckets hold a token bucket for each client, whatever tells these apart. Of many clients those not seen for longest are forgotten, and start
// again with a full bucket. It is safe for concurrent use; nil lets everything through.
type Buckets[K comparable] struct {
	rate Rate
	mu   sync.Mutex
	seen *simplelru.LRU[K, bucket]
}

// bucket is what a client had left when it was seen last.
type bucket struct {
	tokens float64
	at     time.Duration
}

// New makes buckets for at most clients; nil without a rate.
func New[K comparable](rate Rate, clients int) *Buckets[K] {
	if rate.PerSecond <= 0 {
		return nil
	}
	if rate.Burst < 1 {
		rate.Burst = max(rate.PerSecond, 1)
	}
	if clients <= 0 {
		clients = DefaultClients
	}
	seen, _ := simplelru.NewLRU[K, bucket](clients, nil) // it fails only for a length below 1
	return &Buckets[K]{rate: rate, seen: seen}
}

// Allow takes a token of client's, if there is one. now is the time since any fixed moment.
func (b *Buckets[K]) Allow(client K, now time.Duration) bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	had, ok := b.seen.Get(client)
	if !ok {
		had = bucket{tokens: b.rate.Burst, at: now}
	}
	had.tokens = min(had.tokens+max(now-had.at, 0).Seconds()*b.rate.PerSecond, b.rate.Burst)
	had.at = now
	allowed := had.tokens >= 1
	if allowed {
		had.tokens--
	}
	b.seen.Add(client, had)
	return allowed
}

// Clients is how many are told apart now.
func (b *Buckets[K]) Clients() int {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen.Len()
}
