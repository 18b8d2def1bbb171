package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/duck"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/schema"
)

// batchSizes are those of one agent's batch, and of what a transaction takes of many.
var batchSizes = []uint64{1000, 20_000}

// usual is a record as gateways write them.
func usual(seq uint64) record.Record {
	r := rec(seq)
	r.Workload.Principal = "spiffe://cluster.local/ns/shop/sa/cart"
	r.Cluster, r.Reason = "outbound|443||h.test", "registered by ServiceEntry shop/h"
	return r
}

// BenchmarkStore is what the store takes; BenchmarkBareAppender stands beside it.
func BenchmarkStore(b *testing.B) {
	for _, size := range batchSizes {
		b.Run(fmt.Sprintf("batches of %d", size), func(b *testing.B) {
			s := open(b, b.TempDir(), Options{})
			batch := make([]record.Record, size)
			seq := uint64(1)
			measure(b, size, func() error {
				for i := range batch {
					batch[i] = usual(seq)
					seq++
				}
				return s.Store(context.Background(), batch)
			})
		})
	}
}

// BenchmarkBareAppender puts the same rows into a table of the same columns by the driver's appender, with DuckDB's own settings, and does
// nothing beside.
func BenchmarkBareAppender(b *testing.B) {
	for _, size := range batchSizes {
		b.Run(fmt.Sprintf("batches of %d", size), func(b *testing.B) {
			ctx := context.Background()
			db, err := duck.Open(filepath.Join(b.TempDir(), FileName), url.Values{"memory_limit": {"512MB"}, "threads": {"2"}})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.Exec(createTable(Table, append(wholeRecords(), inputColumn{name: ingestedColumn, kind: "TIMESTAMPTZ"}))); err != nil {
				b.Fatal(err)
			}
			seq, row, now := uint64(1), []driver.Value{}, time.Now().UTC()
			measure(b, size, func() error {
				return transact(ctx, db, func(conn *sql.Conn) error {
					return conn.Raw(func(raw any) error {
						return appendRows(raw, Table, int(size), func(int) []driver.Value {
							r := usual(seq)
							seq++
							row = row[:0]
							for i := range schema.Columns {
								row = append(row, schema.Columns[i].Value(&r))
							}
							row = append(row, now)
							return row
						})
					})
				})
			})
		})
	}
}

// measure runs one batch at a time.
func measure(b *testing.B, size uint64, batch func() error) {
	before, batches := processorTime(b), 0
	for b.Loop() {
		if err := batch(); err != nil {
			b.Fatal(err)
		}
		batches++
	}
	rows := float64(batches) * float64(size)
	b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1e3/rows, "µs-cpu/row")
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
