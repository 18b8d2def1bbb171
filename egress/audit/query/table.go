package query

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// table aligns columns. It holds rows back until Flush, at most tableRows; widths only grow, so that later rows stay
// aligned with earlier ones.
type table struct {
	w      io.Writer
	head   []string
	widths []int
	rows   [][]string
	headed bool
}

const (
	tableRows = 1000
	cellWidth = 80 // longer cells are cut, the last column is not
)

func newTable(w io.Writer) *table { return &table{w: w, head: schema.Heads()} }

func (t *table) Write(r record.Record) error { return t.row(schema.Cells(&r)) }

func (t *table) row(cells []string) error {
	for i := range cells {
		cells[i] = shown(cells[i])
		if i < len(cells)-1 {
			cells[i] = shorten(cells[i], cellWidth)
		}
	}
	if t.rows = append(t.rows, cells); len(t.rows) < tableRows {
		return nil
	}
	return t.Flush()
}

// shown is a cell for a terminal; empty is "-".
func shown(s string) string {
	if s == "" {
		return "-"
	}
	return visible.Text(s)
}

func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}

// Flush prints the rows that were held back.
func (t *table) Flush() error {
	if len(t.rows) == 0 && t.headed {
		return nil
	}
	lines := t.rows
	if !t.headed {
		lines = append([][]string{t.head}, lines...)
		t.headed = true
		t.widths = make([]int, len(t.head))
	}
	for _, line := range lines {
		for i, cell := range line {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			b.WriteString(cell)
			if i < len(line)-1 {
				b.WriteString(strings.Repeat(" ", t.widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	t.rows = t.rows[:0]
	_, err := io.WriteString(t.w, b.String())
	return err
}

// Close prints what is left, and the head of an empty table.
func (t *table) Close() error { return t.Flush() }

// newTailTable has columns of their usual width from the start.
func newTailTable(w io.Writer) *table {
	return &table{w: w, headed: true, rows: [][]string{schema.Heads()}, widths: schema.Widths()}
}
