package query

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
)

// RowWriter presents the result of a statement. Close ends the output.
type RowWriter interface {
	RowSink
	Close() error
}

// NewRowWriter makes a RowWriter for a format: table, json (an array of objects), csv.
func NewRowWriter(format string, w io.Writer) (RowWriter, error) {
	switch format {
	case "table":
		return &tableRowWriter{w: w}, nil
	case "json":
		return &jsonRows{out: jsonArray{w: w}}, nil
	case "csv":
		return &csvRows{csv.NewWriter(w)}, nil
	}
	return nil, fmt.Errorf("output format %q: for SQL it is table, json or csv", format)
}

type tableRowWriter struct {
	w io.Writer
	t *table
}

func (r *tableRowWriter) Columns(names []string) error {
	r.t = &table{w: r.w, head: names}
	return nil
}

func (r *tableRowWriter) Row(cells []any) error {
	line := make([]string, len(cells))
	for i, c := range cells {
		line[i] = plain(c)
	}
	return r.t.row(line)
}

func (r *tableRowWriter) Close() error {
	if r.t == nil {
		return nil
	}
	return r.t.Close()
}

type jsonRows struct {
	names [][]byte
	out   jsonArray
}

func (r *jsonRows) Columns(names []string) error {
	for _, name := range names {
		b, err := json.Marshal(name)
		if err != nil {
			return err
		}
		r.names = append(r.names, b)
	}
	return nil
}

// Row keeps the order of the columns, which a map would not.
func (r *jsonRows) Row(cells []any) error {
	var b bytes.Buffer
	for i, c := range cells {
		value, err := json.Marshal(c)
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(r.names[i])
		b.WriteByte(':')
		b.Write(value)
	}
	return r.out.item(json.RawMessage("{" + b.String() + "}"))
}

func (r *jsonRows) Close() error { return r.out.Close() }

type csvRows struct{ w *csv.Writer }

func (r *csvRows) Columns(names []string) error { return r.w.Write(names) }
func (r *csvRows) Row(cells []any) error        { return r.w.Write(csvCells(cells)) }
func (r *csvRows) Close() error {
	r.w.Flush()
	return r.w.Error()
}
