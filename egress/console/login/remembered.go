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
	return remembered[K, V]{newCache[K, until[V]](most), d}
}

// newCache is one of a constant size.
func newCache[K comparable, V any](most int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](most)
	if err != nil {
		panic(err) // the size is none
	}
	return c
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
