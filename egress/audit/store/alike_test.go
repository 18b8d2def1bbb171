package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/record"
)

const sightingsByKind = SightingsTable + ofInputKinds

// TestNumbersAndTextsAddUpAlike: records that are added up by the numbers of their parts give the rows that they give by their texts, pods and reasons among them.
func TestNumbersAndTextsAddUpAlike(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		records := randomRecords(rng, 1, 600)
		for i := range records {
			switch r := &records[i]; rng.IntN(12) {
			case 0:
				r.Reporter = record.ReporterDestination // no sender's word
			case 1:
				r.Claim, r.Cut = "spiffe://cluster.local/ns/shop/sa/other", []string{"urlPath"}
			case 2:
				r.WouldDeny = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "later", Rule: "x"}
			case 3:
				r.Class, r.Verdict, r.Reason, r.DecidedBy = record.DNS, record.Denied, fmt.Sprint("refused ", rng.IntN(3)), record.Object{}
			case 4:
				r.DecidedBy.Revision, r.Status, r.Source = fmt.Sprint(rng.IntN(2)), 200, fmt.Sprint("10.0.0.1:", rng.IntN(50_000))
			}
		}
		whole := rec(numbered) // it has no numbers, so that with it all are added up by their texts
		whole.Host = "whole.test"
		var got [2]map[string][]string
		for i, of := range [][]record.Record{records, append(records[:len(records):len(records)], whole)} {
			s := open(t, t.TempDir(), Options{Now: func() time.Time { return start2027.Add(4 * 24 * time.Hour) }})
			put(t, s, of...)
			gatherNow(t, s)
			got[i] = map[string][]string{}
			for table, columns := range map[string][]inputColumn{allInputs: inputColumns, RollupsTable: rollupColumns, sightingsByKind: append([]inputColumn{{name: sightingColumns}}, sightingNumbers...)} {
				var list string
				err := s.DB().QueryRow("SELECT string_agg(t::VARCHAR, chr(10) ORDER BY t::VARCHAR) FROM (SELECT " + names(columns) + " FROM " + table + " WHERE host <> 'whole.test') t").Scan(&list)
				if err != nil {
					t.Fatal(err)
				}
				got[i][table] = strings.Split(list, "\n")
			}
		}
		if diff := cmp.Diff(got[1], got[0]); diff != "" {
			t.Fatalf("seed %d: by texts, and by numbers: %.3000s", seed, diff)
		}
		if len(got[0][sightingsByKind]) < 20 {
			t.Errorf("only %d sightings", len(got[0][sightingsByKind]))
		}
	}
}
