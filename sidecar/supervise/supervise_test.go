package supervise

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/leaks"
)

// TestMain turns the test binary into the child (or into an agent that is about to be killed) when asked.
func TestMain(m *testing.M) {
	switch os.Getenv("SUPERVISE_TEST_ROLE") {
	case "":
		leaks.Verify(m)
	case "steady": // says a line and ends when told to
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("child", os.Getpid())
		<-term
		fmt.Print("goodbye")
		os.Exit(0)
	case "deaf": // does not end, and has a child of its own in its group
		signal.Ignore(syscall.SIGTERM)
		grandchild := exec.Command("sleep", "60")
		if err := grandchild.Start(); err != nil {
			panic(err)
		}
		fmt.Println("grandchild", grandchild.Process.Pid)
		select {}
	case "crash":
		os.Exit(7)
	case "agent": // runs a steady child, until it is killed
		cfg := config("steady", os.Stdout)
		_ = New(cfg).Run(context.Background())
	}
}

func config(role string, out io.Writer) Config {
	return Config{
		Log: slog.New(slog.DiscardHandler), Path: "/usr/bin/env",
		Args:   []string{"SUPERVISE_TEST_ROLE=" + role, os.Args[0], "-test.run=^$"},
		Output: out, KillAfter: time.Minute, MinBackoff: time.Millisecond, MaxBackoff: 4 * time.Millisecond,
	}
}

// output is what the child wrote; tests wait for it.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func newOutput() *output { return &output{wrote: make(chan struct{}, 1)} }

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(p)
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// number waits for a line "word N" and gives N.
func (o *output) number(t *testing.T, word string) int {
	t.Helper()
	over := time.After(time.Minute)
	for {
		for line := range strings.Lines(o.String()) {
			if text, ok := strings.CutPrefix(line, word+" "); ok && strings.HasSuffix(line, "\n") {
				n, err := strconv.Atoi(strings.TrimSpace(text))
				if err != nil {
					t.Fatal(err)
				}
				return n
			}
		}
		select {
		case <-o.wrote:
		case <-over:
			t.Fatalf("no %q in %q", word, o.String())
		}
	}
}

// gone waits until a process no longer runs; a zombie does not.
func gone(t *testing.T, pid int) {
	t.Helper()
	over := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-tick.C:
		case <-over:
			t.Fatalf("process %d is still there", pid)
		}
	}
}

func start(t *testing.T, cfg Config) (s *Supervisor, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s = New(cfg)
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, func() error {
		cancel()
		select {
		case err := <-ended:
			return err
		case <-time.After(time.Minute):
			t.Fatal("does not end")
			return nil
		}
	}
}

