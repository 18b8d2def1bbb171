package enforce

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
	"github.com/sallyport/sallyport/sidecar/nodeguard/kernel"
)

// source is a view that a test changes.
type source struct {
	mu      sync.Mutex
	synced  chan struct{}
	changed chan struct{}
	view    nodeguard.View
}

func (s *source) Synced(ctx context.Context) error {
	select {
	case <-s.synced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (s *source) Changed() <-chan struct{} { return s.changed }

func (s *source) View() nodeguard.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// set changes the view without a sign.
func (s *source) set(change func(*nodeguard.View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.view)
}

// recorder is a kernel that writes down what it is asked.
type recorder struct {
	mu      sync.Mutex
	calls   []string
	fail    error // what the next call answers
	differs string
	counts  kernel.Counts
}

// will says how the kernel answers: an error of the next call that writes, a difference that the next look finds.
func (r *recorder) will(fail error, differs string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fail, r.differs = fail, differs
}

func (r *recorder) note(call string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
	err := r.fail
	r.fail = nil
	return err
}

func (r *recorder) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := strings.Join(r.calls, ", ")
	r.calls = nil
	return calls
}

func (r *recorder) Replace(p nodeguard.Plan) error {
	call := "replace"
	if !p.Samples() {
		call = "replace without samples"
	}
	return r.note(call)
}

func (r *recorder) Change(changes []nodeguard.Change) error {
	var names []string
	for _, c := range changes {
		names = append(names, c.Set.Name)
	}
	return r.note("change " + strings.Join(names, " "))
}

func (r *recorder) Differs(nodeguard.Plan) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	why := r.differs
	r.differs = ""
	return why, nil
}

func (r *recorder) Counts() (kernel.Counts, error) { return r.counts, nil }

var address = netip.MustParseAddr("10.244.1.2")

// run plays with a guard until play returns.
func run(t *testing.T, play func(*testing.T, *Guard, *source, *recorder, *strings.Builder)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &source{synced: make(chan struct{}), changed: make(chan struct{}, 1), view: nodeguard.View{
			Nodes:      []nodeguard.Node{{Name: "here", PodNetworks: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}}},
			Namespaces: map[string]map[string]string{"shop": {}},
		}}
		k := &recorder{}
		var log strings.Builder
		g := New(nodeguard.Options{Node: "here", Namespaces: []string{"shop"}}, s, k, DefaultTiming, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Run(ctx) }()
		synctest.Wait()
		if k.take() != "" || g.Ready() == nil {
			t.Error("before the first view something was written, or it is ready")
		}
		close(s.synced)
		synctest.Wait()
		play(t, g, s, k, &log)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// change tells the guard of another view and waits until it has dealt with it.
func (s *source) change(pods ...nodeguard.Pod) {
	s.set(func(v *nodeguard.View) { v.Pods = pods })
	s.changed <- struct{}{}
	time.Sleep(DefaultTiming.Settle) // of synctest's time
	synctest.Wait()
}

func pod(namespace string) nodeguard.Pod {
	return nodeguard.Pod{Namespace: namespace, Name: "web", Addresses: []netip.Addr{address}}
}

func TestFollowsTheView(t *testing.T) {
	run(t, func(t *testing.T, g *Guard, s *source, k *recorder, _ *strings.Builder) {
		for _, c := range []struct {
			pods []nodeguard.Pod
			want string
		}{
			{nil, "replace"},
			{[]nodeguard.Pod{pod("shop")}, "change guarded4 refused4"},
			{[]nodeguard.Pod{pod("shop")}, ""}, // nothing that counts
			{[]nodeguard.Pod{pod("legacy")}, "change open4 guarded4 refused4"},
			{nil, "change open4"},
		} {
			if c.want != "replace" {
				s.change(c.pods...)
			}
			if got := k.take(); got != c.want || g.Ready() != nil {
				t.Errorf("%v: %q, want %q; %v", c.pods, got, c.want, g.Ready())
			}
		}
	})
}

