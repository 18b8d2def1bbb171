package query

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// narrowFrom is how many records a log has before it is asked what a statement reads: planning it once more takes some milliseconds.
var narrowFrom uint64 = 500_000

// narrow has a connection see store.Table, for one statement, as a view that joins only the parts that the statement reads; restore gives it the usual one back. What a
// statement reads DuckDB says itself, by its plan, and where that leaves a doubt, nothing is done. The rows are the same: each names one row of each part.
func narrow(ctx context.Context, conn *sql.Conn, statement string) (restore func() error, err error) {
	restore = func() error { return nil }
	if store.Rows(ctx, conn) < narrowFrom {
		return restore, nil
	}
	unread := unreadParts(planOf(ctx, conn, statement))
	if len(unread) == 0 {
		return restore, nil
	}
	const drop = "DROP VIEW IF EXISTS temp." + store.Table
	restore = func() error {
		_, err := conn.ExecContext(context.WithoutCancel(ctx), drop)
		if err != nil {
			err = fmt.Errorf("audit sql: %w", err)
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // nobody gets it
		}
		return err
	}
	if _, err := conn.ExecContext(ctx, "CREATE OR REPLACE TEMP VIEW "+store.Table+" AS "+store.Without(unread...)); err != nil {
		return restore, fmt.Errorf("audit sql: %w", err)
	}
	return restore, nil
}

// planned is a step of a plan.
type planned struct {
	Name     string         `json:"name"`
	Children []planned      `json:"children"`
	Info     map[string]any `json:"extra_info"`
}

// planOf is how DuckDB would run a statement; nothing where it would not, or says so in other words.
func planOf(ctx context.Context, conn *sql.Conn, statement string) (plan []planned) {
	var kind, text string
	err := conn.QueryRowContext(ctx, "EXPLAIN (FORMAT json) "+statement).Scan(&kind, &text)
	if err == nil {
		err = json.Unmarshal([]byte(text), &plan)
	}
	if err != nil {
		return nil
	}
	return plan
}

// each calls f with a step and all below it.
func (p *planned) each(f func(*planned)) {
	f(p)
	for i := range p.Children {
		p.Children[i].each(f)
	}
}

// unreadParts are the tables of parts that a plan joins and of which it reads nothing, each time that it reads records.
func unreadParts(plan []planned) (out []string) {
	scans, read, nothing := map[string]int{}, map[string]bool{}, 0
	for i := range plan {
		plan[i].each(func(p *planned) {
			if strings.Contains(p.Name, "EMPTY_RESULT") {
				nothing++
			}
			table, is := p.Info["Table"].(string)
			if !is {
				return
			}
			table = table[strings.LastIndexByte(table, '.')+1:]
			scans[table]++
			read[table] = read[table] || !p.onlyNumbers()
		})
	}
	// What DuckDB sees to be empty is not in the plan, and may have read something. It may be whole records only, of which there mostly are none.
	records := scans[store.RowsTable]
	if records == 0 || nothing != records-scans[store.WholeTable] {
		return nil
	}
	return slices.DeleteFunc(store.PartTables(), func(table string) bool { return read[table] || scans[table] != records })
}

// onlyNumbers says whether a scan of a part's table reads its rows' numbers alone.
func (p *planned) onlyNumbers() bool {
	if filters, some := p.Info["Filters"]; some && !strings.HasPrefix(fmt.Sprint(filters), store.PartNumber) {
		return false
	}
	switch columns := p.Info["Projections"].(type) {
	case string:
		return columns == store.PartNumber
	case []any:
		return len(columns) == 1 && columns[0] == store.PartNumber
	}
	return false
}
