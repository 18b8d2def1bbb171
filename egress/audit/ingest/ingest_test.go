package ingest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/spool"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// memory is a Sink; fail, when set, decides about each call.
type memory struct {
	mu      sync.Mutex
	records []record.Record
	calls   int
	fail    func(call int) error
	stored  chan struct{} // a token per call that stored
}

func newMemory() *memory { return &memory{stored: make(chan struct{}, 1000)} }

func (m *memory) Store(_ context.Context, records []record.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	if m.fail != nil {
		if err := m.fail(m.calls); err != nil {
			return err
		}
	}
	m.records = append(m.records, records...)
	m.stored <- struct{}{}
	return nil
}

func (m *memory) hosts() (out []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.records {
		out = append(out, r.Host)
	}
	return out
}

// serve offers a sink on an in-memory listener and returns a connection to it.
func serve(t *testing.T, sink Sink, authorize Authorize) (*grpc.ClientConn, *Server) {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := NewServer(sink, authorize, nil)
	g := grpc.NewServer()
	server.Register(g)
	var served sync.WaitGroup
	served.Go(func() { _ = g.Serve(listener) })
	conn, err := grpc.NewClient("passthrough:///audit", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		g.Stop()
		served.Wait()
	})
	return conn, server
}

func rec(i int) record.Record {
	return record.Record{Proxy: "sidecar~10.0.0.1~a.b~b", Epoch: 1, Seq: uint64(i + 1), Class: record.HTTP,
		Time: time.Unix(1_800_000_000, 0).UTC(), Host: fmt.Sprintf("h%d.test", i), Verdict: record.Denied}
}

func recs(n int) (out []record.Record) {
	for i := range n {
		out = append(out, rec(i))
	}
	return out
}

