package controlplane

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
)

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
