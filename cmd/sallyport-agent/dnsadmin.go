package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sallyport/sallyport/dnsproxy"
)

// listenAdmin binds the address; none is nil.
func listenAdmin(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	return net.Listen("tcp", addr)
}

// serveAdmin answers operators and their metrics until ctx ends.
func serveAdmin(ctx context.Context, l net.Listener, dns *dnsproxy.Server) error {
	metrics := prometheus.NewRegistry()
	if err := metrics.Register(dns); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.Handle("/dns/", dns.Handler())
	server := &http.Server{Handler: mux, ReadTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
