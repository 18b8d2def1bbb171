package appprobe

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
)

// TestStrangersTakeNoTurns: whoever has the app asked for what takes long, as often as he may, a kubelet has its answers.
func TestStrangersTakeNoTurns(t *testing.T) {
	const many = 32 // of each, the hook's as of a pod that was injected before hooks were at secret paths
	hooks, release := make(chan struct{}, many), make(chan struct{})
	var slow, most atomic.Int32
	app := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/drain":
			hooks <- struct{}{}
			<-release
		case "/slow":
			most.Store(max(most.Load(), slow.Add(1)))
			<-release
			slow.Add(-1)
		}
	}))
	defer app.Close()
	port := portOf(t, app.URL)
	probes, err := Parse(fmt.Sprintf(`{"/app-health/web/livez":{"httpGet":{"path":"/slow","port":%[1]d},"timeoutSeconds":600},
		"/app-health/web/readyz":{"httpGet":{"path":"/ok","port":%[1]d},"timeoutSeconds":60},"%[2]s":{"httpGet":{"path":"/drain","port":%[1]d},"timeoutSeconds":600}}`, port, hookPath))
	if err != nil {
		t.Fatal(err)
	}
	h := Handler(probes, netip.MustParseAddr("127.0.0.1"), slog.New(slog.DiscardHandler))
	ask := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	var strangers sync.WaitGroup
	for range many {
		strangers.Go(func() { ask(hookPath) })
	}
	for range maxHooks { // all that are let in at once
		<-hooks
	}
	for range many {
		strangers.Go(func() { ask("/app-health/web/livez") })
	}
	if status := ask("/app-health/web/readyz"); status != http.StatusOK {
		t.Errorf("the kubelet's probe: %d", status)
	}
	close(release)
	strangers.Wait()
	if most.Load() != 1 {
		t.Errorf("a probe was performed %d times at once", most.Load())
	}
}

// TestWithoutTheInitStep: where nothing added ::6, nothing catches what comes from another address.
func TestWithoutTheInitStep(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip(err)
	}
	defer func() { _ = l.Close() }()
	probes := Probes{"/app-health/web/livez": {TCPSocket: &TCPSocket{Port: uint16(l.Addr().(*net.TCPAddr).Port)}, TimeoutSeconds: 60}}
	w := httptest.NewRecorder()
	Handler(probes, netip.IPv6Loopback(), slog.New(slog.DiscardHandler)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/app-health/web/livez", nil))
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
