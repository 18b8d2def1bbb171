package load

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// goal is one row of the table: a figure and what it must not exceed, in a small mesh and in a large one (of entries: 1,000 and 10,000); 0 for
// nothing that is wanted. Other sizes are held to the next larger one's.
type goal struct {
	name  string
	unit  string
	limit [2]float64
	value func(Figures) float64
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }
func mebibytes(n int64) float64            { return float64(n) / (1 << 20) }

var goals = []goal{
	{"bytes to a sidecar for one ServiceEntry added, changed or removed", "KiB", [2]float64{8, 8}, Figures.changeKiB},
	{"controller CPU for it", "ms", [2]float64{30, 40}, func(f Figures) float64 { return milliseconds(f.ChangeCPU) }},
	{"file written → the last sidecar has it, p99", "ms", [2]float64{150, 200}, func(f Figures) float64 { return milliseconds(f.P99) }},
	{"first sync of all streams, controller CPU", "s", [2]float64{0.7, 5}, func(f Figures) float64 { return f.SyncCPU.Seconds() }},
	{"resident memory with these streams", "MiB", [2]float64{100, 250}, func(f Figures) float64 { return mebibytes(f.Resident) }},
	{"resident memory with a crowd of streams", "MiB", [2]float64{160, 350}, func(f Figures) float64 { return mebibytes(f.CrowdResident) }},
	{"start with the directory full until ready", "s", [2]float64{1, 6}, func(f Figures) float64 { return f.Start.Seconds() }},
}

// changeKiB is what a change cost at most.
func (f Figures) changeKiB() float64 {
	var most int64
	for _, n := range f.Bytes {
		most = max(most, n)
	}
	return float64(most) / 1024
}

// shape is the one that was measured.
func (f Figures) shape() shape {
	s, _ := shapeOf(f.Shape)
	return s
}

func (g goal) at(f Figures) float64 {
	if f.Entries <= f.shape().small {
		return g.limit[0]
	}
	return g.limit[1]
}

// Result is one figure beside its target, for programs.
type Result struct {
	Entries int     `json:"entries"`
	Name    string  `json:"name"`
	Unit    string  `json:"unit"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit"`
	Holds   bool    `json:"holds"`
}

// Results are the figures of the table, those that were measured.
func Results(all []Figures) []Result {
	var out []Result
	for _, f := range all {
		for _, g := range f.shape().goals {
			if value, limit := g.value(f), g.at(f); value != 0 && limit != 0 {
				out = append(out, Result{f.Entries, g.name, g.unit, value, limit, value <= limit})
			}
		}
	}
	return out
}

// Table is the figures of one shape beside their targets, in Markdown.
func Table(all []Figures) string {
	var b strings.Builder
	header, line := "| |", "|---|"
	for _, f := range all {
		header += fmt.Sprintf(" %d %s, %d streams%s | target | |", f.Entries, f.shape().noun, f.Streams, crowdOf(f.Crowd))
		line += "---:|---:|---|"
	}
	fmt.Fprintf(&b, "%s\n%s\n", header, line)
	for _, g := range all[0].shape().goals {
		fmt.Fprintf(&b, "| %s |", g.name)
		for _, f := range all {
			fmt.Fprintf(&b, " %s |", g.cell(f))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\nBesides:\n\n")
	for _, f := range all {
		fmt.Fprintf(&b, "- %d %s: %.0f ms p50 until the last has a change, %.1f KiB of it to the gateway; first sync %.1f MiB in %.2f s; "+
			"%.0f MiB resident at most", f.Entries, f.shape().noun, milliseconds(f.P50), float64(f.GatewayBytes)/1024, mebibytes(f.SyncBytes), f.SyncTime.Seconds(), mebibytes(f.Peak))
		if f.Crowd > 0 {
			fmt.Fprintf(&b, "; the crowd has everything after %.1f s and %.1f s of CPU, at %.0f MiB at most", f.CrowdSync.Seconds(), f.CrowdCPU.Seconds(), mebibytes(f.CrowdPeak))
		}
		b.WriteString("\n")
	}
	return b.String()
}

func crowdOf(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", crowd of %d", n)
}

func (g goal) cell(f Figures) string {
	value, limit := g.value(f), g.at(f)
	if limit == 0 {
		return fmt.Sprintf("%s %s | | ", digits(value), g.unit)
	}
	mark := "✓"
	if value > limit {
		mark = "✗"
	}
	if value == 0 {
		return fmt.Sprintf("– | ≤ %g %s | ", limit, g.unit)
	}
	return fmt.Sprintf("%s %s | ≤ %g %s | %s", digits(value), g.unit, limit, g.unit, mark)
}

// digits writes three that count, and never an exponent.
func digits(value float64) string {
	if value >= 1000 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// markers are those between which a document holds the figures of a shape.
type markers struct{ begin, end string }

func kept(name string) markers { return markers{"<!-- " + name + " -->", "<!-- /" + name + " -->"} }

// Keep writes the figures, of one shape, with the machine and the date, between a document's markers.
func Keep(file string, all []Figures, runs int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	m := all[0].shape().markers
	before, rest, ok := strings.Cut(string(text), m.begin)
	_, after, ended := strings.Cut(rest, m.end)
	if !ok || !ended {
		return errors.New(file + ": the markers " + m.begin + " and " + m.end + " are missing")
	}
	figures := fmt.Sprintf("\n%s; %s; the median of %d runs.\n\n%s", Machine(), time.Now().UTC().Format(time.DateOnly), runs, Table(all))
	return os.WriteFile(file, []byte(before+m.begin+figures+m.end+after), 0o644)
}

// Machine names processors, memory and kernel.
func Machine() string {
	cpus, model := 0, "unknown processor"
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			cpus, model = cpus+1, strings.TrimSpace(value)
		}
	}
	memory := ""
	for line := range strings.Lines(read("/proc/meminfo")) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "MemTotal:" {
			memory = fields[1] + " kB"
		}
	}
	return strings.Join(slices.DeleteFunc([]string{
		fmt.Sprintf("%d × %s", cpus, model), memory, "Linux " + strings.TrimSpace(read("/proc/sys/kernel/osrelease")),
	}, func(s string) bool { return s == "" }), ", ")
}

func read(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text)
}
