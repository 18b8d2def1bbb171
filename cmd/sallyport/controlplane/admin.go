package controlplane

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/pprof"

	"github.com/sallyport/sallyport/xds/translate"
)

// serveAdmin is for operators and the CLI.
func (p *plane) serveAdmin(ctx context.Context, l net.Listener) error {
	mux := p.health()
	mux.HandleFunc("GET /debug/proxies", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.cache.Proxies()) })
	mux.HandleFunc("GET /debug/policies", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.enforced()) })
	mux.HandleFunc("GET /debug/findings", func(w http.ResponseWriter, _ *http.Request) { answer(w, p.cfg.Source.Findings()) })
	mux.HandleFunc("GET /debug/xds", p.debugXDS)
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return serveHTTP(ctx, l, mux)
}

// debugXDS shows what a connected proxy is programmed with.
func (p *plane) debugXDS(w http.ResponseWriter, r *http.Request) {
	id := r.URL.Query().Get("proxy")
	view, policies, ok := p.cache.ViewOf(id)
	if !ok {
		http.Error(w, "no proxy with the id "+id+" is connected; see /debug/proxies", http.StatusNotFound)
		return
	}
	dump, err := translate.Dump(view, policies)
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
