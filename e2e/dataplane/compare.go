package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// pair is both sides' samples of one load, round by round.
type pair struct {
	Hosts    int
	Load     string
	Way      way
	Ours     []sample
	Written  []sample
	Failures int    // of ours
	First    string // the first of them
}

// plan says what to measure.
type plan struct {
	hosts    []int
	loads    []traffic
	rounds   int
	clients  int
	warm     time.Duration
	duration time.Duration
	progress io.Writer
}

// compare takes the rounds of both sides in turn.
func compare(ctx context.Context, ours *programmed, written *side, p plan) ([]pair, error) {
	var all []pair
	for _, hosts := range p.hosts {
		if err := ours.register(ctx, hosts); err != nil {
			return nil, fmt.Errorf("%d hosts: %w", hosts, err)
		}
		if err := ours.rest(true); err != nil {
			return nil, err
		}
		for _, l := range p.loads {
			one := pair{Hosts: hosts, Load: l.Name, Way: l.Way}
			o := order{traffic: l, Clients: p.clients, Warm: p.warm, Duration: p.duration}
			for round := range p.rounds {
				if err := one.round(ctx, &ours.side, written, o, round%2 == 1); err != nil {
					return nil, err
				}
			}
			fmt.Fprintf(p.progress, "%d hosts, %s: %.3f of the throughput, %.3f of the p99, %.3f of the CPU\n",
				hosts, l.Name, one.throughput(), one.p99(), one.cpu())
			all = append(all, one)
		}
	}
	return all, ours.rest(false)
}

// round measures both sides, in an order that changes from round to round.
func (p *pair) round(ctx context.Context, ours, written *side, o order, swapped bool) error {
	sides := []*side{ours, written}
	if swapped {
		slices.Reverse(sides)
	}
	for _, s := range sides {
		got, err := s.patientRound(ctx, o)
		if err != nil {
			return err
		}
		if got.Requests == 0 {
			return fmt.Errorf("%s, %s: no request worked: %s", s.name, o.Name, got.First)
		}
		if s == written {
			p.Written = append(p.Written, got)
			continue
		}
		p.Ours = append(p.Ours, got)
		p.Failures += got.Failures
		if p.First == "" {
			p.First = got.First
		}
	}
	return nil
}

// throughput is ours / theirs: the median of the rounds' ratios. More is better.
func (p pair) throughput() float64 {
	return p.ratio(func(ours, written sample) float64 { return ours.rate() / written.rate() })
}

// p99 and p50 are theirs / ours. More is better.
func (p pair) p99() float64 {
	return p.ratio(func(ours, written sample) float64 { return float64(written.P99) / float64(ours.P99) })
}

func (p pair) p50() float64 {
	return p.ratio(func(ours, written sample) float64 { return float64(written.P50) / float64(ours.P50) })
}

// cpu is ours / theirs, of both Envoys. Less is better.
func (p pair) cpu() float64 {
	return p.ratio(func(ours, written sample) float64 { return float64(ours.envoys()) / float64(written.envoys()) })
}

func (p pair) ratio(of func(ours, written sample) float64) float64 {
	var all []float64
	for i := range p.Ours {
		all = append(all, of(p.Ours[i], p.Written[i]))
	}
	return median(all)
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	if n := len(values); n%2 == 0 {
		return (values[n/2-1] + values[n/2]) / 2
	}
	return values[len(values)/2]
}

func medianOf(samples []sample, of func(sample) float64) float64 {
	var all []float64
	for _, s := range samples {
		all = append(all, of(s))
	}
	return median(all)
}
