package query

import (
	"slices"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestWithin: who may look into some namespaces reads what their workloads sent, and what came to them by the word of their own proxies.
func TestWithin(t *testing.T) {
	of := func(namespace string) record.Workload {
		return record.Workload{Namespace: namespace, ServiceAccount: "x"}
	}
	records := []record.Record{
		rec(1, nil),
		rec(2, func(r *record.Record) { r.Workload = of("pay") }),
		rec(3, func(r *record.Record) {
			r.Workload, r.Reporter, r.DestinationWorkload = record.Workload{}, record.ReporterDestination, of("bank")
		}),
		rec(4, func(r *record.Record) { r.DestinationWorkload = of("bank") }), // by the word of who sent it
		rec(5, func(r *record.Record) { r.Workload = record.Workload{} }),
	}
	db := filled(t, records...)
	for name, tt := range map[string]struct {
		filter Filter
		want   []uint64
	}{
		"all":                 {Filter{}, []uint64{1, 2, 3, 4, 5}},
		"one":                 {Filter{Within: []string{"pay"}}, []uint64{2}},
		"what came to it":     {Filter{Within: []string{"bank"}}, []uint64{3}},
		"some, for a time":    {Filter{Within: []string{"shop", "bank", "pay", "' OR true --"}, Until: noon.Add(4 * time.Minute)}, []uint64{1, 2, 3}},
		"one, but of another": {Filter{Within: []string{"pay"}, From: Workload{Namespace: "shop"}}, nil},
		"terms do not widen":  {Filter{Within: []string{"pay"}, Terms: []Term{{Key: "namespace", Values: []string{"shop", "*"}}}}, []uint64{2}},
		"nobody's":            {Filter{Within: []string{"gone"}}, nil},
	} {
		var got []uint64
		err := Each(t.Context(), db, tt.filter, func(r record.Record) error {
			got = append(got, r.Seq)
			return nil
		})
		if err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v, %v", name, got, tt.want, err)
		}
		for i := range records {
			if want := slices.Contains(tt.want, records[i].Seq); tt.filter.Match(&records[i]) != want {
				t.Errorf("%s: record %d fits: %v", name, records[i].Seq, !want)
			}
		}
	}
}
