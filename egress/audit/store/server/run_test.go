package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/inputs"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// running is an audit server of a test.
type running struct {
	data, console string
	stop          func()
}

func run(t *testing.T, data string) *running {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done, ready := make(chan error, 1), make(chan string, 1)
	go func() {
		done <- Run(ctx, Options{Data: data, ConsoleAddr: "127.0.0.1:0",
			Ready: func(_, console string) { ready <- console }})
	}()
	r := &running{data: data}
	select {
	case r.console = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	}
	t.Cleanup(r.stop)
	return r
}

func connect(t *testing.T, data string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("unix:"+filepath.Join(data, query.SocketName),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func source(t *testing.T, data string) query.Source {
	t.Helper()
	s, err := query.Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func rec(seq uint64) record.Record {
	return record.Record{Proxy: "p", Epoch: 1, Seq: seq, Time: time.Now().UTC().Truncate(time.Microsecond), Class: record.HTTP,
		Verdict: record.Denied, Host: "evil.test", Workload: record.Workload{Principal: "spiffe://cluster.local/ns/a/sa/b"}}
}

func selected(t *testing.T, s query.Source, f query.Filter) (out []record.Record) {
	t.Helper()
	err := s.Select(t.Context(), f, func(r record.Record) error {
		out = append(out, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// asked are the inputs of a source.
func asked(t *testing.T, s query.Source) (out []inputs.Input) {
	t.Helper()
	if err := s.Inputs(t.Context(), query.Filter{}, func(x *inputs.Input) error { out = append(out, *x); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestInputsByAnyWay: a server and the file itself give the same inputs, more than go into one answer.
func TestInputsByAnyWay(t *testing.T) {
	r := run(t, t.TempDir())
	sp, err := spool.Open(t.TempDir(), spool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	for i := range 150 {
		one := rec(0)
		one.URLPath, one.DecidedBy = fmt.Sprint("/", i, strings.Repeat("x", 4000)), record.Object{Kind: "EgressPolicy", Namespace: "a", Name: "list", Rule: "all", Revision: "1"}
		if err := sp.Append(one); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shipped := make(chan error)
	go func() { shipped <- ingest.Ship(ctx, connect(t, r.data), sp, nil) }()
	if err := sp.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-shipped
	served := asked(t, source(t, r.data))
	r.stop()
	if read := asked(t, source(t, r.data)); len(served) != 150 || !reflect.DeepEqual(served, read) {
		t.Errorf("%d inputs of the server, %d of the file", len(served), len(read))
	}
	if served[0].DecidedBy.Rule != "all" || served[0].Count != 1 || served[0].Last.IsZero() {
		t.Errorf("%+v", served[0])
	}
}

// From an agent's spool to the answers, and on when the server is gone.
func TestSpoolToAnswer(t *testing.T) {
	r := run(t, t.TempDir())
	sp, err := spool.Open(t.TempDir(), spool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	for range 2500 {
		if err := sp.Append(rec(0)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	shipped := make(chan error)
	go func() { shipped <- ingest.Ship(ctx, connect(t, r.data), sp, nil) }()
	if err := sp.Drain(ctx); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-shipped

	check := func(how string) {
		s := source(t, r.data)
		defer s.Close()
		all := selected(t, s, query.Filter{})
		if len(all) != 2500 || all[0].Workload.Principal != "spiffe://cluster.local/ns/a/sa/b" {
			t.Errorf("%s: %d records", how, len(all))
		}
		if got := selected(t, s, query.Filter{Verdict: record.Allowed}); got != nil {
			t.Errorf("%s: %v were allowed", how, got)
		}
		var rows rowList
		if err := s.SQL(t.Context(), "SELECT seq, host FROM records ORDER BY seq", &rows); err != nil || len(rows.rows) != 2500 ||
			len(rows.names) != 2 {
			t.Errorf("%s: %d rows, %v", how, len(rows.rows), err)
		}
		var wrong query.StatementError
		if err := s.SQL(t.Context(), "DROP TABLE records", &rows); !errors.As(err, &wrong) {
			t.Errorf("%s: %v", how, err)
		}
	}
	check("by the socket")
	var wrong query.StatementError
	if err := source(t, r.data).SQL(t.Context(), "SELECT repeat('x', 5000000)", &rowList{}); !errors.As(err, &wrong) || !strings.Contains(err.Error(), "more than 3 MiB") {
		t.Errorf("a row that is too large: %v", err)
	}
	r.stop()
	check("from the file")
	if err := source(t, r.data).Tail(t.Context(), query.Filter{}, nil); err == nil {
		t.Error("a tail without a server")
	}
}

type rowList struct {
	names []string
	rows  [][]any
}

func (r *rowList) Columns(names []string) error { r.names = names; return nil }
func (r *rowList) Row(cells []any) error        { r.rows = append(r.rows, cells); return nil }

func TestTail(t *testing.T) {
	r := run(t, t.TempDir())
	client := ingest.NewClient(connect(t, r.data))
	if err := client.Store(t.Context(), []record.Record{rec(1), rec(2), rec(3)}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seqs, done := make(chan uint64, 10), make(chan error, 1)
	s := source(t, r.data)
	go func() {
		done <- s.Tail(ctx, query.Filter{Limit: 2, Host: "evil.*"}, func(r record.Record) error {
			seqs <- r.Seq
			return nil
		})
	}()
	if a, b := <-seqs, <-seqs; a != 2 || b != 3 {
		t.Errorf("begins with %d, %d", a, b)
	}
	other := rec(4)
	other.Host = "good.test"
	if err := client.Store(t.Context(), []record.Record{rec(3), other, rec(5)}); err != nil {
		t.Fatal(err)
	}
	if got := <-seqs; got != 5 {
		t.Errorf("goes on with %d", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestServerEndsUnderATail(t *testing.T) {
	r := run(t, t.TempDir())
	s := source(t, r.data)
	client := ingest.NewClient(connect(t, r.data))
	first, done := make(chan bool, 1), make(chan error, 1)
	if err := client.Store(t.Context(), []record.Record{rec(1)}); err != nil {
		t.Fatal(err)
	}
	go func() {
		done <- s.Tail(t.Context(), query.Filter{Limit: 1}, func(record.Record) error { first <- true; return nil })
	}()
	<-first
	r.stop()
	if err := <-done; err == nil {
		t.Error("the tail ended as if it were complete")
	}
}

func TestOneServerPerFolder(t *testing.T) {
	r := run(t, t.TempDir())
	err := Run(t.Context(), Options{Data: r.data})
	if err == nil || !strings.Contains(err.Error(), "served by a running audit server") {
		t.Errorf("%v", err)
	}
	selected(t, source(t, r.data), query.Filter{}) // the first one goes on
	r.stop()

	// What a killed server leaves: a socket that nobody listens on.
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(r.data, query.SocketName), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	file := source(t, r.data)
	selected(t, file, query.Filter{})
	file.Close()
	again := run(t, r.data)
	info, err := os.Stat(filepath.Join(again.data, query.SocketName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	selected(t, source(t, r.data), query.Filter{})
}

func TestSocketThatIsNone(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, query.SocketName), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), Options{Data: data}); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Error(err)
	}
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	if err := Run(t.Context(), Options{Data: long}); err == nil || !strings.Contains(err.Error(), "shorter --data") {
		t.Error(err)
	}
}

func TestConsoleIsServed(t *testing.T) {
	r := run(t, t.TempDir())
	if err := ingest.NewClient(connect(t, r.data)).Store(t.Context(), []record.Record{rec(1)}); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get("http://" + r.console + "/log.json?q=since:1h+verdict:denied")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(body), "evil.test") {
		t.Errorf("%s: %s, %v", response.Status, body, err)
	}
}
