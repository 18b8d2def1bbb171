package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
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

// fresh returns the records that are new, and the sets as they are with them; it changes nothing.
func (s *seen) fresh(batches ...[]record.Record) (news []record.Record, changed map[spoolKey]spans) {
	changed = map[spoolKey]spans{}
	total := 0
	for _, batch := range batches {
		total += len(batch)
	}
	news = make([]record.Record, 0, total)
	for _, batch := range batches {
		for i := range batch {
			r := &batch[i]
			key := spoolKey{r.Proxy, r.Epoch}
			set, copied := changed[key]
			if !copied {
				key.proxy = strings.Clone(key.proxy) // it stays; the record's texts shall not
				set = slices.Clone(s.spools[key])
			}
			set, isNew := set.add(r.Seq)
			if isNew || copied {
				changed[key] = set
			}
			if isNew {
				news = append(news, *r)
			}
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

// rows gives the rows for the table spools.
func (s *seen) rows(changed map[spoolKey]spans, now time.Time) (out [][]driver.Value) {
	for key, set := range changed {
		out = append(out, []driver.Value{key.proxy, key.epoch, s.version + 1, set.String(), now})
	}
	return out
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
