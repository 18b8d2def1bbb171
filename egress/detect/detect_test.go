package detect_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/presence"
	"github.com/sallyport/sallyport/egress/detect"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

func run(tb testing.TB, log detect.Log, rules []*detect.Rule, o detect.Options) *detect.Report {
	tb.Helper()
	report, err := detect.Run(tb.Context(), log, rules, window(), o)
	if err != nil {
		tb.Fatal(err)
	}
	for _, failed := range report.Failed {
		tb.Errorf("%s (%s): %s", failed.Rule, failed.File, failed.Why)
	}
	return report
}

// found is what a report found, as the corpus says what is to be found.
func found(r *detect.Report) what {
	out := what{}
	for _, f := range r.Findings {
		out.add(f.Detection, f.Workload, f.Host)
	}
	return out
}

func inputs(t *testing.T) detect.Inputs {
	t.Helper()
	feed, err := detect.ReadFeed(strings.NewReader("# bad ones\nbad.test # all below it\n"))
	if err != nil {
		t.Fatal(err)
	}
	since := end.Add(-10 * day)
	return detect.Inputs{Feed: feed, Rules: []detect.PolicyRule{}, Proxies: []presence.Proxy{
		{ID: "router~10.0.0.9~egress-1.istio-system~istio-system.svc.cluster.local", Since: since},
		{ID: "sidecar~10.0.1.4~talks-6f7d8b9c5d-x2x4z.shop~shop.svc", Since: since},
		{ID: "sidecar~10.0.1.5~talks-6f7d8b9c5d-mkmkm.shop~shop.svc", Since: since},                      // never reported
		{ID: "sidecar~10.0.1.6~talks-6f7d8b9c5d-nnnnn.shop~shop.svc", Since: end.Add(-10 * time.Minute)}, // began just now
		{ID: "sidecar~10.0.1.7~talks-6f7d8b9c5d-bbbbb.bank~bank.svc", Since: since},                      // another namespace's, which rests
		{ID: "router~10.0.1.8~talks-6f7d8b9c5d-ccccc.shop~shop.svc", Since: since},                       // a gateway of the same name
		{ID: "sidecar~10.0.1.9~db-0.shop~shop.svc", Since: since},                                        // others reach it
	}}
}

// TestCorpus: each bad thing is found, once, by the rules that are for it, and nothing else is.
func TestCorpus(t *testing.T) {
	for seed := range uint64(max(1, registrytest.Times(4))) {
		c := newCorpus(seed)
		c.clean(1)
		clean := run(t, c.stored(t), detect.BuiltIn(), detect.Options{Inputs: inputs(t)})
		for _, f := range clean.Findings {
			t.Errorf("seed %d: on clean traffic: %+v", seed, f)
		}
		c = newCorpus(seed)
		c.clean(1)
		want := c.bad()
		got := found(run(t, c.stored(t), detect.BuiltIn(), detect.Options{Inputs: inputs(t)}))
		for _, m := range []what{want, got} {
			for rule := range maps.Keys(m) {
				slices.Sort(m[rule])
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("seed %d: -want +got\n%s", seed, diff)
		}
	}
}
