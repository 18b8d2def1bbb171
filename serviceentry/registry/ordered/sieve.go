package ordered

import (
	"hash/maphash"
	"sync/atomic"
)

// sieve tells of most keys that a layer says nothing of them, without looking for them. It gains keys and never loses one, so that all versions of a layer
// share it: what is only in another version seems to be in this one, and is looked for. Any goroutine may ask it while one adds keys.
type sieve struct {
	words []atomic.Uint64 // a power of two of them
	keys  int             // how many were added; of the goroutine that edits
}

const (
	// fewSifted is up to how many keys a layer has no sieve: finding one of those costs as little.
	fewSifted = 32
	// sieveBits is how many bits there are for a key at least: of so many keys that the layer says nothing of one is looked for in vain.
	sieveBits = 8
)

var sieveSeed = maphash.MakeSeed()

// newSieve has room for twice as many keys, so that it is not made again for each.
func newSieve(keys int) *sieve {
	words := 1
	for words*64 < 2*keys*sieveBits {
		words *= 2
	}
	return &sieve{words: make([]atomic.Uint64, words)}
}

func (s *sieve) place(key string) (word *atomic.Uint64, bit uint64) {
	h := maphash.String(sieveSeed, key)
	return &s.words[h>>6&uint64(len(s.words)-1)], 1 << (h & 63)
}

func (s *sieve) add(key string) {
	word, bit := s.place(key)
	word.Or(bit)
	s.keys++
}

// may says whether a key may have been added.
func (s *sieve) may(key string) bool {
	word, bit := s.place(key)
	return word.Load()&bit != 0
}

func (s *sieve) full() bool { return s.keys*sieveBits >= len(s.words)*64 }