func TestEndsWithItsContext(t *testing.T) {
	out := newOutput()
	s, stop := start(t, config("steady", out))
	pid := out.number(t, "child")
	if group, err := syscall.Getpgid(pid); err != nil || group == syscall.Getpgrp() {
		t.Errorf("the child is in process group %d, ours is %d (%v)", group, syscall.Getpgrp(), err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
	if !strings.HasSuffix(out.String(), "goodbye\n") {
		t.Errorf("the last words are missing: %q", out.String())
	}
	if s.Restarts() != 0 || s.PID() != 0 {
		t.Errorf("%d restarts, pid %d", s.Restarts(), s.PID())
	}
}

func TestKillsTheDeafAndItsGroup(t *testing.T) {
	out := newOutput()
	cfg := config("deaf", out)
	cfg.KillAfter = 100 * time.Millisecond
	_, stop := start(t, cfg)
	grandchild := out.number(t, "grandchild")
	if err := stop(); err != nil {
		t.Error(err)
	}
	gone(t, grandchild)
}

// TestRestartsAtOnceWhatHadSettled: what worked and dies is back at once, before anybody is told; what never worked waits.
func TestRestartsAtOnceWhatHadSettled(t *testing.T) {
	log, out := newOutput(), newOutput()
	cfg := config("steady", out)
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	cfg.MinBackoff, cfg.MaxBackoff, cfg.Settled = time.Hour, time.Hour, time.Nanosecond
	started := func() int { return strings.Count(log.String(), "Envoy started") }
	told := make(chan int, 10)
	cfg.OnCrash = func() { told <- started() }
	s, stop := start(t, cfg)
	first := out.number(t, "child")
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	over := time.After(time.Minute)
	for s.PID() == 0 || s.PID() == first {
		select {
		case <-out.wrote:
		case <-log.wrote:
		case <-over:
			t.Fatalf("it is not back:\n%s", log.String())
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := <-told; n != 2 || len(told) > 0 {
		t.Errorf("told of it when %d were started, and %d times more; want 2, once", n, len(told))
	}
	if !strings.Contains(log.String(), "restart_in=0s") {
		t.Errorf("what is said of it:\n%s", log.String())
	}
}

func TestRestartsAfterCrash(t *testing.T) {
	log := newOutput()
	cfg := config("crash", io.Discard)
	cfg.Log = slog.New(slog.NewTextHandler(log, nil))
	var crashes atomic.Uint64
	cfg.OnCrash = func() { crashes.Add(1) }
	s, stop := start(t, cfg)
	over := time.After(time.Minute)
	for s.Restarts() < 3 {
		select {
		case <-log.wrote:
		case <-over:
			t.Fatal("no restarts")
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if crashes.Load() != s.Restarts() {
		t.Errorf("%d crashes told of, %d restarts", crashes.Load(), s.Restarts())
	}
	if !strings.Contains(log.String(), "exit status 7") {
		t.Errorf("the reason is missing:\n%s", log.String())
	}
}

func TestMissingBinaryIsAnError(t *testing.T) {
	cfg := config("steady", io.Discard)
	cfg.Path = "/nonexistent/envoy"
	if err := New(cfg).Run(context.Background()); err == nil || !strings.Contains(err.Error(), "/nonexistent/envoy") {
		t.Errorf("got %v", err)
	}
}

// An agent that is killed takes its child with it.
func TestChildDiesWithTheAgent(t *testing.T) {
	out := newOutput()
	agent := exec.Command(os.Args[0], "-test.run=^$")
	agent.Env = append(os.Environ(), "SUPERVISE_TEST_ROLE=agent")
	agent.Stdout = out
	agent.WaitDelay = time.Minute
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	pid := out.number(t, "child")
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	gone(t, pid)
}

func TestDrainWaitsForConnections(t *testing.T) {
	asked := make(chan string, 100)
	left := 3
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String()
		if strings.Contains(r.URL.Query().Get("filter"), "cx_active") {
			left--
			fmt.Fprintf(w, "listener.in.downstream_cx_active: %d\nlistener.admin.downstream_cx_active: 1\n"+
				"listener.in.worker_0.downstream_cx_active: 9\nlistener.prometheus_stats.downstream_cx_active: 1\nlistener.envoy_internal_decide-80.downstream_cx_active: 1\n"+
				"listener.questions.downstream_cx_active: 1\n", left)
		}
	}))
	defer envoy.Close()
	out := newOutput()
	cfg := config("steady", out)
	cfg.Admin, cfg.DrainTime = strings.TrimPrefix(envoy.URL, "http://"), time.Minute
	_, stop := start(t, cfg)
	out.number(t, "child")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if first := <-asked; first != "POST /drain_listeners?graceful" {
		t.Errorf("first asked %q", first)
	}
	if left != 0 {
		t.Errorf("ended with %d connections", left)
	}
}

// TestDrainElsewhere: Envoy goes on listening while it drains until another process does.
func TestDrainElsewhere(t *testing.T) {
	asked := make(chan string, 100)
	var looks, left atomic.Int64
	left.Store(4)
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.Method + " " + r.URL.String()
		if r.URL.Path == "/stats" {
			fmt.Fprintf(w, "listener.in.downstream_cx_active: %d\n", left.Add(-1))
		}
	}))
	defer envoy.Close()
	out := newOutput()
	cfg := config("steady", out)
	cfg.Admin, cfg.DrainTime = strings.TrimPrefix(envoy.URL, "http://"), time.Minute
	cfg.Elsewhere = func() bool { return looks.Add(1) >= 2 }
	_, stop := start(t, cfg)
	out.number(t, "child")
	if err := stop(); err != nil {
		t.Error(err)
	}
	close(asked)
	stops := []int{}
	n := 0
	for what := range asked {
		if n++; what == "POST /drain_listeners" {
			stops = append(stops, n)
		}
	}
	if len(stops) != 1 || stops[0] != 3 || looks.Load() != 2 {
		t.Errorf("told to stop listening at %v of what was asked, want the third alone", stops)
	}
}

