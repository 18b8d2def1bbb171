package seen_test

import (
	"context"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/egress/audit/bench/corpus"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/seen"
)

// BenchmarkRead is what suggest reads, of 300,000 records of a day, and what the Review page reads of the same ones.
func BenchmarkRead(b *testing.B) {
	const records, batch = 300_000, 10_000
	now := time.Date(2027, 5, 2, 0, 0, 0, 0, time.UTC)
	s, err := store.Open(b.Context(), b.TempDir(), store.Options{Now: func() time.Time { return now }})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	source := corpus.New(7)
	made := make([]record.Record, batch)
	for at := 0; at < records; at += batch {
		for i := range made {
			made[i] = source.Record(now.Add(-24 * time.Hour * time.Duration(records-at-i) / records))
			made[i].Proxy, made[i].Epoch, made[i].Seq = "router~10.0.0.1~gateway-0.istio-system~istio-system.svc.cluster.local", 1, uint64(at+i+1)
		}
		if err := s.Store(b.Context(), made); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Gather(b.Context()); err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func(context.Context, seen.Source, seen.Question) (*seen.Log, error){"all": seen.Read, "what-waits": seen.Sighted} {
		b.Run(name, func(b *testing.B) {
			began, rounds := processorTime(b), 0
			for b.Loop() {
				log, err := read(b.Context(), stored{s.DB()}, seen.Question{Since: now.Add(-30 * 24 * time.Hour), Until: now})
				if err != nil || len(log.Flows) < 1000 {
					b.Fatal(len(log.Flows), err)
				}
				rounds++
			}
			b.ReportMetric(float64((processorTime(b)-began).Milliseconds())/float64(rounds), "ms-cpu/op")
		})
	}
}

func processorTime(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
