package forward

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // what client-go takes
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	streaming "k8s.io/streaming/pkg/httpstream"
)

// Tunnel leads to one pod. Its methods may be called at the same time.
type Tunnel struct {
	pod  string // NAMESPACE/NAME
	conn httpstream.Connection
	next atomic.Int64  // request ids, which pair a connection's two streams
	over chan struct{} // closed by Close
	once sync.Once
}

// Open makes a tunnel to a pod. Close ends it, and every connection through it.
func Open(ctx context.Context, config *rest.Config, namespace, pod string) (*Tunnel, error) {
	dialer, err := newDialer(config, namespace, pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s/%s: %w", namespace, pod, err)
	}
	type opened struct {
		conn     httpstream.Connection
		protocol string
		err      error
	}
	done := make(chan opened, 1)
	go func() { // client-go's dialers take no context
		conn, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- opened{conn, protocol, err}
	}()
	var o opened
	select {
	case <-ctx.Done():
		go func() {
			if late := <-done; late.conn != nil {
				_ = late.conn.Close()
			}
		}()
		return nil, fmt.Errorf("pod %s/%s: connecting through the API server: %w", namespace, pod, context.Cause(ctx))
	case o = <-done:
	}
	if o.err != nil {
		return nil, fmt.Errorf("pod %s/%s: connecting through the API server: %w", namespace, pod, o.err)
	}
	if o.protocol != portforward.PortForwardProtocolV1Name {
		return nil, errors.Join(fmt.Errorf("pod %s/%s: the API server speaks %q, not %q", namespace, pod, o.protocol, portforward.PortForwardProtocolV1Name), o.conn.Close())
	}
	return &Tunnel{pod: namespace + "/" + pod, conn: o.conn, over: make(chan struct{})}, nil
}

// newDialer tries a WebSocket, and SPDY where that is not known, as kubectl does.
func newDialer(config *rest.Config, namespace, pod string) (httpstream.Dialer, error) {
	target, err := portforwardURL(config, namespace, pod)
	if err != nil {
		return nil, err
	}
	overWebSocket, err := portforward.NewSPDYOverWebsocketDialer(target, config)
	if err != nil {
		return nil, err
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, err
	}
	overSPDY := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, target)
	return portforward.NewFallbackDialer(overWebSocket, overSPDY, func(err error) bool {
		return streaming.IsUpgradeFailure(err) || streaming.IsHTTPSProxyError(err)
	}), nil
}

func portforwardURL(config *rest.Config, namespace, pod string) (*url.URL, error) {
	core := rest.CopyConfig(config)
	core.APIPath, core.GroupVersion, core.NegotiatedSerializer = "/api", &corev1.SchemeGroupVersion, scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(core)
	if err != nil {
		return nil, err
	}
	return client.Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL(), nil
}

// Dial connects to a port of the pod's loopback. That nobody listens there is an error of the connection's first Read.
func (t *Tunnel) Dial(_ context.Context, port uint16) (net.Conn, error) {
	select {
	case <-t.over:
		return nil, fmt.Errorf("pod %s: port %d: the tunnel is closed", t.pod, port)
	case <-t.conn.CloseChan(): // where a new stream would wait for its time limit
		return nil, fmt.Errorf("pod %s: port %d: the tunnel is closed by the other end", t.pod, port)
	default:
	}
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(t.next.Add(1), 10))
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	refusal, err := t.conn.CreateStream(headers)
	if err != nil {
		return nil, fmt.Errorf("pod %s: port %d: the tunnel is closed: %w", t.pod, port, err)
	}
	_ = refusal.Close() // nothing is sent on it
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := t.conn.CreateStream(headers)
	if err != nil {
		t.conn.RemoveStreams(refusal)
		return nil, fmt.Errorf("pod %s: port %d: the tunnel is closed: %w", t.pod, port, err)
	}
	return newConn(t, port, data, refusal), nil
}

// Close ends the tunnel and the connections through it.
func (t *Tunnel) Close() error {
	t.once.Do(func() { close(t.over) })
	return t.conn.Close()
}
