package status

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Limits on Envoy's answers.
const (
	readyTimeout = time.Second
	statsTimeout = 10 * time.Second
	maxStats     = 64 << 20 // bytes
)

// serveReady says 200 when the agent's part is ready and Envoy is LIVE, else 503 and why.
func (s *Server) serveReady(w http.ResponseWriter, r *http.Request) {
	if err := s.checkReady(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "ready\n")
}

func (s *Server) checkReady(ctx context.Context) error {
	if err := s.cfg.Ready(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	resp, err := s.admin(ctx, "/ready")
	if err != nil {
		return fmt.Errorf("envoy's admin interface does not answer: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	state, err := io.ReadAll(io.LimitReader(resp.Body, 256))
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("envoy is %q (HTTP %d), not LIVE", strings.TrimSpace(string(state)), resp.StatusCode)
	}
	return nil
}

// serveMetrics writes the agent's metrics, then Envoy's as they are. Their names do not meet: Envoy's begin with
// envoy_. Without Envoy the agent's are worth having alone.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), statsTimeout)
	defer cancel()
	if err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(takeWithin)); err != nil {
		s.cfg.Log.Debug("metrics may take as long as the client likes", "err", err)
	}
	plain := r.Clone(ctx)
	plain.Header.Set("Accept", "text/plain;version=0.0.4")
	promhttp.HandlerFor(s.cfg.Metrics, promhttp.HandlerOpts{DisableCompression: true, ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, plain)
	resp, err := s.admin(ctx, "/stats/prometheus")
	if err != nil {
		s.cfg.Log.Debug("metrics without Envoy's", "err", err)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		s.cfg.Log.Debug("metrics without Envoy's", "status", resp.Status)
		return
	}
	if _, err := io.Copy(w, io.LimitReader(resp.Body, maxStats)); err != nil {
		s.cfg.Log.Debug("metrics were not sent to the end", "err", err)
	}
}

func (s *Server) admin(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.cfg.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	return s.client.Do(req)
}
