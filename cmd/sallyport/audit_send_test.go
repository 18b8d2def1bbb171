package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/detect/send/sendtest"
)

// TestSplunkTakesAll: a collector that acknowledges what it indexes, and forgets the rest when it crashes, has each record that was acknowledged to
// its sender in the end, and none that nobody sent, although the audit server is killed under load as well.
func TestSplunkTakesAll(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real programs: not with -short")
	}
	p := programs{}
	dir := p.dir(t)
	p.sallyport = filepath.Join(dir, "sallyport")
	if err := copyFile(p.sallyport, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	indexer := &sendtest.Indexer{Asks: 1}
	splunk := httptest.NewServer(indexer)
	defer splunk.Close()
	to, data := filepath.Join(dir, "splunk"), filepath.Join(dir, "data")
	if err := os.WriteFile(to, []byte(splunk.URL+"/services/collector/event\nAuthorization: "+sendtest.Authorization+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(data, "audit.sock")
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sent, seq := map[string]bool{}, uint64(0)
	deliver := func() error {
		var batch []record.Record
		for range 700 {
			seq++
			batch = append(batch, record.Record{Proxy: "sidecar~10.0.0.1~a.b~b.svc", Epoch: 1, Seq: seq, Time: time.Now().UTC(), Class: record.HTTP, Verdict: record.Allowed, Host: "a.test"})
		}
		if err := ingest.NewClient(conn).Store(t.Context(), batch); err != nil {
			seq -= 700 // as a spool does: the same again
			return err
		}
		for i := range batch {
			sent[fmt.Sprintf("%s/%d/%d", batch[i].Proxy, batch[i].Epoch, batch[i].Seq)] = true
		}
		return nil
	}
	for round := range 4 {
		server := p.start(t, "audit", "server", "--data", data, "--console-addr", "", "--detect-every", "0", "--send-records", "splunk="+to, "--send-records-settle", "3s")
		before := len(indexer.Indexed())
		for range 5 {
			upEventually(t, "that records are taken", deliver)
		}
		upEventually(t, "that something more is indexed", func() error {
			if n := len(indexer.Indexed()); n <= before {
				return fmt.Errorf("%d as before", n)
			}
			return nil
		})
		if err := deliver(); err != nil {
			t.Fatal(err)
		}
		indexer.Crash()
		if round == 3 {
			upEventually(t, "that all is indexed", func() error {
				if n := len(indexer.Indexed()); n < len(sent) {
					return fmt.Errorf("%d of %d", n, len(sent))
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
		if !sent[id] {
			t.Errorf("%s is nobody's", id)
		}
		copies += n - 1
	}
	for _, what := range indexer.Trouble() {
		t.Error(what)
	}
	t.Logf("%d records, %d copies", len(sent), copies)
}
