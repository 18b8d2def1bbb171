package controlplane

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
)

// TestBodiesThatDoNotCome: who says half of a request to a port that anybody in the cluster reaches is not kept, whether somebody reads the body or not.
func TestBodiesThatDoNotCome(t *testing.T) {
	kept := patience
	patience = 200 * time.Millisecond
	defer func() { patience = kept }()
	handlers := map[string]http.HandlerFunc{
		"nobody reads": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) },
		"it is read":   func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
	}
	for what, handler := range handlers {
		for port, serve := range map[string]func(net.Listener) error{
			"health":   func(l net.Listener) error { return serveStrangers(t.Context(), l, handler) },
			"webhooks": func(l net.Listener) error { return webhookServer(handler, slog.New(slog.DiscardHandler)).Serve(l) },
		} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- serve(l) }()
			for _, text := range []string{"", "GET /healthz HT", "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc"} {
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.WriteString(c, text)
				_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%s, %s, after %q: still open", port, what, text)
				}
				_ = c.Close()
			}
			_ = l.Close()
			<-served
		}
	}
}

// TestSilentClients: who connects to a gRPC port and says nothing, or no more than HTTP/2's beginning, is not kept.
func TestSilentClients(t *testing.T) {
	kept := patience
	patience = 200 * time.Millisecond
	defer func() { patience = kept }()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(options()...)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	defer func() {
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	for name, beginning := range map[string]func(net.Conn) error{
		"nothing": func(net.Conn) error { return nil },
		"HTTP/2's beginning": func(c net.Conn) error {
			_, err := io.WriteString(c, http2.ClientPreface)
			return errors.Join(err, http2.NewFramer(c, c).WriteSettings())
		},
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if err := beginning(c); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: still open", name)
		}
		_ = c.Close()
	}
}
