package appprobe

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/redirect"
	"github.com/sallyport/sallyport/sidecar/redirect/kernel"
)

// TestPastTheRedirection asks an application in a pod whose traffic is caught, as the proxy's user: a connection from
// 127.0.0.6 reaches the application, any other of that user's is sent to the proxy's inbound port, where nobody is.
func TestPastTheRedirection(t *testing.T) {
	if err := world.CanNamespace(); err != nil {
		t.Skip(err)
	}
	run, err := world.NewRun()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := run.Close(); err != nil {
			t.Error(err)
		}
	})
	w, err := world.New(run)
	if err != nil {
		t.Fatal(err)
	}
	options, err := redirect.Bind(pflag.NewFlagSet("", pflag.ContinueOnError)).Options(false)
	if err != nil {
		t.Fatal(err)
	}
	app, err := w.App.Listen(":8080")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.Close() }()
	address := netip.AddrPortFrom(world.AppAddr, 8080)
	probes := Probes{"/app-health/web/livez": {TCPSocket: &TCPSocket{Port: 8080}}}
	err = w.App.Do(func() error {
		if err := kernel.Apply(t.Context(), redirect.Build(options), redirect.Divert{}, kernel.Run{Wait: 5 * time.Second, Log: slog.New(slog.DiscardHandler)}); err != nil {
			return err
		}
		return asProxy(func() error {
			recorder := httptest.NewRecorder()
			Handler(probes, address.Addr(), slog.New(slog.DiscardHandler)).
				ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/app-health/web/livez", nil))
			if recorder.Code != http.StatusOK {
				return fmt.Errorf("the probe: %d", recorder.Code)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address.String())
			if err == nil {
				return fmt.Errorf("a connection from %s was not caught: the test proves nothing (%w)", conn.LocalAddr(), conn.Close())
			}
			return nil
		})
	})
	if err != nil {
		t.Error(err)
	}
}

// asProxy calls f on this thread with the proxy's user and group for the sockets that it opens.
func asProxy(f func() error) error {
	for _, set := range []func(int) error{syscall.Setfsgid, syscall.Setfsuid} {
		if err := set(world.ProxyUID); err != nil {
			return err
		}
	}
	defer func() { _ = syscall.Setfsuid(0) }()
	defer func() { _ = syscall.Setfsgid(0) }()
	return f()
}
