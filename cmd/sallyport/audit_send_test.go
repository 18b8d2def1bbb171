package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/egress/detect/send/sendtest"
)

// TestSplunkTakesAll: a collector that acknowledges what it indexes, and forgets the rest when it crashes, has each record that was acknowledged to
// its sender in the end, and none that nobody sent, although the audit server is killed under load as well.
func TestSplunkTakesAll(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real programs: not with -short")
	}
	p, dir := auditProgram(t)
	indexer := &sendtest.Indexer{Asks: 1}
	splunk := httptest.NewServer(indexer)
	defer splunk.Close()
	to, data := filepath.Join(dir, "splunk"), filepath.Join(dir, "data")
	if err := os.WriteFile(to, []byte(splunk.URL+"/services/collector/event\nAuthorization: "+sendtest.Authorization+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	load := newAuditLoad(t, data)
	for round := range 4 {
		server := p.start(t, "audit", "server", "--data", data, "--console-addr", "", "--detect-every", "0", "--send-records", "splunk="+to, "--send-records-settle", "3s")
		before := len(indexer.Indexed())
		for range 5 {
			upEventually(t, "that records are taken", load.deliver)
		}
		upEventually(t, "that something more is indexed", func() error {
			if n := len(indexer.Indexed()); n <= before {
				return fmt.Errorf("%d as before", n)
			}
			return nil
		})
		if err := load.deliver(); err != nil {
			t.Fatal(err)
		}
		indexer.Crash()
		if round == 3 {
			upEventually(t, "that all is indexed", func() error {
				if n := len(indexer.Indexed()); n < len(load.sent) {
					return fmt.Errorf("%d of %d", n, len(load.sent))
				}
				return nil
			})
		}
		if err := server.end(t, syscall.SIGKILL); err == nil && round < 3 {
			t.Error("it ended by itself")
		}
	}
	copies := 0
	for id, n := range indexer.Indexed() {
		if !load.sent[id] {
			t.Errorf("%s is nobody's", id)
		}
		copies += n - 1
	}
	for _, what := range indexer.Trouble() {
		t.Error(what)
	}
	t.Logf("%d records, %d copies", len(load.sent), copies)
}
