package controlplane

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// ExplainSocket is where, in the data folder, a control plane without a cluster answers what it would decide. Who may write
// to the folder may ask.
const ExplainSocket = "explain.sock"

// explain answers from the configuration that is in force: as sidecars follow it, or as the forward proxy does.
func (p *plane) explain(w http.ResponseWriter, r *http.Request) {
	question := policy.QuestionOf(r.URL.Query())
	d, err := question.Destination()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s := p.snapshot.Load()
	if ns := p.cfg.ForwardFor; ns != "" && question.Gateway != "" {
		http.Error(w, "--gateway: nothing comes in by up; leave it out", http.StatusBadRequest)
		return
	} else if ns != "" {
		answer(w, policy.Explain(policy.Workload{Namespace: ns}, d, policy.DecideForward(s, ns, d)))
		return
	}
	from, to, err := question.Workloads()
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e, err := question.Answer(s, from, to, d)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, e)
}

// serveExplain serves the socket until ctx ends. What keeps it from that is said, and stops nothing else.
func (p *plane) serveExplain(ctx context.Context) {
	at := filepath.Join(p.cfg.DataDir, ExplainSocket)
	_ = os.Remove(at) // of one that ended without notice
	l, err := net.Listen("unix", at)
	if err != nil {
		p.log.Warn("explain --data cannot be answered", "socket", at, "error", err)
		return
	}
	if err := os.Chmod(at, 0o600); err != nil {
		p.log.Warn("explain --data cannot be answered", "socket", at, "error", err)
		_ = l.Close()
		return
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /explain", p.explain)
	mux.HandleFunc("GET /policy/list", p.listPolicies)
	mux.HandleFunc("GET /policy/matrix", p.policyMatrix)
	if err := serveHTTP(ctx, l, mux); err != nil {
		p.log.Warn("explain --data is no longer answered", "socket", at, "error", err)
	}
}
