package cache

import (
	"hash/maphash"
	"sync/atomic"
)

// shards is how many locks the entries are spread over.
const shards = 8

// MinBytes is the smallest bound that makes sense: each shard can hold a few of the largest answers.
const MinBytes = 256 << 10

// Cache is safe for concurrent use. Keys are hashed with a secret seed, so that nobody can aim at one shard.
type Cache struct {
	seed      maphash.Seed
	shards    [shards]shard
	evictions atomic.Uint64
}

// New makes a cache that holds at most about maxBytes.
func New(maxBytes int) *Cache {
	c := &Cache{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].init(max(maxBytes, MinBytes)/shards, &c.evictions)
	}
	return c
}

// Get finds the entry for key and counts as its use. It does not allocate, save when an entry is used for the
// second time.
func (c *Cache) Get(key []byte) *Entry {
	h := maphash.Bytes(c.seed, key)
	return c.shards[h%shards].get(h, key)
}

// Put keeps e instead of the entry with the same key.
func (c *Cache) Put(e *Entry) {
	var key maphash.Hash // as maphash.Bytes over the whole key
	key.SetSeed(c.seed)
	_, _ = key.Write(e.prefix[:])
	_, _ = key.WriteString(e.Answer.Question())
	h := key.Sum64()
	c.shards[h%shards].put(h, e)
}

// Flush forgets everything.
func (c *Cache) Flush() {
	for i := range c.shards {
		c.shards[i].flush()
	}
}

// Stats are the cache's present size and past.
type Stats struct {
	Entries, Bytes int
	Evictions      uint64 // entries that had to go for others
}

// Stats counts.
func (c *Cache) Stats() Stats {
	s := Stats{Evictions: c.evictions.Load()}
	for i := range c.shards {
		entries, bytes := c.shards[i].count()
		s.Entries += entries
		s.Bytes += bytes
	}
	return s
}
