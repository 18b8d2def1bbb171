// Package clock is a time that tests move by hand, also while what they test reads it from goroutines of its own.
package clock

import (
	"sync/atomic"
	"time"
)

// Clock stands still until it is moved.
type Clock struct{ now atomic.Pointer[time.Time] }

// At is a clock that shows a time.
func At(t time.Time) *Clock {
	c := &Clock{}
	c.Set(t)
	return c
}

// Now is what it shows.
func (c *Clock) Now() time.Time { return *c.now.Load() }

// Set moves it to a time, which may be an earlier one.
func (c *Clock) Set(t time.Time) { c.now.Store(&t) }

// Advance moves it on, or back by less than nothing. One goroutine moves a clock.
func (c *Clock) Advance(d time.Duration) { c.Set(c.Now().Add(d)) }
