package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/e2e/leaks"
)

// TestMain checks for leaks. When a connection ends with an error, spdystream offers that for ten minutes to whoever
// might ask for it.
func TestMain(m *testing.M) {
	leaks.Verify(m, goleak.IgnoreAnyFunction("github.com/moby/spdystream.(*Connection).shutdown"))
}

// application is a server on this machine's loopback, which plays the pod's.
func application(t *testing.T) uint16 {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello "+r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return netip.MustParseAddrPort(s.Listener.Addr().String()).Port()
}

func TestTunnel(t *testing.T) {
	for name, tt := range map[string]struct {
		webSockets bool
		methods    string
	}{
		"WebSocket":                {true, "GET"},
		"SPDY where it is refused": {false, "GET POST"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{webSockets: tt.webSockets}
			tunnel, err := Open(t.Context(), startNode(t, n), "default", "web")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tunnel.Close() }()
			port := application(t)
			client := http.Client{Transport: &http.Transport{
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return tunnel.Dial(ctx, port) },
			}}
			defer client.CloseIdleConnections()
			for _, path := range []string{"/a", "/b"} {
				resp, err := client.Get("http://web" + path)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if err != nil || string(body) != "hello "+path {
					t.Errorf("%q, %v", body, err)
				}
			}
			close(n.methods)
			var methods []string
			for m := range n.methods {
				methods = append(methods, m)
			}
			if got := strings.Join(methods, " "); got != tt.methods {
				t.Errorf("asked by %s, want %s", got, tt.methods)
			}
		})
	}
}

// TestNobodyListens: what the other end says is the error.
func TestNobodyListens(t *testing.T) {
	tunnel, err := Open(t.Context(), startNode(t, &node{webSockets: true}), "default", "web")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tunnel.Close() }()
	free, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	c, err := tunnel.Dial(t.Context(), uint16(free))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "pod default/web:") {
		t.Errorf("%v", err)
	}
}

// TestClosedTunnel ends the connections that are open, and gives no new ones.
func TestClosedTunnel(t *testing.T) {
	tunnel, err := Open(t.Context(), startNode(t, &node{webSockets: true}), "default", "web")
	if err != nil {
		t.Fatal(err)
	}
	c, err := tunnel.Dial(t.Context(), application(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := tunnel.Close(); err != nil {
		t.Error(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.As(err, &timeout) && timeout.Timeout() {
		t.Errorf("reading from a closed tunnel: %v", err)
	}
	_ = c.Close()
	if _, err := tunnel.Dial(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "the tunnel is closed") {
		t.Errorf("%v", err)
	}
}

func TestOpenFails(t *testing.T) {
	if _, err := Open(t.Context(), startNode(t, &node{forbidden: true}), "default", "web"); err == nil || !strings.Contains(err.Error(), "pods/portforward") {
		t.Errorf("forbidden: %v", err)
	}
	if _, err := Open(t.Context(), startNode(t, &node{webSockets: true}), "default", "other"); err == nil || !strings.Contains(err.Error(), "pod default/other") {
		t.Errorf("no such pod: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, startNode(t, &node{webSockets: true}), "default", "web"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestReady(t *testing.T) {
	pod := func(name string, phase corev1.PodPhase, ready corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "istio-system", Name: name, Labels: map[string]string{"app": "sallyport"}},
			Status:     corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	client := fake.NewClientset(pod("b", corev1.PodRunning, "True"), pod("a", corev1.PodRunning, "True"), pod("c", corev1.PodRunning, "False"), pod("d", corev1.PodFailed, "False"))
	ready, not, err := Ready(t.Context(), client.CoreV1(), "istio-system", "app=sallyport")
	if err != nil || len(ready) != 2 || ready[0].Name != "a" || len(not) != 1 || not[0] != "c" {
		t.Errorf("%d ready, not %v, %v", len(ready), not, err)
	}
	for _, tt := range []struct{ namespace, want string }{
		{"elsewhere", "namespace elsewhere: there is no pod with the label app=sallyport; is the control plane in another namespace?"},
		{"istio-system", "no pod with the label app=sallyport is ready: c;"},
	} {
		client := fake.NewClientset(pod("c", corev1.PodPending, "False"))
		var none *NoneError
		if _, _, err := Ready(t.Context(), client.CoreV1(), tt.namespace, "app=sallyport"); !errors.As(err, &none) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
