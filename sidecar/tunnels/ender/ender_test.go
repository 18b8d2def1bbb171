package ender

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

func TestEnder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	asked := make(chan sockdiag.Connection, 1)
	var answer, cannot error
	s := &Server{Log: slog.New(slog.DiscardHandler), Ports: []uint16{8443}, End: func(c sockdiag.Connection) error {
		asked <- c
		return answer
	}, Can: func() error { return cannot }}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	go func() { served <- s.Serve(ctx, l) }()
	client := NewClient(path)
	gateway := netip.MustParseAddrPort("10.0.0.20:8443")
	c := sockdiag.Connection{Local: gateway, Remote: netip.MustParseAddrPort("[2001:db8::7]:40000"), Cookie: 1<<63 + 7}
	if err := client.End(ctx, c); err != nil {
		t.Error(err)
	}
	if got := <-asked; got != c {
		t.Errorf("asked to end %+v, want %+v", got, c)
	}
	answer = sockdiag.ErrGone
	if err := client.End(ctx, c); !errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("of one that has ended: %v", err)
	}
	<-asked
	answer = errors.New("no right to")
	if err := client.End(ctx, c); err == nil || !strings.Contains(err.Error(), "no right to") {
		t.Errorf("of one that cannot be ended: %v", err)
	}
	<-asked
	c.Local = netip.MustParseAddrPort("10.0.0.20:15020")
	if err := client.End(ctx, c); err == nil || !strings.Contains(err.Error(), "15020") || len(asked) > 0 {
		t.Errorf("of another port: %v", err)
	}
	if err := client.Can(ctx); err != nil {
		t.Errorf("of one who has the right to: %v", err)
	}
	cannot = errors.New("it needs CAP_NET_ADMIN")
	if err := client.Can(ctx); err == nil || !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
		t.Errorf("of one who has none: %v", err)
	}
	stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := client.End(t.Context(), c); err == nil || errors.Is(err, sockdiag.ErrGone) {
		t.Errorf("without a server: %v", err)
	}
	if client.Can(t.Context()) == nil {
		t.Error("nobody can end connections")
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(path) // where a former process has left something
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
}
