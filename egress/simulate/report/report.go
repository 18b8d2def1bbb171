// Package report writes what a simulation found: for a terminal, for programs, as one HTML page, and as Markdown for a pull request.
//
// In: a simulate.Report, whose texts are what anybody asked for; out: a document in which they are but texts.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/simulate"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// Formats are the names that Write knows.
var Formats = []string{"table", "json", "html", "markdown"}

// Write writes a report in a format.
func Write(w io.Writer, format string, r *simulate.Report) error {
	switch format {
	case "table":
		return writeText(w, r)
	case "json":
		e := visible.Encoder(w)
		e.SetIndent("", "  ")
		return e.Encode(struct {
			*simulate.Report
			Notes []string `json:"notes"`
		}{r, simulate.Notes})
	case "html":
		return page.Execute(w, ViewOf(r))
	case "markdown":
		return writeMarkdown(w, r)
	default:
		return fmt.Errorf("format %q: must be one of %s", format, strings.Join(Formats, ", "))
	}
}

// list is one of a report's lists of changes.
type list struct {
	Title  string
	Empty  string
	Inputs int
	Lines  []change
}

// change is a line of it, in words.
type change struct {
	Workload, Target, Counts, First, Last, Before, After string
	Examples                                             []string
}

// View is a report in words.
type View struct {
	*simulate.Report
	Summary string
	Lists   []list
	Why     []why
	Notes   []string
}

// why is why something is not reproducible, and of how much.
type why struct {
	Why      string
	Inputs   int
	Records  uint64
	Counts   string // both
	Examples []string
}

// ViewOf writes a report in words, which are but texts.
func ViewOf(r *simulate.Report) View {
	v := View{Report: r, Summary: summary(r), Notes: simulate.Notes, Lists: []list{
		{Title: "Newly denied", Empty: "Nothing that is allowed now would be denied.", Inputs: r.Inputs.NewlyDenied, Lines: lines(r.NewlyDenied)},
		{Title: "Newly allowed", Empty: "Nothing that is denied now would be allowed.", Inputs: r.Inputs.NewlyAllowed, Lines: lines(r.NewlyAllowed)},
	}}
	if r.Inputs.WouldDeny > 0 {
		v.Lists = append(v.Lists, list{Title: "Denied once what is observed is enforced", Inputs: r.Inputs.WouldDeny, Lines: lines(r.WouldDeny)})
	}
	for _, w := range r.Why {
		said := why{Why: visible.Text(w.Why), Inputs: w.Inputs, Records: w.Records, Counts: count(w.Records, "record") + ", " + count(w.Inputs, "input")}
		for _, example := range w.Examples {
			said.Examples = append(said.Examples, visible.Text(example))
		}
		v.Why = append(v.Why, said)
	}
	return v
}

// summary says in a line what was looked at.
func summary(r *simulate.Report) string {
	span := "until " + day(r.Until)
	if !r.Since.IsZero() {
		span = day(r.Since) + " – " + day(r.Until)
	}
	text := fmt.Sprintf("%s, %s (%s): %d newly denied, %d newly allowed, %d not reproducible", count(r.Records, "record"), count(r.Distinct, "distinct input"), span,
		r.Inputs.NewlyDenied, r.Inputs.NewlyAllowed, r.NotReproducible)
	if r.Gaps > 0 {
		text += fmt.Sprintf("; %s missing in the log", count(r.Gaps, "record"))
	}
	if r.NotListed > 0 {
		text += fmt.Sprintf("; %s not listed", count(r.NotListed, "input"))
	}
	return text
}

func lines(changes []simulate.Change) (out []change) {
	for i := range changes {
		c := &changes[i]
		line := change{
			Workload: visible.Text(c.Workload.String()), Target: visible.Text(target(c)), Counts: count(c.Records, "record") + ", " + count(c.Inputs, "input"),
			First: moment(c.First), Last: moment(c.Last), Before: side(&c.Before), After: side(&c.After),
		}
		for _, x := range c.Examples {
			if text := example(&x); text != "" {
				line.Examples = append(line.Examples, fmt.Sprintf("%s: %s", text, count(x.Records, "record")))
			}
		}
		out = append(out, line)
	}
	return out
}

// target is what was asked for.
func target(c *simulate.Change) string {
	if c.Port == 0 {
		return c.Protocol + " " + c.Host
	}
	return fmt.Sprintf("%s %s:%d", c.Protocol, c.Host, c.Port)
}

func side(s *simulate.Side) string {
	return visible.Text(fmt.Sprintf("%s by %s (%s)", s.Verdict, object(&s.DecidedBy), s.Reason))
}

func object(d *policy.DecidedBy) string {
	text := d.Kind + " " + strings.Trim(d.Namespace+"/"+d.Name, "/")
	if d.Rule != "" {
		text += ", " + d.Rule
	}
	return text
}

func example(x *simulate.Example) string {
	var parts []string
	for _, part := range []string{x.Method, x.Path, x.Dialled} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	if x.Labels != "" {
		parts = append(parts, "{"+x.Labels+"}")
	}
	return visible.Text(strings.Join(parts, " "))
}

func day(t time.Time) string    { return t.UTC().Format("2006-01-02 15:04") + "Z" }
func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + "Z" }

func count[T int | uint64](n T, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

//go:embed page.html
var source string

// page is one document without scripts, and loads nothing.
var page = template.Must(template.New("page").Parse(source))
