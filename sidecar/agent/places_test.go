package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlacesAreToldOf: from three quarters on Envoy is told more, all at 95 %, and less step by step when they come free.
func TestPlacesAreToldOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scarce")
	p, err := newPlaces(slog.New(slog.DiscardHandler), file)
	if err != nil {
		t.Fatal(err)
	}
	told := func() string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(content))
	}
	if told() != "0" {
		t.Errorf("at the beginning: %s", told())
	}
	for _, step := range []struct {
		percent uint64
		want    string
		soon    bool
	}{
		{0, "0", false}, {49, "0", false}, {50, "0", true}, {75, "0", true}, {76, "0.05", true}, {85, "0.5", true}, {100, "1", true}, {100, "1", true},
		{90, "0.9", true}, {10, "0.8", true}, {10, "0.7", true}, {94, "0.95", true}, {0, "0.85", true},
	} {
		if soon := p.take(t.Context(), step.percent); soon != step.soon || told() != step.want {
			t.Errorf("%d %%: told %s, looks soon %t; want %s, %t", step.percent, told(), soon, step.want, step.soon)
		}
	}
	for range 10 {
		p.take(t.Context(), 0)
	}
	if told() != "0" || p.take(t.Context(), 0) {
		t.Errorf("in the end %s", told())
	}
}

// TestPlacesThatCannotBeTold: what could not be written is tried again.
func TestPlacesThatCannotBeTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := newPlaces(slog.New(slog.DiscardHandler), filepath.Join(dir, "scarce"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	if soon := p.take(t.Context(), 100); !soon || p.scarce != 0 {
		t.Errorf("told %v, soon %t", p.scarce, soon)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if p.take(t.Context(), 100); p.scarce != 1 {
		t.Errorf("told %v", p.scarce)
	}
}