func filled(t *testing.T, n int) *spool.Spool {
	t.Helper()
	s, err := spool.Open(t.TempDir(), spool.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for i := range n {
		if err := s.Append(rec(i)); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// ship runs Ship until the spool is empty.
func ship(t *testing.T, conn grpc.ClientConnInterface, s *spool.Spool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error)
	go func() { done <- Ship(ctx, conn, s, nil) }()
	if err := s.Drain(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Ship ended with %v", err)
	}
}

func TestShipEmptiesTheSpool(t *testing.T) {
	sink := newMemory()
	conn, server := serve(t, sink, nil)
	ship(t, conn, filled(t, 2500))
	if got := sink.hosts(); len(got) != 2500 || got[2499] != "h2499.test" {
		t.Errorf("%d records arrived", len(got))
	}
	if st := server.Stats(); st.Received != 2500 || st.Refused != 0 || st.Batches != 3 {
		t.Errorf("%+v", st)
	}
}

func TestShipTriesAgainInOrder(t *testing.T) {
	sink := newMemory()
	sink.fail = func(call int) error {
		if call == 2 {
			return errors.New("disk full")
		}
		return nil
	}
	conn, _ := serve(t, sink, nil)
	ship(t, conn, filled(t, 1500))
	if got := sink.hosts(); len(got) != 1500 || got[1000] != "h1000.test" {
		t.Errorf("%d records arrived", len(got))
	}
}

func TestShipEndsWithTheSpool(t *testing.T) {
	conn, _ := serve(t, newMemory(), nil)
	s := filled(t, 0)
	done := make(chan error)
	go func() { done <- Ship(t.Context(), conn, s, nil) }()
	s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAuthorize(t *testing.T) {
	sink := newMemory()
	conn, server := serve(t, sink, func(_ context.Context, r *record.Record) error {
		if r.Host == "h1.test" {
			return errors.New("not yours")
		}
		r.Workload.Principal = "spiffe://cluster.local/ns/b/sa/verified"
		return nil
	})
	bad := rec(3)
	bad.Class = "gossip"
	if err := NewClient(conn).Store(t.Context(), append(recs(3), bad)); err != nil {
		t.Fatal(err)
	}
	if got := sink.hosts(); !slices.Equal(got, []string{"h0.test", "h2.test"}) {
		t.Errorf("stored %v", got)
	}
	if sink.records[0].Workload.Principal != "spiffe://cluster.local/ns/b/sa/verified" {
		t.Errorf("not altered: %+v", sink.records[0])
	}
	if st := server.Stats(); st.Refused != 2 {
		t.Errorf("%+v", st)
	}
}

func TestUnauthenticatedEndsTheStream(t *testing.T) {
	sink := newMemory()
	conn, _ := serve(t, sink, func(context.Context, *record.Record) error {
		return status.Error(codes.Unauthenticated, "no certificate")
	})
	err := NewClient(conn).Store(t.Context(), recs(2))
	if status.Code(errors.Unwrap(err)) != codes.Unauthenticated || len(sink.hosts()) != 0 {
		t.Errorf("%v; stored %v", err, sink.hosts())
	}
}

// The controller's place: what the audit server did not take must not be acknowledged to the agent.
func TestChainAcknowledgesEndToEnd(t *testing.T) {
	far := newMemory()
	down := true
	far.fail = func(int) error {
		if down {
			return errors.New("down")
		}
		return nil
	}
	farConn, _ := serve(t, far, nil)
	nearConn, _ := serve(t, NewClient(farConn), nil)
	if err := NewClient(nearConn).Store(t.Context(), recs(1)); status.Code(errors.Unwrap(err)) != codes.Unavailable {
		t.Fatalf("acknowledged although the far side failed: %v", err)
	}
	far.mu.Lock()
	down = false
	far.mu.Unlock()
	ship(t, nearConn, filled(t, 2100))
	if got := far.hosts(); len(got) != 2100 {
		t.Errorf("%d records arrived", len(got))
	}
}

func TestDecodeRefusesGarbage(t *testing.T) {
	bomb := encoder().EncodeAll([]byte(strings.Repeat(" ", decodedBytes+1)), nil)
	noJSON := encoder().EncodeAll([]byte("{"), nil)
	for name, packed := range map[string][]byte{"no zstd": []byte("{}"), "a bomb": bomb, "no JSON": noJSON} {
		if _, err := DecodeBatch(packed); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestBatchesAreBounded(t *testing.T) {
	big := rec(0)
	big.URLPath = strings.Repeat("x", 700<<10)
	packed, taken := EncodeBatch([]record.Record{big, big, big})
	if taken != 2 {
		t.Errorf("%d records of 700 KiB in a batch", taken)
	}
	if got, err := DecodeBatch(packed); err != nil || len(got) != 2 || got[1].URLPath != big.URLPath {
		t.Errorf("%d records came back, %v", len(got), err)
	}
	if _, taken := EncodeBatch(recs(MaxBatch + 5)); taken != MaxBatch {
		t.Errorf("%d records in a batch", taken)
	}
}

func FuzzDecodeBatch(f *testing.F) {
	packed, _ := EncodeBatch(recs(3))
	f.Add(packed)
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, b []byte) {
		records, err := DecodeBatch(b)
		for i := range records {
			_ = (&Server{}).validate(&records[i])
		}
		if err != nil && records != nil {
			t.Error("an error and records")
		}
	})
}

func BenchmarkEncodeDecode(b *testing.B) {
	records := recs(MaxBatch)
	for b.Loop() {
		packed, _ := EncodeBatch(records)
		if _, err := DecodeBatch(packed); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*MaxBatch)/b.Elapsed().Seconds(), "records/s")
}

// TestLimit: an identity has its share, the others theirs, and what is dropped is told with its number.
func TestLimit(t *testing.T) {
	const rate = 2 // 120 at once
	hand := clock.At(time.Unix(1_900_000_000, 0))
	sink := newMemory()
	s := NewServer(sink, nil, nil)
	s.budgets = newBudgets(func() float64 { return rate }, hand.Now)
	of := func(who string, from, n int, edit func(*record.Record)) {
		t.Helper()
		var batch []record.Record
		for i := range n {
			r := rec(from + i)
			r.Proxy, r.Workload.Principal = "sidecar~10.0.0.1~"+who+".b~b", who
			if edit != nil {
				edit(&r)
			}
			batch = append(batch, r)
		}
		packed, taken := EncodeBatch(batch)
		if taken != n {
			t.Fatal(taken)
		}
		acked, err := s.take(t.Context(), packed)
		if err != nil || acked != batch[n-1].Seq {
			t.Fatalf("acknowledged %d, %v", acked, err)
		}
	}
	stored := func(who string) (records, lost int) {
		for _, r := range sink.records {
			switch {
			case r.Workload.Principal != who:
			case r.Class == record.Gap && strings.Contains(r.Reason, "sallyport.audit.recordsPerSecond"):
				lost += int(r.Count)
				if r.Proxy != "sidecar~10.0.0.1~"+who+".b~b" || r.Epoch == 0 || r.Seq == 0 {
					t.Errorf("a gap %+v", r)
				}
			default:
				records++
			}
		}
		return records, lost
	}
	check := func(when, who string, records, lost int) {
		t.Helper()
		if n, m := stored(who); n != records || m != lost {
			t.Errorf("%s, %s has %d records and %d lost, want %d and %d", when, who, n, m, records, lost)
		}
	}
	of("a", 0, 500, nil)
	of("b", 0, 100, nil)
	check("at once", "a", 120, 380)
	check("at once", "b", 100, 0)
	hand.Advance(10 * time.Second)
	of("a", 500, 30, func(r *record.Record) { r.Class, r.Count = record.Gap, 7 }) // gaps count for what they stand for
	check("later", "a", 120+20, 380+10*7)
	hand.Advance(time.Hour)
	of("a", 530, 20, func(r *record.Record) { r.URLPath = strings.Repeat("x", 30<<10) })
	check("long ones", "a", 120+20+20, 380+10*7)
	for _, r := range sink.records {
		if n := r.Texts(); n > record.MaxSize {
			t.Errorf("a record of %d bytes was stored", n)
		}
	}
	of("a", 550, 20, func(r *record.Record) { r.URLPath = strings.Repeat("x", 30<<10) })
	check("long ones count as several", "a", 120+20+20+4, 380+10*7+16)
}

// TestLimitOfWhatIsNotStored: a batch that comes again is not counted twice.
func TestLimitOfWhatIsNotStored(t *testing.T) {
	now := time.Unix(1_900_000_000, 0)
	sink := newMemory()
	sink.fail = func(call int) error {
		if call < 3 {
			return errors.New("disk full")
		}
		return nil
	}
	s := NewServer(sink, nil, nil)
	s.budgets = newBudgets(func() float64 { return 1 }, func() time.Time { return now })
	packed, _ := EncodeBatch(recs(100))
	for range 2 {
		if _, err := s.take(t.Context(), packed); err == nil {
			t.Fatal("acknowledged although nothing was stored")
		}
	}
	if _, err := s.take(t.Context(), packed); err != nil {
		t.Fatal(err)
	}
	var lost uint64
	for _, r := range sink.records {
		lost += r.Count
	}
	if len(sink.records) != 61 || lost != 40 {
		t.Errorf("%d stored, %d lost", len(sink.records), lost)
	}
}

// TestManyIdentities: those that are told apart are bounded.
func TestManyIdentities(t *testing.T) {
	b := newBudgets(func() float64 { return 1 }, func() time.Time { return time.Unix(1_900_000_000, 0) })
	for i := range 3 * maxBudgets {
		r := rec(i)
		r.Workload.Principal = fmt.Sprint("spiffe://", i)
		b.spend(&r, spent{})
	}
	if len(b.of) > maxBudgets+1 {
		t.Errorf("%d budgets", len(b.of))
	}
}

// TestDirectionIsOneOfThree: what else a sender says of it is dropped, and not the record.
func TestDirectionIsOneOfThree(t *testing.T) {
	for said, want := range map[string]string{"": "", "outbound": "outbound", "inbound": "inbound", "lateral": "lateral", "up\x00ward": "", strings.Repeat("x", 1<<20): ""} {
		r := rec(1)
		r.Direction = said
		if err := NewServer(newMemory(), nil, nil).judge(t.Context(), &r); err != nil || r.Direction != want {
			t.Errorf("%.20q became %q, %v", said, r.Direction, err)
		}
	}
}
