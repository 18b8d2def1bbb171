package query

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sallyport/sallyport/config/visible"
	"github.com/sallyport/sallyport/egress/audit/ocsf"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// Writer presents records. Flush shows what was written so far, Close ends the output.
type Writer interface {
	Write(record.Record) error
	Flush() error
	Close() error
}

// End ends an output: whole, or where something is wrong as it is, so that half of it does not pass for all.
func End(w Writer, err error) error {
	if err != nil {
		return errors.Join(err, w.Flush())
	}
	return w.Close()
}

// Formats are the names that NewWriter knows.
var Formats = []string{"table", "json", "csv", "ocsf", "jsonl"}

// NewWriter makes a Writer for a format: table; json (one array); csv (the columns of the table records); ocsf and
// jsonl (one event or record per line).
func NewWriter(format string, w io.Writer) (Writer, error) {
	switch format {
	case "table":
		return newTable(w), nil
	case "json":
		return &jsonArray{w: w}, nil
	case "csv":
		return newCSV(w), nil
	case "ocsf":
		return &jsonLines{enc: visible.Encoder(w), of: func(r record.Record) any { return ocsf.FromRecord(r) }}, nil
	case "jsonl":
		return &jsonLines{enc: visible.Encoder(w), of: func(r record.Record) any { return r }}, nil
	}
	return nil, fmt.Errorf("output format %q: it is one of %s", format, strings.Join(Formats, ", "))
}

// NewTailWriter is NewWriter for records that come one by one and have no end.
func NewTailWriter(format string, w io.Writer) (Writer, error) {
	switch format {
	case "table":
		return newTailTable(w), nil
	case "json":
		format = "jsonl" // an array would never be closed
	}
	return NewWriter(format, w)
}

type jsonLines struct {
	enc *json.Encoder
	of  func(record.Record) any
}

func (j *jsonLines) Write(r record.Record) error { return j.enc.Encode(j.of(r)) }
func (j *jsonLines) Flush() error                { return nil }
func (j *jsonLines) Close() error                { return nil }

// jsonArray writes "[]", or a record a line between brackets.
type jsonArray struct {
	w       io.Writer
	started bool
}

func (j *jsonArray) Write(r record.Record) error { return j.item(r) }
func (j *jsonArray) Flush() error                { return nil }

func (j *jsonArray) item(v any) error {
	lead := ",\n"
	if !j.started {
		j.started, lead = true, "[\n"
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = io.WriteString(visible.JSON(j.w), lead+string(b))
	return err
}

func (j *jsonArray) Close() error {
	end := "\n]\n"
	if !j.started {
		end = "[]\n"
	}
	_, err := io.WriteString(j.w, end)
	return err
}

type csvWriter struct {
	w      *csv.Writer
	headed bool
}

func newCSV(w io.Writer) *csvWriter { return &csvWriter{w: csv.NewWriter(w)} }

func (c *csvWriter) head() error {
	if c.headed {
		return nil
	}
	c.headed = true
	return c.w.Write(schema.Names())
}

func (c *csvWriter) Write(r record.Record) error {
	if err := c.head(); err != nil {
		return err
	}
	cells := make([]any, len(schema.Columns))
	for i := range schema.Columns {
		cells[i] = cell(schema.Columns[i].Value(&r))
	}
	return c.w.Write(csvCells(cells))
}

func (c *csvWriter) Flush() error {
	c.w.Flush()
	return c.w.Error()
}

func (c *csvWriter) Close() error {
	if err := c.head(); err != nil {
		return err
	}
	return c.Flush()
}

// isFormula says whether a spreadsheet may take a text for a formula: also by a sign of East Asian width, or behind a line's end.
func isFormula(text string) bool {
	return text != "" && strings.IndexAny(text, "=+-@\t\r\n＝＋－＠") == 0
}

// csvCells writes cells as text. A text that a spreadsheet would take for a formula gets an apostrophe in front: host
// names and paths are what an attacker chose.
func csvCells(cells []any) []string {
	out := make([]string, len(cells))
	for i, c := range cells {
		out[i] = plain(c)
		if _, text := c.(string); text && isFormula(out[i]) {
			out[i] = "'" + out[i]
		}
	}
	return out
}

// plain writes a cell for people: text as it is, nothing for NULL, lists and structures as JSON.
func plain(c any) string {
	switch c := c.(type) {
	case nil:
		return ""
	case string:
		return c
	case []any, map[string]any:
		b, err := json.Marshal(c)
		if err != nil {
			return fmt.Sprint(c)
		}
		return string(b)
	}
	return fmt.Sprint(c)
}
