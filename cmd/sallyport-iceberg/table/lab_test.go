package table

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/tools"
	"github.com/sallyport/sallyport/egress/audit/lake"
	"github.com/sallyport/sallyport/egress/audit/lake/place"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// now is in the middle of a day, so that no record's day depends on when the test runs.
var now = time.Date(2027, 1, 20, 12, 0, 0, 0, time.UTC)

// lab is a store, a lake that a writer fills from it, and a catalog.
type lab struct {
	dir, lake string
	store     *store.Store
	writer    *lake.Writer
	at        place.Place
	catalog   *catalogServer
	clock     time.Time
	mu        sync.Mutex
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{dir: t.TempDir(), clock: now}
	l.lake = filepath.Join(l.dir, "lake")
	at, err := place.Parse(l.lake, place.Access{})
	if err != nil {
		t.Fatal(err)
	}
	l.fill(t, at)
	l.catalog = serveCatalog(t, l.dir, "file://"+l.dir+"/warehouse")
	return l
}

// fill makes the store, and its writer to a place.
func (l *lab) fill(t *testing.T, at place.Place) {
	t.Helper()
	l.at = at
	data, scratch := filepath.Join(l.dir, "store"), filepath.Join(l.dir, "store", "lake")
	tick := func() time.Time {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.clock = l.clock.Add(time.Millisecond)
		return l.clock
	}
	var err error
	if l.store, err = store.Open(t.Context(), data, store.Options{Held: []string{lake.Holder}, Scratch: scratch, Now: tick}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.store.Close() })
	if l.writer, err = lake.NewWriter(lake.Options{Store: l.store, Place: at, Dir: data, Scratch: scratch, Region: "eu", Cluster: "one", FileBytes: 200_000, Keep: time.Hour, Now: tick}); err != nil {
		t.Fatal(err)
	}
}

