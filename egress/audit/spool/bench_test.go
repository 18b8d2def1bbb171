package spool

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/record"
)

func BenchmarkAppend(b *testing.B) {
	for _, many := range []int{1, 26} { // 26 is what a message of Envoy's has
		b.Run(fmt.Sprint(many, " at once"), func(b *testing.B) { benchmarkAppend(b, many) })
	}
}

func benchmarkAppend(b *testing.B, many int) {
	s := open(b, b.TempDir(), Limits{})
	r := rec(1)
	r.Workload.Principal = "spiffe://cluster.local/ns/shop/sa/cart"
	r.Cluster, r.Route, r.Reason = "outbound|443||h1.example.com", "h1.example.com:443", "registered by ServiceEntry shop/h1"
	b.ReportAllocs()
	records := slices.Repeat([]record.Record{r}, many)
	for b.Loop() {
		if err := s.Append(records...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*many), "ns/record")
}
