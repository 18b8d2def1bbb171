package cache

import (
	"sync/atomic"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/packet"
)

// overhead is what an entry costs beside its message: the struct, the list element, the map slots and what the
// allocator rounds up, in bytes.
const overhead = 200

// Entry is an answer in the cache. Times are durations since an origin that the caller keeps.
//
// A hundred thousand of them are a few dozen MiB: its fields are in the order that wastes least, and its key is found
// in the answer.
type Entry struct {
	Answer  packet.Sealed
	Stored  time.Duration
	Expires time.Duration // from then on it is stale
	Gone    time.Duration // from then on it may not be given at all
	Hidden  bool          // addresses were taken out of it

	prefix  [prefixSize]byte // of the key
	refresh atomic.Bool      // somebody fetches it ahead of time
	retry   atomic.Int64     // no upstream is asked for a fresh one before, while it is stale
}

// prefixSize is how much of a key comes before the question.
const prefixSize = 2

// NewEntry makes the entry that Get finds by key: two bytes that the caller chooses, and answer's question in wire
// format (packet.Query.Key). By another question it is never found.
func NewEntry(key []byte, answer packet.Sealed) *Entry {
	e := &Entry{Answer: answer}
	copy(e.prefix[:], key)
	return e
}

// matches tells whether e is the entry for key.
func (e *Entry) matches(key []byte) bool {
	return len(key) > prefixSize && e.prefix == [prefixSize]byte(key) && e.Answer.Answers(key[prefixSize:])
}

// Age is how the TTLs of the answer are written at now. stale is the TTL of what has expired, in seconds.
func (e *Entry) Age(now time.Duration, stale uint32) packet.Age {
	if now >= e.Expires && e.Expires > e.Stored {
		return packet.Age{Stale: stale}
	}
	return packet.Age{Elapsed: uint32(max(now-e.Stored, 0) / time.Second)}
}

// Defer keeps callers from asking upstream for a fresh answer before until.
func (e *Entry) Defer(until time.Duration) { e.retry.Store(int64(until)) }

// Deferred tells whether Defer still holds.
func (e *Entry) Deferred(now time.Duration) bool { return now < time.Duration(e.retry.Load()) }

// ClaimRefresh is true for one caller: it fetches the answer ahead of time. If that fails, the answer expires first.
func (e *Entry) ClaimRefresh() bool {
	return !e.refresh.Load() && e.refresh.CompareAndSwap(false, true)
}

// size is the memory that the entry takes, in bytes.
func (e *Entry) size() int { return e.Answer.Bytes() + overhead }
