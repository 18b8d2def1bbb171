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

// seen knows which sequence numbers the store has, of the spools that it remembers. All of them are in memory; each transaction appends the changed
// ones to the table spools, and compact keeps that table short.
type seen struct {
	remembered
	version uint64 // of the last transaction
	written int    // how many spans were appended to the table since it was compact
}

// longestTable is how many spans are appended to the table spools, beside some times those that are remembered, until it is made compact: some 40 MB.
const longestTable = 1 << 20

// latestSpools are the last rows of the spools, in the order of their transactions. A table that an earlier version wrote may have more of them than there is memory for,
// which is why their spans are read of those alone that may be remembered.
var latestSpools = fmt.Sprintf(`WITH
	latest AS (SELECT proxy, epoch, max(version) AS version FROM spools GROUP BY proxy, epoch),
	newest AS (SELECT * FROM latest QUALIFY row_number() OVER (PARTITION BY proxy ORDER BY version DESC, epoch DESC) <= %d),
	few AS (SELECT * FROM newest QUALIFY row_number() OVER (
		PARTITION BY regexp_extract(split_part(proxy, '~', 3), '[^.]*$') ORDER BY version DESC, proxy DESC, epoch DESC) <= %d)
	SELECT proxy, epoch, version, spans, updated FROM spools SEMI JOIN few USING (proxy, epoch, version) ORDER BY version, proxy, epoch`, maxEpochs, maxSpansOfNamespace)

func loadSeen(ctx context.Context, db *sql.DB) (*seen, error) {
	s := &seen{remembered: newRemembered()}
	rows, err := db.QueryContext(ctx, latestSpools)
	if err != nil {
		return nil, fmt.Errorf("audit store: read the table spools: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var one spool
		var text string
		if err := rows.Scan(&one.proxy, &one.epoch, &one.version, &text, &one.updated); err != nil {
			return nil, fmt.Errorf("audit store: read the table spools: %w", err)
		}
		if one.spans, err = parseSpans(text); err != nil {
			return nil, fmt.Errorf("audit store: table spools, proxy %s, epoch %d: %w", one.proxy, one.epoch, err)
		}
		s.remember(&one)
		s.version = max(s.version, one.version)
	}
	return s, rows.Err()
}

// fresh returns of each batch the records that are new, and the spools as they are with them, as they are to be remembered; it changes nothing. A batch that is new is
// returned as it is.
func (s *seen) fresh(now time.Time, batches ...[]record.Record) (news [][]record.Record, spools []*spool) {
	changed := map[spoolKey]spans{}
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
					known = slices.Clone(s.known(key))
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
	return news, s.lasting(changed, now)
}

// lasting are the spools that a transaction changes, but for those of a proxy that the next ones would have forgotten at once.
func (s *seen) lasting(changed map[spoolKey]spans, now time.Time) []*spool {
	keys := slices.SortedFunc(maps.Keys(changed), spoolKey.compare)
	out := make([]*spool, 0, len(keys))
	for i, key := range keys {
		if next := i + maxEpochs; next < len(keys) && keys[next].proxy == key.proxy {
			continue
		}
		out = append(out, &spool{key, changed[key], s.version + 1, now})
	}
	return out
}

// keep makes the changed spools the current ones, after their transaction was committed.
func (s *seen) keep(changed []*spool) {
	for _, one := range changed {
		s.remember(one)
		s.written += len(one.spans)
	}
	s.version++
}

// appendSpools writes spools to the table spools.
func appendSpools(to *duck.Writer, spools []*spool) error {
	return to.Append("spools", len(spools), func(row int, columns []duck.Vector, at int) {
		one := spools[row]
		columns[0].Text(at, one.proxy, schema.Storable)
		columns[1].Number64(at, one.epoch)
		columns[2].Number64(at, one.version)
		columns[3].Text(at, one.spans.String(), schema.Storable)
		columns[4].Time(at, one.updated)
	})
}

// long says whether the table has become so long that it should be made compact.
func (s *seen) long() bool {
	if s.written <= longestTable {
		return false
	}
	remembered := 0
	for _, of := range s.namespaces {
		remembered += of.spans
	}
	return s.written > 4*remembered
}

// compact leaves one row of each spool that is remembered, and forgets those that sent nothing since before.
func (s *seen) compact(to *duck.Writer, before time.Time) error {
	s.written = 0 // also where it fails: it is not tried each time
	s.forgetSilent(before)
	return to.Transact(func() error {
		if err := to.Execute("DELETE FROM spools"); err != nil {
			return err
		}
		return appendSpools(to, s.all())
	})
}
