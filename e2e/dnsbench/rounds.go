package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"
)

// sample is everything that was measured of one contender.
type sample struct {
	*contender
	hits   []hits
	misses []latency
	memory memory
}

// all measures, prints and keeps.
func (b *bench) all(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var err error
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.dir, err = os.MkdirTemp("", "dnsbench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	if b.input, err = b.names(); err != nil {
		return err
	}
	if b.upstream, err = freeAddr(); err != nil {
		return err
	}
	source := &contender{name: "authority", addr: b.upstream}
	if source.process, err = start(b.pinned(ctx, loaderCore, b.self, "authority", b.upstream.String())); err != nil {
		return err
	}
	defer source.stop()
	if err := source.answers(); err != nil {
		return err
	}
	var samples []*sample
	for _, c := range contenders() {
		if err := b.run(ctx, c); err != nil {
			return err
		}
		defer c.stop()
		s := &sample{contender: c}
		if _, err := b.hit(ctx, c, "-n", "2"); err != nil { // from now on the hot names are kept
			return err
		}
		c.pause()
		samples = append(samples, s)
	}
	var direct []latency
	for round := range b.rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, b.rounds)
		l, err := b.miss(ctx, b.upstream)
		if err != nil {
			return err
		}
		direct = append(direct, l)
		for _, s := range samples {
			if err := b.round(ctx, s); err != nil {
				return err
			}
		}
	}
	if err := b.memories(ctx, samples); err != nil {
		return err
	}
	return b.report(samples, direct)
}

// round measures one contender once.
func (b *bench) round(ctx context.Context, s *sample) error {
	s.resume()
	defer s.pause()
	h, err := b.hit(ctx, s.contender, "-l", strconv.FormatFloat(b.seconds, 'f', -1, 64))
	if err != nil {
		return err
	}
	s.hits = append(s.hits, h)
	line := fmt.Sprintf("  %-32s %7.0f/s %5.2f µs CPU, %d lost", s.name, h.rate, microseconds(h.spent), h.lost)
	if s.cache {
		l, err := b.miss(ctx, s.addr)
		if err != nil {
			return err
		}
		s.misses = append(s.misses, l)
		line += fmt.Sprintf(", misses p50 %.0f µs p99 %.0f µs", microseconds(l.p50), microseconds(l.p99))
	}
	fmt.Fprintln(os.Stderr, line)
	return nil
}

// memories measures those that keep names, each as a new process.
func (b *bench) memories(ctx context.Context, samples []*sample) error {
	for _, s := range samples {
		s.resume()
		s.stop()
	}
	for _, s := range samples {
		if !s.cache {
			continue
		}
		if err := b.run(ctx, s.contender); err != nil {
			return err
		}
		var err error
		s.memory, err = b.fill(ctx, s.contender)
		s.stop()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "  %-32s %.1f MiB with %d names, %.1f MiB before\n", s.name, mebibytes(s.memory.after), s.memory.kept, mebibytes(s.memory.before))
	}
	return nil
}

func microseconds(d time.Duration) float64 { return float64(d) / 1e3 }
func mebibytes(n int64) float64            { return float64(n) / (1 << 20) }
