package main

import "context"

// memory is what a server holds after it was asked for many names once.
type memory struct {
	before, after int64 // resident, in bytes, without and with the names
	kept          int   // of the names, those that it still knew when asked again
}

// fill asks c for b.names names and then again, and looks at its memory in between.
func (b *bench) fill(ctx context.Context, c *contender) (memory, error) {
	var m memory
	var err error
	if m.before, err = c.resident(); err != nil {
		return m, err
	}
	series := b.series("k")
	if _, err = b.ask(ctx, c.addr, series, b.kept); err != nil {
		return m, err
	}
	if m.after, err = c.resident(); err != nil {
		return m, err
	}
	first, err := b.asked()
	if err != nil {
		return m, err
	}
	if _, err = b.ask(ctx, c.addr, series, b.kept); err != nil {
		return m, err
	}
	second, err := b.asked()
	m.kept = b.kept - (second - first)
	return m, err
}
