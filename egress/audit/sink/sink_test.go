package sink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		sendUntilKilled(dir, os.Getenv(childURL))
		return
	}
	leaks.Verify(m)
}

const name = "test"

func open(t testing.TB, dir string, o store.Options) *store.Store {
	t.Helper()
	o.Held = []string{name}
	s, err := store.Open(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func records(epoch uint64, from, n int) (out []record.Record) {
	for i := range n {
		out = append(out, record.Record{Proxy: "p", Epoch: epoch, Seq: uint64(from + i), Time: time.Now().UTC(), Class: record.HTTP, Host: "a.test"})
	}
	return out
}

// receiver counts what it took, by id.
type receiver struct {
	mu    sync.Mutex
	took  map[string]int
	fault func() (before, after bool)
}

func id(r *record.Record) string { return fmt.Sprint(r.Proxy, "/", r.Epoch, "/", r.Seq) }

func (r *receiver) send(_ context.Context, batch []record.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, after := r.fault()
	if before {
		return errors.New("refused")
	}
	for i := range batch {
		r.took[id(&batch[i])]++
	}
	if after {
		return errors.New("taken, and nobody was told")
	}
	return nil
}

// TestAtLeastOnce: whatever fails, and however often it starts anew, a receiver gets each record, and none that there is not.
func TestAtLeastOnce(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, store.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	to := &receiver{took: map[string]int{}, fault: func() (bool, bool) { return r.IntN(4) == 0, r.IntN(4) == 0 }}
	start := func() *Sink {
		k, err := New(Options{Name: name, Store: s, Send: to.send, State: filepath.Join(dir, "mark"), Batch: 20})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k, failures := start(), 0
	for i := range 20 {
		if err := s.Store(t.Context(), records(1, 100*i, 100)); err != nil {
			t.Fatal(err)
		}
		for k.Pass(t.Context()) != nil {
			if failures++; failures%2 == 0 {
				k = start()
			}
		}
	}
	copies := 0
	for _, n := range to.took {
		copies += n - 1
	}
	if len(to.took) != 2000 || failures == 0 || copies == 0 {
		t.Errorf("%d of 2000 records, %d copies, %d failures", len(to.took), copies, failures)
	}
	to.fault, to.took = func() (bool, bool) { return false, false }, map[string]int{}
	if err := start().Pass(t.Context()); err != nil || len(to.took) != 0 {
		t.Errorf("what was taken was sent again: %d, %v", len(to.took), err)
	}
}

// TestTakenLater: of a receiver that says later whether it has what it was sent, what it lost is sent again, and the mark waits.
func TestTakenLater(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(5, 6))
	s := open(t, dir, store.Options{})
	var waiting []string
	took, failures := map[string]int{}, 0
	start := func() *Sink {
		k, err := New(Options{Name: name, Store: s, State: filepath.Join(dir, "mark"), Batch: 20, Send: func(_ context.Context, batch []record.Record) error {
			if r.IntN(20) == 0 {
				return errors.New("refused")
			}
			for i := range batch {
				waiting = append(waiting, id(&batch[i]))
			}
			return nil
		}, Waits: func() bool { return len(waiting) > 0 }, Settle: func(context.Context) error {
			lost := waiting
			waiting = nil
			if len(lost) > 0 && r.IntN(3) == 0 {
				return errors.New("it crashed")
			}
			for _, id := range lost {
				took[id]++
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := start()
	for i := range 20 {
		if err := s.Store(t.Context(), records(1, 100*i, 100)); err != nil {
			t.Fatal(err)
		}
		for k.Pass(t.Context()) != nil {
			if failures++; failures%3 == 0 {
				k, waiting = start(), nil // both were killed
			}
		}
	}
	if len(took) != 2000 || failures == 0 {
		t.Errorf("%d of 2000 records, %d failures", len(took), failures)
	}
	took = map[string]int{}
	if err := start().Pass(t.Context()); err != nil || len(took) != 0 {
		t.Errorf("what was taken was sent again: %d, %v", len(took), err)
	}
}

// TestGap: records that were deleted before they were sent are told as a gap, once, in their number.
func TestGap(t *testing.T) {
	hand := clock.At(time.Now())
	s := open(t, t.TempDir(), store.Options{Now: hand.Now})
	var got []record.Record
	broken := true
	k, err := New(Options{Name: name, Store: s, State: filepath.Join(t.TempDir(), "mark"), Send: func(_ context.Context, batch []record.Record) error {
		if broken {
			return errors.New("away")
		}
		got = append(got, slices.Clone(batch)...)
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), records(1, 0, 30)); err != nil {
		t.Fatal(err)
	}
	if k.Pass(t.Context()) == nil {
		t.Fatal("nobody took it, and all is well")
	}
	hand.Advance(5 * 24 * time.Hour)
	if n, err := s.Prune(t.Context(), hand.Now().Add(-24*time.Hour)); err != nil || n != 0 {
		t.Fatalf("%d were deleted while they waited, %v", n, err)
	}
	hand.Advance(5 * 24 * time.Hour)
	if n, err := s.Prune(t.Context(), hand.Now().Add(-24*time.Hour)); err != nil || n != 30 {
		t.Fatalf("%d were deleted in the end, %v", n, err)
	}
	if err := s.Store(t.Context(), records(2, 0, 5)); err != nil {
		t.Fatal(err)
	}
	broken = false
	for range 2 {
		if err := k.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(got) != 6 || got[0].Class != record.Gap || got[0].Count != 30 || got[5].Epoch != 2 {
		t.Errorf("%+v", got)
	}
}

// TestUnfit: what a receiver was told of as missing counts as that, and not as taken.
func TestUnfit(t *testing.T) {
	s := open(t, t.TempDir(), store.Options{})
	unfit := uint64(3)
	k, err := New(Options{Name: name, Store: s, State: filepath.Join(t.TempDir(), "mark"), Send: func(context.Context, []record.Record) error { return nil }, Unfit: func() uint64 {
		defer func() { unfit = 0 }()
		return unfit
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), records(1, 0, 30)); err != nil {
		t.Fatal(err)
	}
	if err := k.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sent, missed := testutil.ToFloat64(k.Metrics.sent), testutil.ToFloat64(k.Metrics.missed); sent != 27 || missed != 3 {
		t.Errorf("%v were taken, %v missed", sent, missed)
	}
}

// What makes the test binary a process that stores records, and sends them to a URL, until it is killed.
const (
	childDir = "SALLYPORT_SINK_TEST_DIR"
	childURL = "SALLYPORT_SINK_TEST_URL"
)

func sendUntilKilled(dir, url string) {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	s, err := store.Open(context.Background(), dir, store.Options{Held: []string{name}})
	fail(err)
	k, err := New(Options{Name: name, Store: s, State: filepath.Join(dir, "mark"), Batch: 50, Every: time.Millisecond, Pause: 10 * time.Millisecond, Send: func(ctx context.Context, batch []record.Record) error {
		body, err := json.Marshal(batch)
		if err != nil {
			return err
		}
		response, err := http.Post(url, "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	}})
	fail(err)
	go func() { fail(k.Run(context.Background())) }()
	for i := 0; ; i += 100 {
		fail(s.Store(context.Background(), records(uint64(os.Getpid()), i, 100)))
	}
}

// TestKilledUnderLoad: the sender is killed while it stores and sends, and the receiver's connections break before and after it has taken what came.
func TestKilledUnderLoad(t *testing.T) {
	dir, r := t.TempDir(), rand.New(rand.NewPCG(3, 4))
	to := &receiver{took: map[string]int{}, fault: func() (bool, bool) { return r.IntN(5) == 0, r.IntN(5) == 0 }}
	got := make(chan bool, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var batch []record.Record
		if json.NewDecoder(q.Body).Decode(&batch) != nil || to.send(q.Context(), batch) != nil {
			panic(http.ErrAbortHandler)
		}
		select {
		case got <- true:
		default:
		}
	}))
	defer server.Close()
	for range 4 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir, childURL+"="+server.URL)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			<-got
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	s := open(t, dir, store.Options{})
	k, err := New(Options{Name: name, Store: s, Send: to.send, State: filepath.Join(dir, "mark")})
	if err != nil {
		t.Fatal(err)
	}
	to.fault = func() (bool, bool) { return false, false }
	if err := k.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored := map[string]bool{}
	rows, err := s.DB().Query("SELECT proxy || '/' || epoch || '/' || seq FROM records")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		stored[id] = true
	}
	if len(stored) < 1000 || len(to.took) != len(stored) {
		t.Errorf("%d records in the store, %d were taken", len(stored), len(to.took))
	}
	for id := range to.took {
		if !stored[id] {
			t.Errorf("%s is nobody's", id)
		}
	}
}
