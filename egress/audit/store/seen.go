package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// spoolKey names one numbering of one proxy.
type spoolKey struct {
	proxy string
	epoch uint64
}

// seen knows which sequence numbers the store has. The whole set is in memory; each transaction appends the changed
// sets to the table spools, and compact keeps that table short.
type seen struct {
	spools  map[spoolKey]spans
	version uint64 // of the last transaction
}

const latestSpools = `SELECT proxy, epoch, max(version) AS version, arg_max(spans, version) AS spans,
	max(updated) AS updated FROM spools GROUP BY proxy, epoch`

func loadSeen(ctx context.Context, db *sql.DB) (*seen, error) {
	s := &seen{spools: map[spoolKey]spans{}}
	rows, err := db.QueryContext(ctx, "SELECT proxy, epoch, version, spans FROM ("+latestSpools+")")
	if err != nil {
		return nil, fmt.Errorf("audit store: read the table spools: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var key spoolKey
		var version uint64
		var text string
		if err := rows.Scan(&key.proxy, &key.epoch, &version, &text); err != nil {
			return nil, fmt.Errorf("audit store: read the table spools: %w", err)
		}
		if s.spools[key], err = parseSpans(text); err != nil {
			return nil, fmt.Errorf("audit store: table spools, proxy %s, epoch %d: %w", key.proxy, key.epoch, err)
		}
		s.version = max(s.version, version)
	}
	return s, rows.Err()
}

// fresh returns of each batch the records that are new, and the sets as they are with them; it changes nothing. A batch that is new is
// returned as it is.
func (s *seen) fresh(batches ...[]record.Record) (news [][]record.Record, changed map[spoolKey]spans) {
	changed = map[spoolKey]spans{}
	for _, batch := range batches {
		var key spoolKey // of the records before, mostly
		var set spans
		added, whole := []record.Record(nil), true
		for i := range batch {
			r := &batch[i]
			if i == 0 || key.proxy != r.Proxy || key.epoch != r.Epoch {
				key = spoolKey{r.Proxy, r.Epoch}
				known, copied := changed[key]
				if !copied {
					key.proxy = strings.Clone(key.proxy) // it stays; the record's texts shall not
					known = slices.Clone(s.spools[key])
				}
				set = known
			}
			with, isNew := set.add(r.Seq)
			switch {
			case isNew:
				set, changed[key] = with, with
				if !whole {
					added = append(added, *r)
				}
			case whole:
				added, whole = slices.Clone(batch[:i]), false
			}
		}
		if whole {
			added = batch
		}
		if len(added) > 0 {
			news = append(news, added)
		}
	}
	return news, changed
}

// keep makes the changed sets the current ones, after their transaction was committed.
func (s *seen) keep(changed map[spoolKey]spans) {
	for key, set := range changed {
		s.spools[key] = set
	}
	s.version++
}

// append writes the changed sets to the table spools.
func (s *seen) append(to *duck.Writer, changed map[spoolKey]spans, now time.Time) error {
	keys := slices.Collect(maps.Keys(changed))
	return to.Append("spools", len(keys), func(row int, columns []duck.Vector, at int) {
		key := keys[row]
		columns[0].Text(at, key.proxy, schema.Storable)
		columns[1].Number64(at, key.epoch)
		columns[2].Number64(at, s.version+1)
		columns[3].Text(at, changed[key].String(), schema.Storable)
		columns[4].Time(at, now)
	})
}

// compact leaves one row per spool, and none of those that sent nothing since before.
func (s *seen) compact(ctx context.Context, tx *sql.Tx, before time.Time) error {
	for _, statement := range []string{
		"CREATE TEMP TABLE latest AS " + latestSpools,
		"DELETE FROM latest WHERE updated < ?",
		"DELETE FROM spools",
		"INSERT INTO spools SELECT proxy, epoch, version, spans, updated FROM latest",
		"DROP TABLE latest",
	} {
		var args []any
		if statement[len(statement)-1] == '?' {
			args = append(args, before)
		}
		if _, err := tx.ExecContext(ctx, statement, args...); err != nil {
			return fmt.Errorf("audit store: compact the table spools: %w", err)
		}
	}
	return nil
}
