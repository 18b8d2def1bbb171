package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// BenchmarkGather is what it costs to gather the records that BenchmarkStore stores, each of which is of a host of its own, and some as
// there usually are: of 1,000 hosts and 50 pods.
func BenchmarkGather(b *testing.B) {
	for name, change := range map[string]func(*record.Record){
		"each its own": func(*record.Record) {},
		"usual": func(r *record.Record) {
			r.Host, r.URLPath = fmt.Sprintf("h%d.test", r.Seq%1000), fmt.Sprintf("/v1/things/%d", r.Seq%20)
			r.Workload.Namespace, r.Workload.ServiceAccount = "shop", "cart"
			r.Workload.Name = fmt.Sprintf("cart-6d5f7c9b4-x2x7%c", "bcdfghjklm"[r.Seq%10])
		},
	} {
		b.Run(name, func(b *testing.B) {
			const n = gatherEvery - 1
			s := open(b, b.TempDir(), Options{})
			batch := make([]record.Record, n)
			for i := range batch {
				batch[i] = usual(uint64(i + 1))
				change(&batch[i])
			}
			put(b, s, batch...)
			before, rounds := processorTime(b), 0
			for b.Loop() {
				if _, err := s.DB().Exec("DELETE FROM " + InputsTable + "; DELETE FROM " + InputKinds + "; UPDATE " + inputsState + " SET until = '-infinity'"); err != nil {
					b.Fatal(err)
				}
				if err := s.Gather(context.Background()); err != nil {
					b.Fatal(err)
				}
				rounds++
			}
			rows := float64(rounds) * n
			b.ReportMetric(rows/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1e3/rows, "µs-cpu/row")
		})
	}
}