// add brings some records to the lake.
func (l *lab) add(t *testing.T, seed uint64, n int) {
	t.Helper()
	if err := l.store.Store(t.Context(), random(seed, n)); err != nil {
		t.Fatal(err)
	}
	if err := l.writer.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func random(seed uint64, n int) []record.Record {
	r := rand.New(rand.NewPCG(seed, 7))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	out := make([]record.Record, n)
	for i := range out {
		out[i] = record.Record{
			Proxy: pick("p1", "p2"), Epoch: seed, Seq: uint64(i), Time: now.Add(-time.Duration(r.Int64N(int64(30 * time.Hour)))).Truncate(time.Microsecond),
			Class: record.Class(pick("network", "http", "dns")), Verdict: record.Verdict(pick("allowed", "denied")), Reporter: "sidecar",
			Workload: record.Workload{Namespace: pick("shop", "pay"), ServiceAccount: "cart"}, Source: "10.0.0.1:4000", Host: pick("api.example.com", "a.evil.test", "ü.test"),
			Port: 443, Protocol: "tls", BytesSent: uint64(r.IntN(1000)), BytesReceived: uint64(r.IntN(1000)),
		}
	}
	out[0].Class, out[0].Action, out[0].Actor, out[0].ActorBy, out[0].Reporter = record.Action, "approved", "ann", record.ByToken, record.ReporterConsole
	return out
}

// keeper makes one that asks the lab's catalog.
func (l *lab) keeper(t *testing.T) *Keeper {
	t.Helper()
	k, err := New(Options{Lake: l.at, Catalog: Catalog{URL: l.catalog.URL}, Table: "security.egress"})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// answers are what read.py says of a table.
type answers struct {
	Count, Distinct int
	Hosts           [][3]any
	Denied          [][2]any
	First           string
	Actions         []string
	OfDay           int `json:"of_day"`
	FilesOfDay      int `json:"files_of_day"`
	Files           []string
	Snapshots       []int
}

// read asks PyIceberg.
func (l *lab) read(t *testing.T) (a answers) {
	t.Helper()
	out := l.catalog.python(t, append([]string{"testdata/read.py", l.catalog.URL, "security.egress"}, l.catalog.properties...)...)
	if err := json.Unmarshal(out, &a); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

// rows asks the store.
func (l *lab) rows(t *testing.T, statement string) (out [][]any) {
	t.Helper()
	rows, err := l.store.DB().QueryContext(t.Context(), statement)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		cells, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range cells {
			to[i] = &cells[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		out = append(out, cells)
	}
	if rows.Err() != nil {
		t.Fatal(rows.Err())
	}
	return out
}

// same asks the table and the store the same questions.
func (l *lab) same(t *testing.T) answers {
	t.Helper()
	a := l.read(t)
	for question, statement := range map[string]string{
		fmt.Sprint([]any{a.Count, a.Distinct}):     "SELECT count(*), count(DISTINCT (proxy, epoch, seq)) FROM records",
		fmt.Sprint(a.Hosts):                        "SELECT list([host, n::VARCHAR, b::VARCHAR] ORDER BY host) FROM (SELECT host, count(*) AS n, sum(bytes_received) AS b FROM records GROUP BY host)",
		fmt.Sprint(a.Denied):                       "SELECT list([namespace, n::VARCHAR] ORDER BY namespace) FROM (SELECT namespace, count(*) AS n FROM records WHERE verdict = 'denied' AND class <> 'gap' GROUP BY namespace)",
		fmt.Sprint([]any{len(a.Actions), a.OfDay}): "SELECT count(*) FILTER (class = 'action'), count(*) FILTER (time >= '2027-01-19 06:00:00+00' AND time < '2027-01-20 00:00:00+00') FROM records",
	} {
		got := l.rows(t, statement)[0]
		want := fmt.Sprint(got)
		if len(got) == 1 {
			want = fmt.Sprint(got[0])
		}
		if question != want {
			t.Errorf("the table says %s, the store %s", question, want)
		}
	}
	return a
}

// catalogServer is a REST catalog in a process of its own, behind a proxy that a test may let fail.
type catalogServer struct {
	*httptest.Server
	library    string
	properties []string
	mu         sync.Mutex
	fault      func(*http.Request) fault
}

// fault is what the proxy does with a request.
type fault int

const (
	none   fault = iota
	refuse       // 503, and nothing is done
	forget       // it is done, and answered with 503
)

func (c *catalogServer) set(f func(*http.Request) fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = f
}

func (c *catalogServer) python(t *testing.T, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "python3", args...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+c.library)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String()[max(0, errs.Len()-3000):])
	}
	return out
}

// serveCatalog skips the test where the library was not fetched.
func serveCatalog(t *testing.T, dir, warehouse string, properties ...string) *catalogServer {
	t.Helper()
	library, err := tools.Cached("iceberg", "pyiceberg")
	if err != nil {
		t.Skip(err)
	}
	c := &catalogServer{library: filepath.Dir(library), properties: properties, fault: func(*http.Request) fault { return none }}
	cmd := exec.Command("python3", append([]string{"testdata/catalog.py", filepath.Join(dir, "catalog.db"), warehouse}, properties...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+c.library)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the catalog does not start: %v", err)
	}
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "127.0.0.1:" + strings.TrimSpace(port)})
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		f := c.fault(r)
		c.mu.Unlock()
		switch f {
		case none:
			proxy.ServeHTTP(w, r)
			return
		case forget:
			proxy.ServeHTTP(httptest.NewRecorder(), r)
		}
		http.Error(w, `{"error":{"message":"broken","type":"Broken","code":503}}`, http.StatusServiceUnavailable)
	}))
	t.Cleanup(c.Close)
	return c
}

// counted holds that a table has the files that the lake's logs name, each once.
func (l *lab) counted(t *testing.T, a answers) {
	t.Helper()
	statuses, err := lake.ReadStatuses(t.Context(), l.at)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, s := range statuses {
		files += s.Files
	}
	once := map[string]bool{}
	for _, f := range a.Files {
		once[f] = true
	}
	if len(once) != len(a.Files) || len(once) != files {
		t.Errorf("%d files in the table, of which %d differ; %d in the lake's logs: %s", len(a.Files), len(once), files, fmt.Sprint(a.Files))
	}
}
