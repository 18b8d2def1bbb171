package verify

import (
	"fmt"
	"io"
	"strings"

	"github.com/sallyport/sallyport/config/visible"
)

// Mark is what a verdict looks like at the beginning of a line.
func Mark(v Verdict) string {
	switch v {
	case Closed:
		return "✓"
	case Open:
		return "✗"
	case Skipped:
		return "-"
	}
	return "?"
}

// Line is one result of a table: why is what to say of it, lines of more on their own. What was seen is what others' servers answered, and a report may come
// from a pod.
func Line(r Result, why string) string {
	verdict := string(r.Verdict)
	if r.Verdict == Open {
		verdict = "OPEN"
	}
	return fmt.Sprintf("%s %-10s  %-8s %s: %s\n", Mark(r.Verdict), visible.Lines(r.Way), visible.Lines(verdict), visible.Lines(r.Tried), strings.ReplaceAll(visible.Lines(why), "\n", "\n    "))
}

// Why is what a result says of itself.
func (r Result) Why() string {
	if r.Needs != "" {
		return fmt.Sprintf("%s (%s)", r.Seen, r.Needs)
	}
	return r.Seen
}

// Summary counts the verdicts.
func (r Report) Summary() string {
	parts := []string{fmt.Sprintf("%d closed", r.Count(Closed)), fmt.Sprintf("%d open", r.Count(Open)), fmt.Sprintf("%d skipped", r.Count(Skipped))}
	if n := r.Count(Unclear); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not to be told", n))
	}
	return strings.Join(parts, ", ")
}

// Print writes a report as a table.
func (r Report) Print(w io.Writer) {
	for _, result := range r.Results {
		fmt.Fprint(w, Line(result, result.Why()))
	}
	fmt.Fprintln(w, r.Summary())
}
