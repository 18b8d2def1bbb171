package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/load"
)

// What is wanted of a node's proxy, beside sidecars.
const (
	mostOfSidecars = 0.1 // of the memory of as many sidecars
	mostForPod     = 0.5 // MB
	mostToAdd      = 20 * time.Millisecond
	leastOfSidecar = 0.95 // of a sidecar's throughput, and of its p99 the other way round
	leastPods      = 250
)

const (
	beginAmbient = "<!-- ambient -->"
	endAmbient   = "<!-- /ambient -->"
)

// mark is ✓ or ✗; nothing is said where others used the machine.
func (f *ambientFigures) mark(met bool) string {
	switch {
	case f.busiest.percent > tooBusy:
		return "(busy)"
	case met:
		return "✓"
	}
	return "✗"
}

func megabytes(bytes int64) float64 { return float64(bytes) / 1e6 }

// table is all of it, in Markdown.
func (f *ambientFigures) table() string {
	var b strings.Builder
	row := func(what, got, wanted, mark string) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", what, got, wanted, mark)
	}
	b.WriteString("| what | | wanted | |\n|---|---|---|---|\n")
	var each memory
	for _, m := range f.sidecar {
		each.envoy += m.envoy / int64(len(f.sidecar))
		each.agent += m.agent / int64(len(f.sidecar))
	}
	if each.sum() > 0 {
		ratio := float64(f.node[0].sum()) / float64(int64(f.few)*each.sum())
		row(fmt.Sprintf("memory of a node with %d pods at %d entries, beside %d sidecars", f.few, f.hosts, f.few),
			fmt.Sprintf("%.0f MB (Envoy %.0f, agent %.0f) beside %d × %.0f MB (Envoy %.0f, agent %.0f; the mean of %d): %.3f", megabytes(f.node[0].sum()), megabytes(f.node[0].envoy), megabytes(f.node[0].agent),
				f.few, megabytes(each.sum()), megabytes(each.envoy), megabytes(each.agent), len(f.sidecar), ratio), fmt.Sprintf("≤ %.1f", mostOfSidecars), f.mark(ratio <= mostOfSidecars))
	}
	if more := int64(f.pods - f.few); more > 0 {
		pod := memory{(f.node[1].envoy - f.node[0].envoy) / more, (f.node[1].agent - f.node[0].agent) / more}
		row("memory of one pod more", fmt.Sprintf("%.2f MB (Envoy %.2f, agent %.2f; of %d to %d pods)", megabytes(pod.sum()), megabytes(pod.envoy), megabytes(pod.agent), f.few, f.pods),
			fmt.Sprintf("≤ %.1f MB", mostForPod), f.mark(megabytes(pod.sum()) <= mostForPod))
	}
	if len(f.added) > 0 {
		var all []float64
		worst := time.Duration(0)
		for _, a := range f.added {
			all = append(all, float64(a))
			worst = max(worst, a)
		}
		took := time.Duration(median(all))
		row(fmt.Sprintf("a pod added at %d, as the CNI plugin waits for it", f.timedFrom), fmt.Sprintf("%.1f ms (the median of %d; at most %.1f ms)", ms(took), len(all), ms(worst)), fmt.Sprintf("≤ %.0f ms", ms(mostToAdd)), f.mark(took <= mostToAdd))
	}
	row("pods of the node that are served", fmt.Sprint(f.served), fmt.Sprint(leastPods), f.mark(f.served >= leastPods))

	fmt.Fprintf(&b, "\n| load, at %d pods and %d hosts | requests/s, node | sidecar | ratio | p99, node | sidecar | ratio | failed | CPU of the Envoys for a request, node | sidecar |\n|---|---:|---:|---|---:|---:|---|---:|---:|---:|\n", f.pods, f.hosts)
	for _, p := range f.traffic {
		rate := func(s []sample) float64 { return medianOf(s, sample.rateOf) }
		p99 := func(s []sample) float64 { return medianOf(s, func(s sample) float64 { return ms(s.P99) }) }
		cpu := func(s []sample) float64 {
			return medianOf(s, func(s sample) float64 { return micro(s.envoys()) })
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.2f %s | %.2f ms | %.2f ms | %.2f %s | %d | %.0f µs | %.0f µs |\n", p.Load, rate(p.Ours), rate(p.Written), p.throughput(), f.mark(p.throughput() >= leastOfSidecar),
			p99(p.Ours), p99(p.Written), p.p99(), f.mark(p.p99() >= leastOfSidecar), p.Failures, cpu(p.Ours), cpu(p.Written))
	}
	if f.first != "" {
		fmt.Fprintf(&b, "\nThe first request that failed: %s.\n", f.first)
	}
	var pressure []string
	for _, r := range f.pressure {
		pressure = append(pressure, fmt.Sprintf("%.0f %% before %s", r.percent, r.before))
	}
	fmt.Fprintf(&b, "\n`/proc/pressure/cpu` while nothing of this was at work: %s", strings.Join(pressure, ", "))
	if f.busiest.percent > tooBusy {
		b.WriteString(": others used the machine, so bytes count and times do not, and nothing is held to what is wanted")
	}
	b.WriteString(".\n")
	return b.String()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// keep writes the table, with the machine and the date, between the document's markers.
func (f *ambientFigures) keep(file string, p plan) error {
	head := fmt.Sprintf("\n%s; %s; medians of %d rounds of %s, %d clients. Memory is what processes have for themselves. Ratios are of the node's Envoy to sidecars, p99 the other way round.\n\n",
		load.Machine(), time.Now().UTC().Format(time.DateOnly), p.rounds, p.duration, p.clients)
	return between(file, beginAmbient, endAmbient, head+f.table())
}
