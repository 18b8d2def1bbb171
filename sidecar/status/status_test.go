package status

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// fakes is what the server reports about.
type fakes struct {
	envoy   *httptest.Server
	live    atomic.Bool
	ready   atomic.Pointer[error]
	quit    chan struct{}
	status  string
	readyAt string
}

func serveFakes(t *testing.T) *fakes {
	t.Helper()
	f := &fakes{quit: make(chan struct{}, 1)}
	f.envoy = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/stats/prometheus":
			fmt.Fprintln(w, "envoy_server_live 1")
		case r.URL.Path == "/ready" && !f.live.Load():
			http.Error(w, "INITIALIZING", http.StatusServiceUnavailable)
		}
	}))
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "sallyport_agent_test", Help: "A test."}))
	s, err := Listen(Config{
		Log: slog.New(slog.DiscardHandler), StatusAddr: "127.0.0.1:0", ReadyAddr: "127.0.0.1:0",
		Admin: strings.TrimPrefix(f.envoy.URL, "http://"), Metrics: registry,
		Ready: func() error {
			if err := f.ready.Load(); err != nil {
				return *err
			}
			return nil
		},
		Relay:     func(_ context.Context, versions bool) (any, error) { return map[string]bool{"versions": versions}, nil },
		Quit:      func() { f.quit <- struct{}{} },
		DNS:       http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "dns ", r.Method, r.URL.Path) }),
		AppProbes: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "asked ", r.URL.Path) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	status, ready := s.Addrs()
	f.status, f.readyAt = "http://"+status, "http://"+ready
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		f.envoy.Close()
	})
	return f
}

func call(t *testing.T, method, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func TestReadiness(t *testing.T) {
	f := serveFakes(t)
	ask := func(want int, text string) {
		t.Helper()
		for _, at := range []string{f.status, f.readyAt} {
			if code, body := call(t, http.MethodGet, at+"/healthz/ready"); code != want || !strings.Contains(body, text) {
				t.Errorf("%d %q, want %d %q", code, body, want, text)
			}
		}
	}
	ask(503, "INITIALIZING")
	f.live.Store(true)
	ask(200, "ready")
	why := errors.New("no clusters yet")
	f.ready.Store(&why)
	ask(503, "no clusters yet")
	f.ready.Store(nil)
	f.envoy.Close()
	ask(503, "does not answer")
}

func TestMetricsOfBoth(t *testing.T) {
	f := serveFakes(t)
	for _, path := range []string{"/metrics", "/stats/prometheus"} {
		code, body := call(t, http.MethodGet, f.status+path)
		if code != 200 || !strings.Contains(body, "sallyport_agent_test 0\n") || !strings.HasSuffix(body, "envoy_server_live 1\n") {
			t.Errorf("%d\n%s", code, body)
		}
	}
	f.envoy.Close()
	if code, body := call(t, http.MethodGet, f.status+"/metrics"); code != 200 || !strings.Contains(body, "sallyport_agent_test 0\n") {
		t.Errorf("without Envoy: %d\n%s", code, body)
	}
}

func TestDebugAndQuit(t *testing.T) {
	f := serveFakes(t)
	if _, body := call(t, http.MethodGet, f.status+"/debug/relay?versions"); !strings.Contains(body, `"versions": true`) {
		t.Error(body)
	}
	if code, _ := call(t, http.MethodGet, f.status+"/quitquitquit"); code != http.StatusMethodNotAllowed {
		t.Errorf("GET /quitquitquit: %d", code)
	}
	if code, _ := call(t, http.MethodPost, f.readyAt+"/quitquitquit"); code != http.StatusNotFound {
		t.Errorf("POST /quitquitquit at the kubelet's port: %d", code)
	}
	if code, _ := call(t, http.MethodPost, f.status+"/quitquitquit"); code != http.StatusOK {
		t.Errorf("POST /quitquitquit: %d", code)
	}
	<-f.quit
}

func TestOthersAreNotLocal(t *testing.T) {
	for from, want := range map[string]int{
		"127.0.0.1:5": 200, "[::1]:5": 200, "[::ffff:127.0.0.1]:5": 200, "10.0.0.1:5": 403,
		"127.0.0.6:5": 403, "[::ffff:127.0.0.6]:5": 403, "[::6]:5": 403, // what the proxy lets in "[2001:db8::1]:5": 403, "nonsense": 403,
	} {
		r := httptest.NewRequest(http.MethodPost, "/quitquitquit", nil)
		r.RemoteAddr = from
		w := httptest.NewRecorder()
		local(func(http.ResponseWriter, *http.Request) {})(w, r)
		if w.Code != want {
			t.Errorf("from %s: %d, want %d", from, w.Code, want)
		}
	}
}

// TestDNSIsForOperators: what the resolver keeps is shown on the status page, to the pod itself.
func TestDNSIsForOperators(t *testing.T) {
	f := serveFakes(t)
	for path, method := range map[string]string{"/dns/cache": http.MethodGet, "/dns/flush": http.MethodPost, "/dns/upstreams": http.MethodGet} {
		if code, body := call(t, method, f.status+path); code != http.StatusOK || body != "dns "+method+path {
			t.Errorf("%s %s: %d %q", method, path, code, body)
		}
		if code, _ := call(t, method, f.readyAt+path); code != http.StatusNotFound {
			t.Errorf("%s %s at the readiness port: %d", method, path, code)
		}
	}
}

func TestTakenAddress(t *testing.T) {
	f := serveFakes(t)
	taken := strings.TrimPrefix(f.status, "http://")
	if _, err := Listen(Config{StatusAddr: "127.0.0.1:0", ReadyAddr: taken}); err == nil || !strings.Contains(err.Error(), "readiness") {
		t.Errorf("got %v", err)
	}
}

func TestProbesOfTheApplication(t *testing.T) {
	f := serveFakes(t)
	for _, path := range []string{"/app-health/web/livez", "/app-lifecycle/web/prestopz"} {
		if code, body := call(t, http.MethodGet, f.status+path); code != 200 || body != "asked "+path {
			t.Errorf("%s: %d %q", path, code, body)
		}
		if code, _ := call(t, http.MethodGet, f.readyAt+path); code != 404 {
			t.Errorf("%s at the readiness port: %d", path, code)
		}
	}
}
