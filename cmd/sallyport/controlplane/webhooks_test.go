package controlplane

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

// noticed is a listener that tells when it is closed.
type noticed struct {
	net.Listener
	closed chan struct{}
}

func (n noticed) Close() error {
	select {
	case <-n.closed:
	default:
		close(n.closed)
	}
	return n.Listener.Close()
}

// TestServeToTheEnd: a call that is under way when the end comes is answered before it is over.
func TestServeToTheEnd(t *testing.T) {
	open, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := noticed{open, make(chan struct{})}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	answered := make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		end()
		<-l.closed
		_, _ = io.WriteString(w, "the answer")
		close(answered)
	})
	over := make(chan error, 1)
	go func() {
		err := serveToTheEnd(ctx, &http.Server{Handler: handler}, l)
		select {
		case <-answered:
		default:
			t.Error("it is over, and a call has no answer")
		}
		over <- err
	}()
	resp, err := http.Get("http://" + open.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || string(body) != "the answer" {
		t.Errorf("%q, %v", body, err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
