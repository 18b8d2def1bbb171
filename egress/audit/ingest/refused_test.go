package ingest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestRefusedRecordsAreLoggedInBounds: what somebody hands in that is not his fills no log, and the log says how much it was.
func TestRefusedRecordsAreLoggedInBounds(t *testing.T) {
	var log bytes.Buffer
	s := NewServer(newMemory(), func(_ context.Context, r *record.Record) error {
		return fmt.Errorf("you may not report as the proxy %q", r.Proxy)
	}, slog.New(slog.NewTextHandler(&log, nil)))
	s.refusals.paced.Interval = time.Hour // how long this takes is the machine's
	batch := recs(100)
	for i := range batch {
		batch[i].Workload.Principal = strings.Repeat("p", 100<<10)
		batch[i].Proxy = strings.Repeat("x", 1000) // an error quotes it
	}
	for left := batch; len(left) > 0; {
		packed, taken := EncodeBatch(left)
		if _, err := s.take(t.Context(), packed); err != nil {
			t.Fatal(err)
		}
		left = left[taken:]
	}
	if s.Stats().Refused != 100 {
		t.Errorf("%d refused", s.Stats().Refused)
	}
	lines := strings.Count(log.String(), "\n")
	if lines != 20 || log.Len() > lines*2000 {
		t.Errorf("%d lines of %d bytes", lines, log.Len())
	}
	s.refusals.paced.Every = 1
	s.refuse(&batch[0], context.Canceled)
	said := 0
	for _, m := range regexp.MustCompile(`notLogged=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
		n, _ := strconv.Atoi(m[1])
		said += 1 + n
	}
	if said != 101 {
		t.Errorf("the log tells of %d of 101:\n%s", said, log.String())
	}
}
