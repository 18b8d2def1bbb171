package forward

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // what client-go takes
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // what client-go takes
	constants "k8s.io/apimachinery/pkg/util/portforward"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
)

// node plays the API server and the kubelet: it forwards ports of the pod default/web to this machine's loopback.
type node struct {
	t          *testing.T
	webSockets bool // whether it knows them
	forbidden  bool
	methods    chan string // how each tunnel was asked for

	mu    sync.Mutex
	pairs map[string]httpstream.Stream // error streams that wait for their data stream, by request id
}

func startNode(t *testing.T, n *node) *rest.Config {
	n.t, n.methods, n.pairs = t, make(chan string, 10), map[string]httpstream.Stream{}
	s := httptest.NewServer(n)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.methods <- r.Method
	switch {
	case r.URL.Path != "/api/v1/namespaces/default/pods/web/portforward":
		http.NotFound(w, r)
	case n.forbidden:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"pods \"web\" is forbidden: cannot create resource \"pods/portforward\""}`)
	case websocket.IsWebSocketUpgrade(r) && n.webSockets:
		n.overWebSocket(w, r)
	case websocket.IsWebSocketUpgrade(r):
		http.Error(w, "no WebSockets here", http.StatusBadRequest)
	default:
		n.overSPDY(w, r)
	}
}

func (n *node) overWebSocket(w http.ResponseWriter, r *http.Request) {
	upgrader := websocket.Upgrader{Subprotocols: []string{constants.WebsocketsSPDYTunnelingPortForwardV1}}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		n.t.Error(err)
		return
	}
	c, err := spdy.NewServerConnection(portforward.NewTunnelingConnection("server", ws), n.stream)
	if err != nil {
		n.t.Error(err)
		return
	}
	<-c.CloseChan()
}

func (n *node) overSPDY(w http.ResponseWriter, r *http.Request) {
	if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
		n.t.Error(err)
		return
	}
	if c := spdy.NewResponseUpgrader().UpgradeResponse(w, r, n.stream); c != nil {
		<-c.CloseChan()
	}
}

// stream pairs the two streams of a connection, and connects it.
func (n *node) stream(s httpstream.Stream, replied <-chan struct{}) error {
	id := s.Headers().Get(corev1.PortForwardRequestIDHeader)
	if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.pairs[id] = s
		return nil
	}
	n.mu.Lock()
	refusal := n.pairs[id]
	delete(n.pairs, id)
	n.mu.Unlock()
	go func() {
		<-replied
		defer func() { _, _ = refusal.Close(), s.Close() }()
		port, _ := strconv.Atoi(s.Headers().Get(corev1.PortHeader))
		to, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			_, _ = io.WriteString(refusal, err.Error())
			return
		}
		go func() {
			_, _ = io.Copy(to, s)
			_ = to.Close()
		}()
		_, _ = io.Copy(s, to)
	}()
	return nil
}
