package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/store"
)

// auditJob runs beside the audit server until ctx ends.
type auditJob func(context.Context, *store.Store) error

// together runs jobs, those that are not nil.
func together(jobs []auditJob) auditJob {
	return func(ctx context.Context, s *store.Store) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, job := range jobs {
			if job != nil {
				g.Go(func() error { return job(ctx, s) })
			}
		}
		return g.Wait()
	}
}

// metricsJob serves /metrics at an address; nil for none.
func metricsJob(addr string, registry *prometheus.Registry) (auditJob, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics-addr %q: %w", addr, err)
	}
	return func(ctx context.Context, _ *store.Store) error { return serveMetrics(ctx, l, registry) }, nil
}

// serveMetrics answers /metrics until ctx ends.
func serveMetrics(ctx context.Context, l net.Listener, registry *prometheus.Registry) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--metrics-addr: %w", err)
	}
	return nil
}
