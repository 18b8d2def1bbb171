package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestRefusedRecordsAreLoggedInBounds: what somebody hands in that is not his fills no log, and the log says how much it was.
func TestRefusedRecordsAreLoggedInBounds(t *testing.T) {
	batch := recs(100)
	for i := range batch {
		batch[i].Workload.Principal = strings.Repeat("p", 100<<10)
		batch[i].Proxy = strings.Repeat("x", 1000) // an error quotes it
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := NewServer(newMemory(), func(_ context.Context, r *record.Record) error {
			return fmt.Errorf("you may not report as the proxy %q", r.Proxy)
		}, slog.New(slog.NewTextHandler(&log, nil)))
		take := func(left []record.Record) {
			t.Helper()
			for len(left) > 0 {
				packed, taken := EncodeBatch(left)
				if _, err := s.take(t.Context(), packed); err != nil {
					t.Fatal(err)
				}
				left = left[taken:]
			}
		}
		take(batch)
		if s.Stats().Refused != 100 {
			t.Errorf("%d refused", s.Stats().Refused)
		}
		lines := strings.Count(log.String(), "\n")
		if lines != 20 || log.Len() > lines*2000 {
			t.Errorf("%d lines of %d bytes", lines, log.Len())
		}
		time.Sleep(time.Second)
		log.Reset()
		take(batch[:1])
		if !strings.Contains(log.String(), "unsaid=80\n") {
			t.Errorf("the next line does not tell of 80 that were not said: %s", log.String())
		}
	})
}
