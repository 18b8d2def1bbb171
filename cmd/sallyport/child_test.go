package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestChildCrashes: a child that breaks, which Go says by the code of a wrong call, is started again; only one whose call is wrong is given up.
func TestChildCrashes(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	script := `echo >> "$0"; [ "$(wc -l < "$0")" -lt 3 ] && exit 2; exit "$SALLYPORT_EXIT_OF_WRONG_CALL"`
	c := &child{name: "it", log: slog.New(slog.NewTextHandler(t.Output(), nil)), file: "/bin/sh", args: []string{"-c", script, starts}, output: t.Output()}
	if err := c.keep(t.Context()); err == nil || !strings.Contains(err.Error(), "it cannot run") {
		t.Error(err)
	}
	if said, err := os.ReadFile(starts); err != nil || bytes.Count(said, []byte("\n")) != 3 {
		t.Errorf("it was started %d times, %v", bytes.Count(said, []byte("\n")), err)
	}
}
