package console

import (
	"context"
	"sync"
	"time"
)

// lately is a value as it was read some moments ago, for as long as that will do.
type lately[T any] struct {
	mu    sync.Mutex
	at    time.Time // zero: it was not read
	value T
}

// read gives the value, and reads it again where it is older than d.
func (l *lately[T]) read(ctx context.Context, now time.Time, d time.Duration, read func(context.Context) (T, error)) (T, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := now.Sub(l.at); !l.at.IsZero() && age >= 0 && age < d {
		return l.value, nil
	}
	value, err := read(ctx)
	if err == nil {
		l.at, l.value = now, value
	}
	return value, err
}