// TestDrainCountsWhatCameLast: a worker that is busy takes connections after Envoy was told to stop listening, and these have said nothing yet. They are waited for.
func TestDrainCountsWhatCameLast(t *testing.T) {
	looks := []string{
		"listener.in.downstream_cx_active: 0\nlistener_manager.listener_stopped: 1\nlistener_manager.total_listeners_active: 2\n",
		"listener.in.downstream_pre_cx_active: 1\nlistener_manager.listener_stopped: 2\nlistener_manager.total_listeners_active: 2\n",
		"listener.in.downstream_cx_active: 1\nlistener_manager.listener_stopped: 2\nlistener_manager.total_listeners_active: 2\n",
		"listener.in.downstream_cx_active: 0\nlistener_manager.listener_stopped: 2\nlistener_manager.total_listeners_active: 2\n",
	}
	var looked atomic.Int64
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if filter := r.URL.Query().Get("filter"); strings.Contains(filter, "cx_active") {
			keep := regexp.MustCompile(filter)
			for line := range strings.Lines(looks[min(looked.Add(1), int64(len(looks)))-1]) {
				if name, _, _ := strings.Cut(line, ":"); keep.MatchString(name) {
					_, _ = fmt.Fprint(w, line)
				}
			}
		}
	}))
	defer envoy.Close()
	out := newOutput()
	cfg := config("steady", out)
	cfg.Admin, cfg.DrainTime = strings.TrimPrefix(envoy.URL, "http://"), time.Minute
	cfg.Elsewhere = func() bool { return true }
	_, stop := start(t, cfg)
	out.number(t, "child")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := looked.Load(); n != int64(len(looks)) {
		t.Errorf("Envoy was ended after %d looks at what is open, want %d", n, len(looks))
	}
}

func TestDrainEndsInTime(t *testing.T) {
	envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "listener.in.downstream_cx_active: 1\n")
	}))
	defer envoy.Close()
	out := newOutput()
	cfg := config("steady", out)
	cfg.Admin, cfg.DrainTime = strings.TrimPrefix(envoy.URL, "http://"), 3*time.Second
	cut := 0
	cfg.OnCut = func(connections int) { cut += connections }
	_, stop := start(t, cfg)
	out.number(t, "child")
	if err := stop(); err != nil {
		t.Error(err)
	}
	if cut != 1 {
		t.Errorf("%d connections told of, want 1", cut)
	}
}

// TestSessionsEnd: listeners by which others come in are closed before the end where sessions of UDP are open, and only there.
func TestSessionsEnd(t *testing.T) {
	for stats, want := range map[string]int32{
		"": 0, "udp.a.downstream_sess_active: 0\nudp.a.downstream_sess_total: 3\n": 0, "udp.a.downstream_sess_active: 0\nudp.b.downstream_sess_active: 2\n": 1,
	} {
		var closed atomic.Int32
		envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.Method == http.MethodPost && r.URL.RequestURI() == "/drain_listeners?inboundonly":
				closed.Add(1)
			case strings.HasPrefix(r.URL.Query().Get("filter"), "^udp"):
				_, _ = fmt.Fprint(w, stats)
			}
		}))
		out := newOutput()
		cfg := config("steady", out)
		cfg.Admin, cfg.DrainTime = strings.TrimPrefix(envoy.URL, "http://"), time.Minute
		_, stop := start(t, cfg)
		out.number(t, "child")
		if err := stop(); err != nil {
			t.Error(err)
		}
		envoy.Close()
		if n := closed.Load(); n != want {
			t.Errorf("%q: closed %d times, want %d", stats, n, want)
		}
	}
}

func TestLines(t *testing.T) {
	out := newOutput()
	l := &lines{to: out}
	for _, piece := range []string{"a", "b\nc", "d\n", "e", strings.Repeat("x", maxLine)} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	_, _ = l.Write([]byte("rest"))
	l.rest()
	if got, want := out.String(), "ab\ncd\ne"+strings.Repeat("x", maxLine)+"\nrest\n"; got != want {
		t.Errorf("got %d bytes %.20q, want %d", len(got), got, len(want))
	}
}

// TestFreeMemoryIsAskedFor: an Envoy whose heap is large and largely free is made to give it back; one whose heap is used, or small, is
// left alone.
func TestFreeMemoryIsAskedFor(t *testing.T) {
	const limit = 48 << 20
	for _, c := range []struct {
		name                 string
		size, unmapped, free int64
		asked                bool
	}{
		{"a burst is over", 180 << 20, 80 << 20, 60 << 20, true},
		{"in use", 180 << 20, 80 << 20, 4 << 20, false},
		{"small", 180 << 20, 140 << 20, 30 << 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			looks, asked := make(chan struct{}, 1000), make(chan struct{}, 1000)
			envoy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/memory":
					fmt.Fprintf(w, `{"heap_size": "%d", "pageheap_unmapped": "%d", "pageheap_free": "%d"}`, c.size, c.unmapped, c.free)
					looks <- struct{}{}
				case "/memory/tcmalloc":
					asked <- struct{}{}
				}
			}))
			defer envoy.Close()
			out := newOutput()
			cfg := config("steady", out)
			cfg.Admin, cfg.EasyHeap, cfg.LookEvery = envoy.Listener.Addr().String(), limit, time.Millisecond
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = New(cfg).Run(ctx) })
			for range 5 { // looks, after each but the last of which it would have been asked
				<-looks
			}
			if c.asked {
				<-asked
			}
			stop()
			running.Wait()
			if !c.asked && len(asked) > 0 {
				t.Errorf("asked %d times", len(asked))
			}
		})
	}
}
