package serve

import (
	"sync/atomic"
	"time"
)

// limit is a length of time that tests change while others run by it.
type limit struct{ nanos atomic.Int64 }

func newLimit(d time.Duration) *limit {
	l := &limit{}
	l.set(d)
	return l
}

func (l *limit) get() time.Duration { return time.Duration(l.nanos.Load()) }

func (l *limit) set(d time.Duration) { l.nanos.Store(int64(d)) }
