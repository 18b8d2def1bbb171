package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// dictionary numbers what a part of records was met with, for the writer's goroutine. Which numbers there are is in memory, of what was met since the
// store was opened and since the day began: what comes again after that gets another number, with a row of its own. So a number is used on one
// day only, by when its records came in, and goes when those of the day are gone (forgetParts).
type dictionary struct {
	part   *part
	layout layout
	next   uint64

	ids   map[string]uint64
	bytes int            // of what ids has
	used  map[string]int // of these, by the namespace of whom each was met with first
	day   time.Time

	key   []byte       // of the record that was asked about last
	last  uint64       // its number
	given bool         // when it was asked about
	spare []byte       // for the next one's
	added []definition // by the transaction that is under way
}

// definition is a row of a part's table.
type definition struct {
	id        uint64
	key       string
	namespace string
	of        *record.Record
}

// What is remembered of a part in a day: some 50,000 workloads, or hosts. Every question joins the tables of parts, so that nobody may make them long: when
// there is that much, records are stored whole whose parts are new.
const (
	maxKeys = 16 << 20 // bytes
	perKey  = 64       // beside its text
	// Half of it is for whoever comes first; of the other half a namespace has its share (some 1,000 workloads, or hosts), so that none uses up what the others need.
	share = maxKeys / 64
)

func loadDictionaries(ctx context.Context, db *sql.DB) ([]*dictionary, error) {
	var out []*dictionary
	for i := range parts {
		d := &dictionary{part: &parts[i], ids: map[string]uint64{}, used: map[string]int{}}
		var err error
		if d.layout, err = layoutOf(ctx, db, d.part.table); err != nil {
			return nil, err
		}
		if err := db.QueryRowContext(ctx, "SELECT coalesce(max(id), 0) FROM "+d.part.table).Scan(&d.next); err != nil {
			return nil, fmt.Errorf("audit store: read the table %s: %w", d.part.table, err)
		}
		out = append(out, d)
	}
	return out, nil
}

// begin is called before the records of a transaction are numbered, which come in at a moment.
func (d *dictionary) begin(now time.Time) {
	if day := now.UTC().Truncate(24 * time.Hour); !day.Equal(d.day) {
		d.day, d.bytes, d.used, d.ids, d.last = day, 0, map[string]int{}, map[string]uint64{}, 0
	}
}

// number is that of a record's part, which must not change until end; some is false where it is new and there are too many.
func (d *dictionary) number(r *record.Record) (id uint64, some bool) {
	d.given = false
	key := d.part.appendKey(d.spare[:0], r)
	if d.last != 0 && string(key) == string(d.key) {
		d.spare = key
		return d.last, true
	}
	id, known := d.ids[string(key)]
	if !known {
		if d.bytes > maxKeys || d.bytes > maxKeys/2 && d.used[r.Workload.Namespace] > share {
			d.spare = key
			return 0, false
		}
		id = d.give(string(key), r)
	}
	d.spare, d.key, d.last = d.key, key, id
	return id, true
}

// give gives a record's part a number.
func (d *dictionary) give(key string, r *record.Record) uint64 {
	d.next++
	new := definition{d.next, key, strings.Clone(r.Workload.Namespace), r} // what stays is no text of a record's
	d.ids[key], d.given = new.id, true
	d.bytes += len(key) + perKey
	d.used[new.namespace] += len(key) + perKey
	d.added = append(d.added, new)
	return new.id
}

// takeBack takes back the number that was asked for last, if it was given then.
func (d *dictionary) takeBack() {
	if !d.given {
		return
	}
	last := len(d.added) - 1
	d.forget(&d.added[last])
	d.added[last] = definition{}
	d.added, d.given = d.added[:last], false
}

// forget forgets a number that no row has.
func (d *dictionary) forget(of *definition) {
	delete(d.ids, of.key)
	d.bytes -= len(of.key) + perKey
	d.used[of.namespace] -= len(of.key) + perKey
	d.last = 0
}

// append writes what is new.
func (d *dictionary) append(to *duck.Writer, now time.Time) error {
	if len(d.added) == 0 {
		return nil
	}
	return to.Append(d.part.table, len(d.added), func(i int, columns []duck.Vector, at int) {
		new := &d.added[i]
		row := row{Record: new.of, ingested: now, id: new.id}
		d.layout.put(&row, columns, at)
	})
}

// end is called after the transaction, whether it was committed or not.
func (d *dictionary) end(committed bool) {
	if !committed {
		for i := range d.added {
			d.forget(&d.added[i])
		}
	}
	clear(d.added)
	d.added = d.added[:0]
}

// forgetParts drops what none of some rows names any more: of the days before the first one on which any of them came in. called is what a part's table is called.
func forgetParts(ctx context.Context, conn *sql.Conn, rows string, called func(table string) string) error {
	var first sql.NullTime
	if err := conn.QueryRowContext(ctx, "SELECT min("+ingestedColumn+") FROM "+rows).Scan(&first); err != nil || !first.Valid {
		return err
	}
	day := first.Time.UTC().Truncate(24 * time.Hour)
	for _, p := range parts {
		if _, err := conn.ExecContext(ctx, "DELETE FROM "+called(p.table)+" WHERE since < ?", day); err != nil { //nolint:gosec // G202: names of tables are ours
			return err
		}
	}
	return nil
}
