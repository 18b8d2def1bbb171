package store

import (
	"context"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
)

func BenchmarkStore(b *testing.B) {
	for _, size := range []uint64{1000, 20_000} {
		b.Run(map[uint64]string{1000: "batches of 1000", 20_000: "batches of 20000"}[size], func(b *testing.B) {
			s := open(b, b.TempDir(), Options{})
			batch := make([]record.Record, size)
			seq := uint64(1)
			for b.Loop() {
				for i := range batch {
					r := rec(seq)
					r.Workload.Principal = "spiffe://cluster.local/ns/shop/sa/cart"
					r.Cluster, r.Reason = "outbound|443||h.test", "registered by ServiceEntry shop/h"
					batch[i] = r
					seq++
				}
				if err := s.Store(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(seq-1)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
