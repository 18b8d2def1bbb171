package verify

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// Line is one result of a table: why is what to say of it, lines of more on their own.
func Line(r Result, why string) string {
	verdict := string(r.Verdict)
	if r.Verdict == Open {
		verdict = "OPEN"
	}
	return fmt.Sprintf("%s %-10s  %-8s %s: %s\n", Mark(r.Verdict), visible(r.Way), visible(verdict), visible(r.Tried), strings.ReplaceAll(visible(why), "\n", "\n    "))
}

// visible makes a text safe for a terminal. What was seen is what others' servers answered, and a report may come from a pod: what does not print but ends a line (escape sequences,
// marks that turn the direction of writing) is shown as its code.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r == '\n' || unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
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
