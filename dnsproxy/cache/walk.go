package cache

// All lists the entries, in no order, and counts as nobody's use.
func (c *Cache) All() []*Entry {
	var all []*Entry
	for i := range c.shards {
		all = c.shards[i].appendAll(all)
	}
	return all
}

func (s *shard) appendAll(all []*Entry) []*Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(append(all, s.trial.lru.Values()...), s.protected.lru.Values()...)
}

// Drop forgets those for which gone is true, and returns how many they were. gone is called with a lock held: it must
// be quick.
func (c *Cache) Drop(gone func(*Entry) bool) (dropped int) {
	for i := range c.shards {
		dropped += c.shards[i].drop(gone)
	}
	return dropped
}

func (s *shard) drop(gone func(*Entry) bool) (dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range []*segment{&s.trial, &s.protected} {
		for _, h := range seg.lru.Keys() {
			if e, ok := seg.lru.Peek(h); ok && gone(e) {
				seg.lru.Remove(h)
				dropped++
			}
		}
	}
	return dropped
}

// View is the first byte of the key that the entry was made with.
func (e *Entry) View() byte { return e.prefix[0] }
