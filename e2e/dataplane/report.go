package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sallyport/sallyport/e2e/load"
)

// targets are what both ratios must be at least.
var targets = map[way]float64{egress: 0.95, mesh: 0.95, ingress: 0.97}

func (p pair) mark(ratio float64) string {
	if ratio < targets[p.Way] {
		return "✗"
	}
	return "✓"
}

func micro(d time.Duration) float64 { return float64(d) / 1e3 }

// table is the ratios beside their target, in Markdown.
func table(all []pair) string {
	var b strings.Builder
	b.WriteString("| hosts | load | requests/s, ours | by hand | ratio | p99, ours | by hand | ratio | p50, ratio | failed | CPU of both Envoys for a request, ours | by hand | ratio | agents |\n")
	b.WriteString("|---:|---|---:|---:|---|---:|---:|---|---:|---:|---:|---:|---:|---:|\n")
	for _, p := range all {
		rate := func(s []sample) float64 { return medianOf(s, sample.rateOf) }
		p99 := func(s []sample) float64 { return medianOf(s, func(s sample) float64 { return micro(s.P99) / 1e3 }) }
		cpu := func(s []sample) float64 {
			return medianOf(s, func(s sample) float64 { return micro(s.envoys()) })
		}
		fmt.Fprintf(&b, "| %d | %s | %.0f | %.0f | %.2f %s | %.2f ms | %.2f ms | %.2f %s | %.2f | %d | %.0f µs | %.0f µs | %.2f | %.0f µs |\n",
			p.Hosts, p.Load, rate(p.Ours), rate(p.Written), p.throughput(), p.mark(p.throughput()),
			p99(p.Ours), p99(p.Written), p.p99(), p.mark(p.p99()), p.p50(), p.Failures, cpu(p.Ours), cpu(p.Written), p.cpu(),
			medianOf(p.Ours, func(s sample) float64 { return micro(s.AgentCPU) }))
	}
	fmt.Fprintf(&b, "\nHow busy the processors were (the Envoys' / that of clients, server and agents), and how much of the Envoys' one went to anything else, the kernel's share included:\n\n")
	for _, p := range all {
		busy := func(s []sample) string {
			percent := func(of func(sample) float64) float64 { return 100 * medianOf(s, of) }
			return fmt.Sprintf("%.0f %% / %.0f %%, %.0f %%", percent(func(s sample) float64 { return s.EnvoysBusy }),
				percent(func(s sample) float64 { return s.OthersBusy }), percent(func(s sample) float64 { return s.Foreign }))
		}
		fmt.Fprintf(&b, "- %d hosts, %s: ours %s, by hand %s%s\n", p.Hosts, p.Load, busy(p.Ours), busy(p.Written), split(p))
	}
	return b.String()
}

func (s sample) rateOf() float64 { return s.rate() }

// split says which Envoy costs what.
func split(p pair) string {
	of := func(samples []sample) string {
		return fmt.Sprintf("%.0f + %.0f µs", medianOf(samples, func(s sample) float64 { return micro(s.EnvoyCPU[0]) }), medianOf(samples, func(s sample) float64 { return micro(s.EnvoyCPU[1]) }))
	}
	return fmt.Sprintf("; first + second %s, by hand %s", of(p.Ours), of(p.Written))
}

// The markers between which a document holds the figures.
const (
	beginMarker = "<!-- data plane -->"
	endMarker   = "<!-- /data plane -->"
)

// keep writes the table, with the machine and the date, between a document's markers.
func keep(file string, p plan, how string, all []pair) error {
	head := fmt.Sprintf("\n%s; %s; medians of %d rounds of %s, %d clients; %s. Targets: ratios of at least %.2f, by the ingress gateway %.2f.\n\n",
		load.Machine(), time.Now().UTC().Format(time.DateOnly), p.rounds, p.duration, p.clients, how, targets[egress], targets[ingress])
	return between(file, beginMarker, endMarker, head+table(all))
}

// between writes a text between a document's markers.
func between(file, begin, end, figures string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return errors.New(file + ": the markers " + begin + " and " + end + " are missing")
	}
	return os.WriteFile(file, []byte(before+begin+figures+end+after), 0o644)
}
