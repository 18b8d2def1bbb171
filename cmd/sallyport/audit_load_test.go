package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// auditProgram is the program, and a folder for what it keeps, where nothing else of it is needed.
func auditProgram(t *testing.T) (p programs, dir string) {
	t.Helper()
	dir = p.dir(t)
	p.sallyport = filepath.Join(dir, "sallyport")
	if err := copyFile(p.sallyport, os.Args[0]); err != nil {
		t.Fatal(err)
	}
	return p, dir
}

// auditLoad hands records to an audit server, and knows which of them it took.
type auditLoad struct {
	client *ingest.Client
	t      *testing.T
	sent   map[string]bool // by id
	seq    uint64
}

// newAuditLoad is one for the server of a data folder.
func newAuditLoad(t *testing.T, data string) *auditLoad {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(data, "audit.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &auditLoad{client: ingest.NewClient(conn), t: t, sent: map[string]bool{}}
}

// loadWorkloads is how many send what a load consists of.
const loadWorkloads = 7

// deliver hands over some records, the same again where that failed, as a spool does.
func (l *auditLoad) deliver() error {
	var batch []record.Record
	for i := range uint64(700) {
		batch = append(batch, record.Record{
			Proxy: "sidecar~10.0.0.1~a.b~b.svc", Epoch: 1, Seq: l.seq + 1 + i, Time: time.Now().UTC(), Class: record.HTTP, Verdict: record.Allowed, Host: "a.test",
			Workload: record.Workload{Principal: fmt.Sprintf("spiffe://cluster.local/ns/b/sa/%d", i%loadWorkloads)},
		})
	}
	if err := l.client.Store(l.t.Context(), batch); err != nil {
		return err
	}
	for i := range batch {
		l.sent[fmt.Sprintf("%s/%d/%d", batch[i].Proxy, batch[i].Epoch, batch[i].Seq)] = true
	}
	l.seq += uint64(len(batch))
	return nil
}
