package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestKeepRecords: the flag counts where it is given, and the mesh settings where it is not.
func TestKeepRecords(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mesh.yaml")
	for _, c := range []struct {
		name, settings string
		args           []string
		want           time.Duration
	}{
		{"neither", "", nil, time.Hour},
		{"settings", "sallyport: {audit: {retention: 720h}}", nil, 720 * time.Hour},
		{"for ever", "sallyport: {audit: {retention: 0h}}", nil, 0},
		{"both", "sallyport: {audit: {retention: 720h}}", []string{"--audit-retention=2h"}, 2 * time.Hour},
		{"silent settings", "trustDomain: a.com", nil, time.Hour},
	} {
		if err := os.WriteFile(file, []byte(c.settings), 0o600); err != nil {
			t.Fatal(err)
		}
		var given time.Duration
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.DurationVar(&given, "audit-retention", time.Hour, "")
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		if got, err := keepRecords(flags, "audit-retention", given, file); err != nil || got != c.want {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
}