func TestWritesAnewWhatDoesNotFit(t *testing.T) {
	run(t, func(t *testing.T, g *Guard, s *source, k *recorder, log *strings.Builder) {
		k.take()
		k.will(errors.New("no such element"), "")
		s.change(pod("shop"))
		if got := k.take(); got != "change guarded4 refused4, replace" || g.Ready() != nil {
			t.Errorf("%q, %v", got, g.Ready())
		}
		// Somebody flushed the ruleset.
		k.will(nil, "the table is gone")
		time.Sleep(DefaultTiming.Check)
		synctest.Wait()
		if got := k.take(); got != "replace" || !strings.Contains(log.String(), "the table is gone") {
			t.Errorf("%q\n%s", got, log)
		}
		if got := exported(t, g); !strings.Contains(got, "sallyport_guard_repairs_total 1\n") {
			t.Error(got)
		}
	})
}

func TestTriesAgain(t *testing.T) {
	run(t, func(t *testing.T, g *Guard, s *source, k *recorder, log *strings.Builder) {
		k.take()
		// The networks are gone from the view, as when Nodes are made anew: what is in force stays.
		nodes := s.view.Nodes
		s.set(func(v *nodeguard.View) { v.Nodes = nil })
		s.change()
		time.Sleep(5 * DefaultTiming.Retry)
		synctest.Wait()
		if got := k.take(); got != "" || g.Ready() == nil || strings.Count(log.String(), "level=ERROR") != 1 {
			t.Errorf("%q, %v\n%s", got, g.Ready(), log)
		}
		s.set(func(v *nodeguard.View) { v.Nodes = nodes })
		time.Sleep(DefaultTiming.Retry)
		synctest.Wait()
		if g.Ready() != nil {
			t.Error(g.Ready())
		}
	})
}

func TestWithoutSamples(t *testing.T) {
	run(t, func(t *testing.T, g *Guard, _ *source, k *recorder, _ *strings.Builder) {
		k.take()
		k.will(kernel.ErrNoLogging, "the table is gone")
		time.Sleep(DefaultTiming.Check)
		synctest.Wait()
		if got := k.take(); got != "replace, replace without samples" || g.Ready() != nil {
			t.Errorf("%q, %v", got, g.Ready())
		}
	})
}

func TestMetricsAndLog(t *testing.T) {
	run(t, func(t *testing.T, g *Guard, s *source, k *recorder, log *strings.Builder) {
		s.change(pod("shop"))
		k.counts = kernel.Counts{
			Refused: map[netip.Addr]kernel.Count{address: {Packets: 3, Bytes: 180}},
			Named:   map[string]kernel.Count{nodeguard.CounterUnknown: {Packets: 2}},
		}
		got := exported(t, g)
		for _, want := range []string{
			`sallyport_guard_refused_packets_total{address="10.244.1.2",namespace="shop",pod="web"} 3`,
			`sallyport_guard_refused_bytes_total{address="10.244.1.2",namespace="shop",pod="web"} 180`,
			`sallyport_guard_dropped_packets_total{reason="unknown"} 2`,
			`sallyport_guard_addresses{state="guarded"} 1`,
			`sallyport_guard_in_force 1`,
		} {
			if !strings.Contains(got, want+"\n") {
				t.Errorf("no %s in\n%s", want, got)
			}
		}

		r := g.Refusals()
		world := netip.MustParseAddr("203.0.113.10")
		sample := kernel.Sample{Why: "guarded", Source: address, Destination: world, Protocol: 6, Port: 443}
		for range 3 {
			r.Take(sample)
		}
		time.Sleep(sayAgain)
		r.Take(sample)
		sample.Why, sample.Protocol, sample.Port = "spoofed", 1, 0
		r.Take(sample)
		var lines []string
		for line := range strings.Lines(log.String()) {
			if _, after, ok := strings.Cut(line, `msg="refused to leave the node" `); ok {
				lines = append(lines, strings.TrimSpace(after))
			}
		}
		if !slices.Equal(lines, []string{
			"pod=shop/web why=guarded source=10.244.1.2 destination=203.0.113.10:443 protocol=tcp",
			"pod=shop/web why=guarded source=10.244.1.2 destination=203.0.113.10:443 protocol=tcp",
			`hint="the node's route to shop/web leads elsewhere: another pod uses its address, or the network plugin routes like that, which --spoofed-sources=allow accepts" why=spoofed source=10.244.1.2 destination=203.0.113.10 protocol=icmp`,
		}) {
			t.Errorf("%q", lines)
		}
	})
}

// exported is what Prometheus would read.
func exported(t *testing.T, g *Guard) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(g); err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}
