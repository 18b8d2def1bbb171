package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/sallyport/sallyport/egress/simulate"
)

// markdownLines is how many changes of a list a pull request shows: its comments hold 64 KiB.
const markdownLines = 50

// writeMarkdown writes it for a pull request, as GitHub and others show Markdown.
func writeMarkdown(w io.Writer, r *simulate.Report) error {
	var b bytes.Buffer
	v := ViewOf(r)
	fmt.Fprintf(&b, "### What this change would do\n\n%s.\n", escape(v.Summary))
	for _, l := range v.Lists {
		fmt.Fprintf(&b, "\n#### %s: %s\n\n", l.Title, count(l.Inputs, "input"))
		if len(l.Lines) == 0 {
			fmt.Fprintln(&b, l.Empty)
			continue
		}
		fmt.Fprintln(&b, "| who | what | seen | first | last | now | then | examples |\n|---|---|---|---|---|---|---|---|")
		for _, c := range l.Lines[:min(len(l.Lines), markdownLines)] {
			var cells []string
			for _, cell := range []string{c.Workload, c.Target, c.Counts, c.First, c.Last, c.Before, c.After, strings.Join(c.Examples, "; ")} {
				cells = append(cells, escape(cell))
			}
			fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
		}
		if more := len(l.Lines) - markdownLines; more > 0 {
			fmt.Fprintf(&b, "\nand %d more lines: see `sallyport simulate -o html`\n", more)
		}
	}
	if len(v.Why) > 0 {
		fmt.Fprintf(&b, "\n#### Not reproducible: %s\n\n", count(r.NotReproducible, "input"))
		for _, x := range v.Why[:min(len(v.Why), markdownLines)] {
			fmt.Fprintf(&b, "- %s: %s\n", escape(x.Why), x.Counts)
		}
	}
	fmt.Fprintln(&b)
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "<sub>%s</sub>\n", note)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// escape makes a text that is shown as it is, and longer by a little. What others would be told of ("@name", "#1") is broken up.
func escape(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '<':
			b.WriteString("&lt;")
		case r == '&':
			b.WriteString("&amp;")
		case r == '@', r == '#':
			fmt.Fprintf(&b, "&#%d;", r)
		case strings.ContainsRune("\\`*_{}[]()|!~$>", r):
			b.WriteByte('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "://", ":&#47;/")
}
