package envoy

import (
	"strings"
	"testing"
)

// TestOneTextIsInEachKind: a row that answers all questions finds them by what their kinds have in common.
func TestOneTextIsInEachKind(t *testing.T) {
	for _, kind := range []string{KindTLS, KindTCP, KindHTTP} {
		if !strings.Contains(kind, inAnyKind) {
			t.Errorf("questions about %q are not found by %q", kind, inAnyKind)
		}
	}
	if said := MatchQuestion("").FilterState[0].GetStringMatch().GetContains(); said != inAnyKind {
		t.Errorf("all questions are matched by %q, want %q", said, inAnyKind)
	}
}
