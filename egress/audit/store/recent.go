package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sallyport/sallyport/egress/audit/inputs"
)

// RecentFilter chooses inputs of the records that came in lately.
type RecentFilter struct {
	Since      time.Time // when the records came in, at the earliest
	Namespaces []string  // of those who asked; none for all
	Most       int       // so many inputs: of each namespace in turn, those with the most records first
}

// EachRecent calls f with inputs of the records that came in lately, those of one question one after the other. Unlike EachInput's their
// numbers are of these records only. It reads the records themselves, and is for short times.
func EachRecent(ctx context.Context, db *sql.DB, filter RecentFilter, f func(*inputs.Input) error) error {
	of := chosen{ingestedColumn + " >= ?", "true", []any{filter.Since.UTC()}}
	args := slices.Clone(of.args)
	if n := len(filter.Namespaces); n > 0 {
		of.fits += " AND namespace IN (?" + strings.Repeat(", ?", n-1) + ")"
		for _, ns := range filter.Namespaces {
			args = append(args, ns)
		}
	}
	lately, err := gathered(ctx, db, of)
	if err != nil {
		return fmt.Errorf("audit inputs: %w", err)
	}
	found := selectInputs((&InputsFilter{}).of(lately, nil).statement)
	found = "SELECT * FROM (SELECT * FROM (" + found + ") ORDER BY row_number() OVER (PARTITION BY namespace ORDER BY records DESC), records DESC LIMIT ?)" + byQuestion()
	rows, err := db.QueryContext(ctx, found, append(args, filter.Most)...)
	if err != nil {
		return fmt.Errorf("audit inputs: %w", err)
	}
	defer rows.Close()
	return scanInputs(rows, f)
}
