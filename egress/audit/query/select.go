package query

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// Each calls f with the records that fit the filter, oldest first. An error of f ends it and is returned.
func Each(ctx context.Context, db *sql.DB, filter Filter, f func(record.Record) error) error {
	where, args := filter.Condition()
	query := "SELECT " + store.Columns() + " FROM " + store.Table + " WHERE " + where
	if filter.Limit > 0 {
		query = "SELECT * FROM (" + query + " ORDER BY time DESC, proxy DESC, epoch DESC, seq DESC LIMIT " +
			strconv.Itoa(filter.Limit) + ")"
	}
	rows, err := db.QueryContext(ctx, query+" ORDER BY time, proxy, epoch, seq", args...)
	if err != nil {
		return fmt.Errorf("audit query: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		r, err := store.ScanRecord(rows)
		if err != nil {
			return err
		}
		if err := f(r); err != nil {
			return err
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("audit query: %w", err)
	}
	return nil
}
