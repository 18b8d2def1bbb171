package envoylog

import (
	"strings"
	"testing"
)

// TestRevision: Envoy writes the row's and then the cluster's, and "-" for what is not there.
func TestRevision(t *testing.T) {
	row, cluster := strings.Repeat("a", 32), strings.Repeat("b", 32)
	for text, want := range map[string]string{
		"": "", "-": "", "--": "", row + "-": row, "-" + cluster: cluster, row + cluster: row, row: row, "a": "", "-" + row[:31]: "",
	} {
		if got := revision(text); got != want {
			t.Errorf("%q is the revision %q, want %q", text, got, want)
		}
	}
}
