package digest

import (
	"encoding/binary"
	"fmt"
	"iter"
	"sync"
)

// Set is what an agent knows. Its methods may be called from any goroutine.
type Set struct {
	mu      sync.RWMutex
	buckets [Buckets][]byte
	sum     uint64 // of buckets
	wanted  uint64 // what they should add up to
	told    bool   // what they should add up to was said
}

// Apply takes new and changed resources, by their names, and forgets others, all at once. What cannot be read changes nothing, and is given with the reasons.
func (s *Set) Apply(changed iter.Seq2[string, []byte], removed []string) map[string]error {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := map[string]error{}
	for name, body := range changed {
		if err := s.put(name, body); err != nil {
			refused[name] = err
		}
	}
	for _, name := range removed {
		s.remove(name)
	}
	return refused
}

// Put takes one.
func (s *Set) Put(name string, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.put(name, body)
}

func (s *Set) put(name string, body []byte) error {
	if name == SumName {
		if len(body) != 8 {
			return fmt.Errorf("the sum has %d bytes, not 8", len(body))
		}
		s.wanted, s.told = binary.BigEndian.Uint64(body), true
		return nil
	}
	bucket, ok := bucketOf(name)
	if !ok {
		return fmt.Errorf("%q is no bucket", name)
	}
	if err := walk(body, func(uint64) bool { return true }); err != nil {
		return fmt.Errorf("bucket %s: %w", name, err)
	}
	s.set(bucket, body)
	return nil
}

// Remove forgets one.
func (s *Set) Remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(name)
}

func (s *Set) remove(name string) {
	if bucket, ok := bucketOf(name); ok {
		s.set(bucket, nil)
	}
	s.told = s.told && name != SumName
}

func (s *Set) set(bucket uint16, body []byte) {
	name := BucketName(bucket)
	s.sum ^= Mark(name, s.buckets[bucket]) ^ Mark(name, body)
	s.buckets[bucket] = body
}

// Sum is the body of the resource SumName.
func Sum(of uint64) []byte { return binary.BigEndian.AppendUint64(nil, of) }

// Whole says whether all buckets are here.
func (s *Set) Whole() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.told && s.sum == s.wanted
}

// May says whether a table may have a row for a domain. No is for certain, where the set is whole.
func (s *Set) May(table, domain string) bool {
	key := KeyOf(table, domain)
	s.mu.RLock()
	defer s.mu.RUnlock()
	body := s.buckets[key.Bucket]
	return len(body) > 0 && holds(body, key.Value)
}
