package wire

import "testing"

// TestRule: what a rule says is read again, and one that does not end is written as it was before rules said when.
func TestRule(t *testing.T) {
	r := Rule{Verdict: RuleAllows, Policy: "shop/list", Rule: "a rule", Revision: "r", Reason: "50% | [so]", Owner: "team"}
	const plain = "allow|shop/list|a%20rule|r|50%25%20%7C%20%5Bso%5D|team"
	if got := r.String(); got != plain {
		t.Errorf("%s", got)
	}
	if got, is := ParseRule(plain); !is || got != r {
		t.Errorf("%+v", got)
	}
	r.Until = "2026-01-02T03:04:05Z"
	if got := r.String(); got != plain+"|"+r.Until {
		t.Errorf("%s", got)
	}
	if got, is := ParseRule(r.String()); !is || got != r {
		t.Errorf("%+v", got)
	}
	if got, is := ParseRule("deny|shop/list|x"); !is || got.Until != "" || got.Rule != "x" {
		t.Errorf("cut off: %+v", got)
	}
}
