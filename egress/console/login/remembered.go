package login

import (
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// remembered holds values for a time. The one that was used the longest ago goes where there are too many.
type remembered[K comparable, V any] struct {
	known *lru.Cache[K, until[V]]
	time  time.Duration
}

type until[V any] struct {
	value V
	end   time.Time
}

func newRemembered[K comparable, V any](most int, d time.Duration) remembered[K, V] {
	known, err := lru.New[K, until[V]](most)
	if err != nil {
		panic(err) // the size is a constant
	}
	return remembered[K, V]{known, d}
}

func (m remembered[K, V]) get(key K, now time.Time) (value V, ok bool) {
	x, ok := m.known.Get(key)
	if !ok || !now.Before(x.end) {
		return value, false
	}
	return x.value, true
}

func (m remembered[K, V]) add(key K, value V, now time.Time) {
	m.known.Add(key, until[V]{value, now.Add(m.time)})
}
