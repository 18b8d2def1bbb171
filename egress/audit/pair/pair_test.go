package pair

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// side is one server of a pair, as far as this package makes it.
type side struct {
	store *store.Store
	link  *Link
	end   func()
}

// start runs one of two sides; their sockets are a and b in a folder.
func start(t *testing.T, sockets, own, other, data string) *side {
	t.Helper()
	s, err := store.Open(t.Context(), data, store.Options{Held: []string{store.Pair}})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient("unix:"+filepath.Join(sockets, other), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1, MaxDelay: 10 * time.Millisecond}, MinConnectTimeout: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	link, err := New(t.Context(), s, Options{Name: other, Conn: conn, State: filepath.Join(data, "pair.json"), Every: 20 * time.Millisecond, Alone: 10 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(sockets, own))
	if err != nil {
		t.Fatal(err)
	}
	rpc := grpc.NewServer()
	link.Register(rpc)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- rpc.Serve(l) }()
	go func() { done <- link.Run(ctx) }()
	x := &side{store: s, link: link}
	ended := false
	x.end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		rpc.Stop()
		if err := errors.Join(<-done, <-done, s.Close(), conn.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(x.end)
	return x
}

func whole(t *testing.T, sides ...*side) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, x := range sides {
		if err := x.link.Whole(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func records(proxy string, from, n int) (out []record.Record) {
	for i := range n {
		out = append(out, record.Record{Proxy: proxy, Epoch: 1, Seq: uint64(from + i), Time: time.Now().UTC(), Class: record.HTTP, Host: "a.test"})
	}
	return out
}

// has counts a store's records, and those that it has more than once.
func (x *side) has(t *testing.T) string {
	t.Helper()
	var all, distinct int
	err := x.store.DB().QueryRowContext(t.Context(), "SELECT count(*), count(DISTINCT (proxy, epoch, seq)) FROM "+store.Table).Scan(&all, &distinct)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d of %d", distinct, all)
}

func hand(t *testing.T, x *side, r []record.Record) {
	t.Helper()
	if err := x.link.Store(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

func same(t *testing.T, when, want string, sides ...*side) {
	t.Helper()
	for i, x := range sides {
		if got := x.has(t); got != want {
			t.Errorf("%s: side %d has %s, want %s", when, i, got, want)
		}
	}
}

// TestAcknowledgedByOneIsWithBoth: what one side acknowledged the other one has at that moment; what is handed to both is there once; what came
// from the other side does not go back.
func TestAcknowledgedByOneIsWithBoth(t *testing.T) {
	sockets := t.TempDir()
	a, b := start(t, sockets, "a", "b", t.TempDir()), start(t, sockets, "b", "a", t.TempDir())
	whole(t, a, b)
	hand(t, a, records("p", 1, 2500))
	same(t, "handed to a", "2500 of 2500", a, b)
	hand(t, b, records("q", 1, 10))
	hand(t, b, records("p", 2000, 601)) // an acknowledgement was lost
	same(t, "handed to b", "2610 of 2610", a, b)
	hand(t, a, []record.Record{{Proxy: "sallyport-actions", Epoch: 1, Seq: 1, Time: time.Now().UTC(), Class: record.Action, Action: "approved", Actor: "ann"}})
	same(t, "an action", "2611 of 2611", a, b)
	if x, y := testutil.ToFloat64(a.link.Metrics.copied), testutil.ToFloat64(b.link.Metrics.copied); x != 2501 || y != 110 {
		t.Errorf("a sent %v and b %v records: want 2501 and 110, those that each took first", x, y)
	}
	if n := testutil.ToFloat64(a.link.Metrics.alone); n != 0 {
		t.Errorf("%v records were acknowledged alone", n)
	}
}

// TestOneIsAway: one side alone takes records at once, and the other one gets them when it is back, before it serves. One that comes with an
// empty disk gets all, also what it took itself once.
func TestOneIsAway(t *testing.T) {
	sockets, ofA, ofB := t.TempDir(), t.TempDir(), t.TempDir()
	a, b := start(t, sockets, "a", "b", ofA), start(t, sockets, "b", "a", ofB)
	whole(t, a, b)
	hand(t, b, records("b", 1, 100))
	b.end()
	hand(t, a, records("a", 1, 5000))
	if a.link.Away() > time.Minute {
		t.Error("the other side was never there")
	}
	b = start(t, sockets, "b", "a", ofB)
	whole(t, b)
	same(t, "b is back", "5100 of 5100", a, b)
	b.end()
	b = start(t, sockets, "b", "a", t.TempDir())
	whole(t, b)
	same(t, "b has a new disk", "5100 of 5100", a, b)
	a.end()
	hand(t, b, records("b", 101, 1))
	a = start(t, sockets, "a", "b", ofA)
	whole(t, a)
	same(t, "a is back", "5101 of 5101", a, b)
}

// TestAloneForLong: a side whose other one never comes serves after a while.
func TestAloneForLong(t *testing.T) {
	x := start(t, t.TempDir(), "a", "b", t.TempDir())
	x.link.Alone = 10 * time.Millisecond
	whole(t, x)
	hand(t, x, records("a", 1, 3))
	if n := testutil.ToFloat64(x.link.Metrics.alone); n != 3 {
		t.Errorf("%v records are counted that were acknowledged alone, want 3", n)
	}
}
