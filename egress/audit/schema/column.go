package schema

import (
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// Column ties a column of the table to a field of the record.
type Column struct {
	Name  string
	Type  string // DuckDB's
	Since int    // the Version that brought it
	JSON  string // the field's path in a record's JSON
	Doc   string // for people, in Markdown; one line
	// Head is the column's heading in tables for people; "" where those leave it out. Cell is what stands below it, nil for
	// the value itself.
	Head string
	Cell func(*record.Record) string
	// Width is how wide its values usually are, for tables whose lines are printed one by one.
	Width int

	value  func(*record.Record) driver.Value
	text   func(*record.Record) string // of a column of texts: the value before it is made Storable
	number func(*record.Record) uint64 // of a column of numbers
	put    func(r *record.Record, to Vector, at int)
	target func(*record.Record) any
}

// Vector is where values of a column are put, each at a place.
type Vector interface {
	Text(at int, s string, clean func(string) string)
	Number32(at int, n uint32)
	Number64(at int, n uint64)
	Time(at int, t time.Time)
	Null(at int)
}

// Value gives a record's value as DuckDB's appender takes it. Where a column that came later has nothing to say it is NULL, as in
// the records of before it.
func (c *Column) Value(r *record.Record) driver.Value {
	v := c.value(r)
	if c.Since > 1 && v == "" {
		return nil
	}
	return v
}

// Put is Value for many records: it makes nothing.
func (c *Column) Put(r *record.Record, to Vector, at int) { c.put(r, to, at) }

// AppendKey appends to b what tells a record's value from others': texts with their lengths, so that keys of several columns may stand one after the other.
func (c *Column) AppendKey(b []byte, r *record.Record) []byte {
	if c.text != nil {
		return AppendText(b, c.text(r))
	}
	return binary.AppendUvarint(b, c.number(r))
}

// AppendText is AppendKey for a text.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Target is where a value of Select is scanned to.
func (c *Column) Target(r *record.Record) any { return c.target(r) }

// Select is the column in a SELECT whose rows Target reads. In records of before the column there is NULL.
func (c *Column) Select() string {
	if c.Since == 1 && c.Type != text {
		return c.Name
	}
	zero := "0"
	if c.Type == text {
		zero = "''"
	}
	return "coalesce(" + c.Name + ", " + zero + ") AS " + c.Name
}

// shown gives a column a heading in tables.
func (c Column) shown(head string, width int, cell func(*record.Record) string) Column {
	c.Head, c.Width, c.Cell = head, width, cell
	return c
}

// since says which version brought a column that was not in the first.
func (c Column) since(version int) Column {
	c.Since = version
	if of := c.text; of != nil {
		c.put = func(r *record.Record, to Vector, at int) {
			if s := of(r); s != "" {
				to.Text(at, s, Storable)
			} else {
				to.Null(at)
			}
		}
	}
	return c
}

// The types in use.
const (
	text     = "VARCHAR"
	number32 = "UINTEGER"
	number64 = "UBIGINT"
	signed64 = "BIGINT"
	instant  = "TIMESTAMPTZ"
)

// ofText is a column of a text, or of what is one underneath.
func ofText[T ~string](name, json, doc string, field func(*record.Record) *T) Column {
	return Column{
		Name: name, Type: text, Since: 1, JSON: json, Doc: doc,
		value:  func(r *record.Record) driver.Value { return Storable(string(*field(r))) },
		text:   func(r *record.Record) string { return string(*field(r)) },
		put:    func(r *record.Record, to Vector, at int) { to.Text(at, string(*field(r)), Storable) },
		target: func(r *record.Record) any { return field(r) },
	}
}

func ofNumber[T uint32 | uint64](name, json, doc string, field func(*record.Record) *T) Column {
	c := Column{
		Name: name, Type: number64, Since: 1, JSON: json, Doc: doc,
		value:  func(r *record.Record) driver.Value { return *field(r) },
		number: func(r *record.Record) uint64 { return uint64(*field(r)) },
		put:    func(r *record.Record, to Vector, at int) { to.Number64(at, uint64(*field(r))) },
		target: func(r *record.Record) any { return field(r) },
	}
	if _, small := any(T(0)).(uint32); small {
		c.Type = number32
		c.put = func(r *record.Record, to Vector, at int) { to.Number32(at, uint32(*field(r))) }
	}
	return c
}

func ofDuration(name, json, doc string, field func(*record.Record) *time.Duration) Column {
	return Column{
		Name: name, Type: signed64, Since: 1, JSON: json, Doc: doc,
		value:  func(r *record.Record) driver.Value { return int64(*field(r)) },
		number: func(r *record.Record) uint64 { return uint64(*field(r)) },
		put:    func(r *record.Record, to Vector, at int) { to.Number64(at, uint64(*field(r))) },
		target: func(r *record.Record) any { return (*int64)(field(r)) },
	}
}

func ofTime(name, json, doc string, field func(*record.Record) *time.Time) Column {
	return Column{
		Name: name, Type: instant, Since: 1, JSON: json, Doc: doc,
		value:  func(r *record.Record) driver.Value { return field(r).UTC() },
		number: func(r *record.Record) uint64 { return uint64(field(r).UnixMicro()) },
		put:    func(r *record.Record, to Vector, at int) { to.Time(at, *field(r)) },
		target: func(r *record.Record) any { return (*utc)(field(r)) },
	}
}

// ofList is a column of short texts without commas, which are in one text.
func ofList(name, json, doc string, field func(*record.Record) *[]string) Column {
	return Column{
		Name: name, Type: text, Since: 1, JSON: json, Doc: doc,
		value:  func(r *record.Record) driver.Value { return Storable(strings.Join(*field(r), ",")) },
		text:   func(r *record.Record) string { return strings.Join(*field(r), ",") },
		put:    func(r *record.Record, to Vector, at int) { to.Text(at, strings.Join(*field(r), ","), Storable) },
		target: func(r *record.Record) any { return (*list)(field(r)) },
	}
}

// Storable makes a text of what others wrote: DuckDB takes valid UTF-8 only, and its driver ends a text at a NUL.
func Storable(s string) string {
	if utf8.ValidString(s) && strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// utc and list read what a field of the record is made of.
type (
	utc  time.Time
	list []string
)

var _, _ sql.Scanner = (*utc)(nil), (*list)(nil)

// Scan implements sql.Scanner.
func (u *utc) Scan(v any) error {
	t, ok := v.(time.Time)
	if !ok {
		return fmt.Errorf("%T is no time", v)
	}
	*u = utc(t.UTC())
	return nil
}

// Scan implements sql.Scanner.
func (l *list) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("%T is no text", v)
	}
	if *l = nil; s != "" {
		*l = strings.Split(s, ",")
	}
	return nil
}
