package detect_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	return detect.Inputs{Feed: feed, Rules: []detect.PolicyRule{}}
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
