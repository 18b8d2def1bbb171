package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sallyport/sallyport/e2e/story"
)

// printer writes the story. On a terminal it has colours and shows what it waits for.
type printer struct {
	out      *os.File
	terminal bool
}

func newPrinter(out *os.File) *printer {
	return &printer{out: out, terminal: term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// The colours, as SGR parameters (ECMA-48).
const (
	green  = "32"
	red    = "31"
	yellow = "33"
	bold   = "1"
	dim    = "2"
)

func (p *printer) paint(colour, text string) string {
	if !p.terminal {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

func (p *printer) line(text string) { _, _ = fmt.Fprintln(p.out, text) }

func (p *printer) title(text string) { p.line(p.paint(bold, text)) }

// begin says what is being tried, where that line can be overwritten.
func (p *printer) begin(step story.Step) {
	if p.terminal {
		_, _ = fmt.Fprintf(p.out, "%s %s", p.paint(dim, "…"), step.Title)
	}
}

func (p *printer) clear() {
	if p.terminal {
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}

func (p *printer) end(r story.Result) {
	p.clear()
	took := p.paint(dim, fmt.Sprintf(" %s", r.Took.Round(100*time.Millisecond)))
	switch {
	case r.Err == nil:
		p.line(p.paint(green, "✓") + " " + r.Step.Title + took)
	case errors.Is(r.Err, story.ErrSkipped):
		p.line(p.paint(yellow, "–") + " " + r.Step.Title + p.paint(dim, " ("+r.Err.Error()+")"))
		return
	default:
		p.line(p.paint(red, "✗") + " " + p.paint(bold, r.Step.Title) + took)
	}
	for _, e := range r.Evidence {
		p.line(p.paint(dim, "    "+e))
	}
	if r.Err != nil {
		p.line("    " + p.paint(red, strings.ReplaceAll(r.Err.Error(), "\n", "\n    ")))
	}
}

func (p *printer) total(held, failed, skipped int) {
	text := fmt.Sprintf("%d of %d steps hold", held, held+failed)
	if skipped > 0 {
		text += fmt.Sprintf("; %d need root and network namespaces", skipped)
	}
	colour := green
	if failed > 0 {
		colour = red
	}
	p.line(p.paint(colour, text))
}

func (p *printer) list(steps []story.Step) {
	for _, s := range steps {
		where := ""
		switch s.Needs {
		case story.Namespaces:
			where = " (needs root)"
		case story.Loopback:
			where = " (on loopback only)"
		case story.Anywhere:
		}
		p.line(fmt.Sprintf("%-18s %s%s", s.ID, s.Title, where))
	}
}

// keep tells how to look around.
func (p *printer) keep(scene *story.Scene) {
	p.line("")
	p.title("Everything still runs. Ctrl-C removes it.")
	for _, hint := range scene.Hints() {
		p.line("  " + hint)
	}
}
