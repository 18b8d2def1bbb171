package query

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func TestInputs(t *testing.T) {
	records := sample()
	db := filled(t, records...)
	for name, filter := range map[string]Filter{
		"all": {}, "a verdict": {Verdict: record.Denied}, "a glob": {Host: "*.EVIL.test"}, "a workload": {From: Workload{"shop", "car*"}}, "an account": {From: Workload{"pay", "cart"}},
		"a namespace": {From: Workload{Namespace: "p*"}}, "since": {Since: noon.Add(3 * time.Minute)}, "until": {Until: noon.Add(3 * time.Minute)},
	} {
		var got, want []string
		if err := Inputs(t.Context(), db, filter, func(x *inputs.Input) error { got = append(got, x.Host); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range records {
			if filter.Match(&records[i]) {
				want = append(want, records[i].Host)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(got, want) { // each record is of a host of its own
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for _, filter := range []Filter{{Limit: 3}, {WouldDeny: true}, {Rule: Rule{Policy: "list"}}} {
		if err := Inputs(context.Background(), db, filter, nil); err == nil || !strings.Contains(err.Error(), "choose records") {
			t.Errorf("%+v: %v", filter, err)
		}
	}
}
