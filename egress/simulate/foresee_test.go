package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/simulate"
)

func TestForesee(t *testing.T) {
	before, after := read(t, base), read(t, base, two, policy("{default: Allow, rules: [{hosts: [one.test], action: Deny}]}"))
	sides := before.sides(after)
	name := input(func(x *inputs.Input) {
		x.Class, x.Protocol, x.Host, x.Port, x.Verdict, x.Path = record.DNS, "dns", "two.test", 0, record.Denied, record.PathBlackhole
	})
	list := []inputs.Input{
		input(nil), input(func(x *inputs.Input) { x.Workload, x.ServiceAccount, x.Count = "till", "till", 1 }), name,
	}
	found, err := simulate.Foresee(t.Context(), sides, list)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"would newly deny 4 connections or requests of 2 workloads then: shop/cart to one.test:80 (3), shop/till to one.test:80 (1)"}
	if got := found.Sentences("then", 200); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := found.Sentences("then", 100); len(got) != 1 || !strings.HasSuffix(got[0], ": shop/cart to one.test:80 (3), …") {
		t.Errorf("with less room: %q", got)
	}
	if got := found.Sentences("then", 10); len(got) != 1 || !strings.HasSuffix(got[0], "of 2 workloads then") {
		t.Errorf("without room: %q", got)
	}
	back, err := simulate.Foresee(t.Context(), after.sides(before), []inputs.Input{input(func(x *inputs.Input) {
		x.Count, x.Verdict, x.DecidedBy = 1, record.Denied, record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "list"}
	})})
	if got := back.Sentences("then", 200); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "would newly allow 1 connection or request of 1 workload then: shop/cart to") {
		t.Errorf("%q, %v", got, err)
	}
	late, end := context.WithCancel(t.Context())
	end()
	if _, err := simulate.Foresee(late, sides, list); !errors.Is(err, context.Canceled) {
		t.Errorf("too late: %v", err)
	}
}
