package table

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Text writes it for a terminal.
func (t Table) Text(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{t.Heads}, t.Rows...) {
		if _, err := fmt.Fprintln(out, strings.Join(row, "\t")); err != nil {
			return err
		}
	}
	return out.Flush()
}

// CSV writes it as RFC 4180 has it. What a spreadsheet would take for a formula is text.
func (t Table) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	for _, row := range append([][]string{t.Heads}, t.Rows...) {
		safe := make([]string, len(row))
		for i, s := range row {
			if safe[i] = s; strings.IndexAny(s, "=+-@\t\r\n＝＋－＠") == 0 {
				safe[i] = "'" + s
			}
		}
		if err := out.Write(safe); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}
