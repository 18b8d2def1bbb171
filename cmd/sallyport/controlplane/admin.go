package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sallyport/sallyport/xds/translate"
)

// serveAdmin is for operators and the CLI.
func (p *plane) serveAdmin(ctx context.Context, l net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", p.readyz)
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/proxies", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.cache.Proxies()) })
	mux.HandleFunc("GET /debug/findings", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.findings.Load()) })
	mux.HandleFunc("GET /debug/xds", p.debugXDS)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
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

// debugXDS shows what a connected proxy is programmed with.
func (p *plane) debugXDS(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("proxy")
	view, ok := p.cache.ViewOf(id)
	if !ok {
		http.Error(w, "no proxy with the id "+id+" is connected; see /debug/proxies", http.StatusNotFound)
		return
	}
	dump, err := translate.Dump(view)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, dump)
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
}
