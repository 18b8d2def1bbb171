package spool

import "testing"

func BenchmarkAppend(b *testing.B) {
	s := open(b, b.TempDir(), Limits{})
	r := rec(1)
	r.Workload.Principal = "spiffe://cluster.local/ns/shop/sa/cart"
	r.Cluster, r.Route, r.Reason = "outbound|443||h1.example.com", "h1.example.com:443", "registered by ServiceEntry shop/h1"
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Append(r); err != nil {
			b.Fatal(err)
		}
	}
}
