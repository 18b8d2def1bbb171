package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// The markers between which a document holds the figures.
const (
	beginMarker = "<!-- figures -->"
	endMarker   = "<!-- /figures -->"
)

var errMissed = errors.New("a target is missed")

// target is a figure beside what it is to be.
type target struct {
	name  string
	value float64
	text  string // the value in its unit
	limit float64
	most  bool // limit is the most, not the least
}

func (t target) holds() bool { return t.most && t.value <= t.limit || !t.most && t.value >= t.limit }

func (t target) row() string {
	sign, mark := "≥", "✗"
	if t.most {
		sign = "≤"
	}
	if t.holds() {
		mark = "✓"
	}
	return fmt.Sprintf("| %s | %s | %s %g | %s |\n", t.name, t.text, sign, t.limit, mark)
}

// report prints the tables and writes them into the document.
func (b *bench) report(samples []*sample, direct []latency) error {
	targets := b.targets(samples, direct)
	var out strings.Builder
	fmt.Fprintf(&out, "%s; %s; medians of %d rounds; %s.\n\n", machine(), time.Now().UTC().Format(time.DateOnly), b.rounds, b.priority())
	out.WriteString("| target | measured | wanted | |\n|---|---:|---:|---|\n")
	missed := false
	for _, t := range targets {
		out.WriteString(t.row())
		missed = missed || !t.holds()
	}
	fmt.Fprintf(&out, "\n| | hits/s | of sallyport's | server CPU a hit | lost | miss p50 | miss p99 | idle | %d names kept |\n", b.kept)
	out.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, s := range samples {
		fmt.Fprintf(&out, "| %s | %.0f | %.2f | %.2f µs | %d |", s.name, s.rate(), ratio(s, samples[0]), microseconds(s.spent()), s.lost())
		if !s.cache {
			out.WriteString(" | | | |\n")
			continue
		}
		fmt.Fprintf(&out, " %.0f µs | %.0f µs | %.1f MiB | %.1f MiB%s |\n", microseconds(p50(s.misses)), microseconds(p99(s.misses)),
			mebibytes(s.memory.before), mebibytes(s.memory.after), s.forgot(b.kept))
	}
	fmt.Fprintf(&out, "| upstream asked directly | | | | | %.0f µs | %.0f µs | | |\n", microseconds(p50(direct)), microseconds(p99(direct)))
	fmt.Print(out.String())
	if b.doc != "" {
		if err := keep(b.doc, out.String()); err != nil {
			return err
		}
	}
	if missed {
		return errMissed
	}
	return nil
}

func (b *bench) priority() string {
	if b.realtime {
		return "all at real-time priority"
	}
	return fmt.Sprintf("nice %d", b.nice)
}

func (b *bench) targets(samples []*sample, direct []latency) []target {
	named := func(name string) *sample {
		return samples[slices.IndexFunc(samples, func(s *sample) bool { return s.name == name })]
	}
	own := samples[0]
	unbound, core := ratio(own, named("unbound")), ratio(own, named("CoreDNS"))
	added := float64(added(own.misses, direct)) / 1e6
	full := mebibytes(own.memory.after)
	return []target{
		{"hits beside unbound", unbound, fmt.Sprintf("%.2f ×", unbound), 1.0, false},
		{"hits beside CoreDNS", core, fmt.Sprintf("%.2f ×", core), 1.6, false},
		{"p99 of a miss beyond asking upstream directly, ms", added, fmt.Sprintf("%.3f ms", added), 0.3, true},
		{fmt.Sprintf("resident memory with %d names kept, MiB", own.memory.kept), full, fmt.Sprintf("%.1f MiB", full), 60, true},
	}
}

// ratio is the median over the rounds of a's rate by b's: what disturbs a round disturbs both.
func ratio(a, b *sample) float64 {
	var all []float64
	for i := range a.hits {
		all = append(all, a.hits[i].rate/b.hits[i].rate)
	}
	return median(all)
}

// added is the median over the rounds of what the p99 is beyond asking directly.
func added(through, direct []latency) time.Duration {
	var all []time.Duration
	for i := range through {
		all = append(all, through[i].p99-direct[i].p99)
	}
	return median(all)
}

func (s *sample) rate() float64 { return medianOf(s.hits, func(h hits) float64 { return h.rate }) }
func (s *sample) spent() time.Duration {
	return medianOf(s.hits, func(h hits) time.Duration { return h.spent })
}

func (s *sample) lost() (sum int) {
	for _, h := range s.hits {
		sum += h.lost
	}
	return sum
}

// forgot says so if not all names were kept.
func (s *sample) forgot(want int) string {
	if s.memory.kept >= want {
		return ""
	}
	return fmt.Sprintf(" (%d)", s.memory.kept)
}

func p50(all []latency) time.Duration {
	return medianOf(all, func(l latency) time.Duration { return l.p50 })
}

func p99(all []latency) time.Duration {
	return medianOf(all, func(l latency) time.Duration { return l.p99 })
}

func medianOf[T any, V cmp.Ordered](all []T, value func(T) V) V {
	var values []V
	for _, one := range all {
		values = append(values, value(one))
	}
	return median(values)
}

// median is the upper one of two.
func median[V cmp.Ordered](values []V) V {
	slices.Sort(values)
	return values[len(values)/2]
}

// keep writes the figures between the document's markers.
func keep(file, figures string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), beginMarker)
	_, after, ended := strings.Cut(rest, endMarker)
	if !ok || !ended {
		return errors.New(file + ": the markers " + beginMarker + " and " + endMarker + " are missing")
	}
	return os.WriteFile(file, []byte(before+beginMarker+"\n"+figures+endMarker+after), 0o644)
}
