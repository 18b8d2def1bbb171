package report

import (
	"bytes"
	"fmt"
	"io"

	"github.com/sallyport/sallyport/egress/simulate"
)

// writeText writes it for a terminal.
func writeText(w io.Writer, r *simulate.Report) error {
	var b bytes.Buffer
	v := ViewOf(r)
	fmt.Fprintln(&b, v.Summary)
	for _, l := range v.Lists {
		fmt.Fprintf(&b, "\n%s: %s\n", l.Title, count(l.Inputs, "input"))
		for _, c := range l.Lines {
			fmt.Fprintf(&b, "  %s → %s: %s, %s – %s\n", c.Workload, c.Target, c.Counts, c.First, c.Last)
			fmt.Fprintf(&b, "    now   %s\n    then  %s\n", c.Before, c.After)
			for _, x := range c.Examples {
				fmt.Fprintf(&b, "    e.g.  %s\n", x)
			}
		}
	}
	if len(v.Why) > 0 {
		fmt.Fprintf(&b, "\nNot reproducible: %s\n", count(r.NotReproducible, "input"))
		for _, x := range v.Why {
			fmt.Fprintf(&b, "  %s: %s, %s\n", x.Why, count(x.Records, "record"), count(x.Inputs, "input"))
			for _, e := range x.Examples {
				fmt.Fprintf(&b, "    e.g.  %s\n", e)
			}
		}
	}
	fmt.Fprintln(&b)
	for _, note := range v.Notes {
		fmt.Fprintln(&b, note)
	}
	_, err := w.Write(b.Bytes())
	return err
}
