package console

import (
	"context"
	"time"
)

// lately is a value as it was read some moments ago, for as long as that will do.
type lately[T any] struct {
	turn  semaphore
	at    time.Time // zero: it was not read
	value T
}

func newLately[T any]() *lately[T] { return &lately[T]{turn: make(semaphore, 1)} }

// read gives the value, and reads it again where it is older than d.
func (l *lately[T]) read(ctx context.Context, now time.Time, d time.Duration, read func(context.Context) (T, error)) (value T, err error) {
	done, err := wait(ctx, l.turn)
	if err != nil {
		return value, err
	}
	defer done()
	if age := now.Sub(l.at); !l.at.IsZero() && age >= 0 && age < d {
		return l.value, nil
	}
	value, err = read(ctx)
	if err == nil {
		l.at, l.value = now, value
	}
	return value, err
}
