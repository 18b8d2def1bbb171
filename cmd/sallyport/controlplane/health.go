package controlplane

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// health are the paths that may be seen by others than this machine.
func (p *plane) health() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	return mux
}

// serveHTTP serves until ctx ends.
func serveHTTP(ctx context.Context, l net.Listener, handler http.Handler) error {
	return serveUntil(ctx, l, &http.Server{Handler: handler, ReadHeaderTimeout: patience, IdleTimeout: 2 * time.Minute})
}

// serveStrangers does so for those who may be anybody in the cluster, and has them say all that they have to say in a time: a body that
// never comes would hold its connection for ever, also where nobody reads it. Answers may take no longer than that either.
func serveStrangers(ctx context.Context, l net.Listener, handler http.Handler) error {
	return serveUntil(ctx, l, &http.Server{Handler: handler, ReadTimeout: patience, WriteTimeout: 3 * patience, IdleTimeout: patience})
}

func serveUntil(ctx context.Context, l net.Listener, srv *http.Server) error {
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return err
	}
	return nil
}

// readyz says whether the configuration was read once.
func (p *plane) readyz(w http.ResponseWriter, _ *http.Request) {
	select {
	case <-p.ready:
		_, _ = w.Write([]byte("ready\n"))
	default:
		http.Error(w, "the configuration has not been read yet", http.StatusServiceUnavailable)
	}
}
