package pacedlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: a flood of long lines is a few short ones, and the next one says how many there were.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := New(slog.New(slog.NewTextHandler(&out, nil)), 500)
		long := strings.Repeat("ä", 1<<20)
		for range 1000 {
			log.With("port", 1).Info("refused", "name", long, "why", errors.New(long))
		}
		if n := strings.Count(out.String(), "\n"); n != atOnce || out.Len() > atOnce*3*500 {
			t.Errorf("%d lines of %d bytes", n, out.Len())
		}
		out.Reset()
		time.Sleep(interval)
		log.Info("refused", "name", "web", "n", 3)
		if got := out.String(); !strings.Contains(got, "name=web n=3 unsaid=980") {
			t.Error(got)
		}
	})
}
