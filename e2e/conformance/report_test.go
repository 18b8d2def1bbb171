package conformance

import (
	"os"
	"path/filepath"
	"testing"
)

// The report that is kept is written as it would be again: sorted, and with nothing of it lost.
func TestReportIsSorted(t *testing.T) {
	kept, err := os.ReadFile(filepath.Join("..", "..", "docs", "conformance", "v1.6.3-report.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(t.TempDir(), "report.yaml")
	if err := os.WriteFile(again, kept, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := sortProfiles(again); err != nil {
		t.Fatal(err)
	}
	sorted, err := os.ReadFile(again)
	if err != nil {
		t.Fatal(err)
	}
	if string(sorted) != string(kept) {
		t.Error("docs/conformance/v1.6.3-report.yaml is not as sortProfiles writes it")
	}
}
