package kubetoken

import (
	"sync"
	"time"
)

// breaker leaves an API server alone for a moment after it failed several times in a row: those who ask meanwhile get
// the last error at once.
type breaker struct {
	mutex    sync.Mutex
	failures int
	until    time.Time
	last     error
}

func (b *breaker) succeeded() {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.failures = 0
}

func (b *breaker) failed(now time.Time, err error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.failures++; b.failures >= failuresBefore {
		b.until, b.last = now.Add(pause), err
	}
}

// check returns the error to give while the API server is left alone.
func (b *breaker) check(now time.Time) error {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if now.Before(b.until) {
		return b.last
	}
	return nil
}
