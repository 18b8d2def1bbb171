package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/sidecar/status/appprobe"
	"github.com/sallyport/sallyport/xds/netcap"
)

// Config says where to listen and whom to ask.
type Config struct {
	Log        *slog.Logger
	StatusAddr string // HOST:PORT, Istio's is :15020
	ReadyAddr  string // HOST:PORT, Istio's is :15021

	Admin   string // HOST:PORT of Envoy's admin interface
	Metrics prometheus.Gatherer
	Ready   func() error // why the agent's part is not ready; nil if it is
	Relay   func(ctx context.Context, versions bool) (any, error)
	Pods    func() any // what a node's agent serves; nil: it serves none
	Quit    func()     // begins the agent's end
	// DNS shows and clears what the resolver keeps, below /dns/; nil: nothing is there.
	DNS http.Handler
	// AppProbes performs the probes of the application below /app-health/ and /app-lifecycle/; nil: there are none.
	AppProbes http.Handler
}

// Server is the two listeners.
type Server struct {
	cfg           Config
	client        *http.Client
	status, ready net.Listener
}

// Listen opens both listeners, or none. Port 0 takes a free one.
func Listen(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: 30 * time.Second}}}
	var err error
	if s.status, err = listen(cfg.StatusAddr); err != nil {
		return nil, fmt.Errorf("status: %w", err)
	}
	if s.ready, err = listen(cfg.ReadyAddr); err != nil {
		return nil, errors.Join(fmt.Errorf("readiness: %w", err), s.status.Close())
	}
	return s, nil
}

// limits are for each of the two. Everybody in the cluster reaches them; the kubelet, which ends pods that do not answer,
// must always.
var limits = netcap.Limits{All: 512, Each: 16}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	return netcap.Listen(l, limits), nil
}

// Addrs are the addresses really listened on: of the status page and of readiness.
func (s *Server) Addrs() (status, ready string) {
	return s.status.Addr().String(), s.ready.Addr().String()
}

// Run serves until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	all := http.NewServeMux()
	all.HandleFunc("GET /healthz/ready", s.serveReady)
	all.HandleFunc("GET /metrics", s.serveMetrics)
	all.HandleFunc("GET /stats/prometheus", s.serveMetrics) // where Istio's annotations point
	all.HandleFunc("GET /debug/relay", local(s.serveRelay))
	all.HandleFunc("POST /quitquitquit", local(s.serveQuit))
	if s.cfg.Pods != nil {
		all.HandleFunc("GET /debug/pods", local(s.servePods))
	}
	if s.cfg.DNS != nil {
		all.Handle("/dns/", local(s.cfg.DNS.ServeHTTP))
	}
	if s.cfg.AppProbes != nil {
		all.Handle("GET "+appprobe.HealthPrefix, s.cfg.AppProbes)
		all.Handle("GET "+appprobe.LifecyclePrefix, s.cfg.AppProbes)
	}
	one := http.NewServeMux()
	one.HandleFunc("GET /healthz/ready", s.serveReady)

	defer s.client.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	serve(ctx, group, s.status, all)
	serve(ctx, group, s.ready, one)
	return group.Wait()
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// patience is how long a client may take to ask, and takeWithin how long to take the page of metrics.
const (
	patience   = 5 * time.Second
	takeWithin = 30 * time.Second
)

func serve(ctx context.Context, group *errgroup.Group, listener net.Listener, handler http.Handler) {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patience, ReadTimeout: patience, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("status: %s: %w", listener.Addr(), err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		return server.Close()
	})
}

// local lets only the pod itself in. The proxy connects to its pod from another address of loopback (wire.PassthroughSource), whoever it does so for.
func local(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if peer := from.Addr().Unmap(); err != nil || peer != loopback4 && peer != netip.IPv6Loopback() {
			http.Error(w, "only from the pod itself (loopback)", http.StatusForbidden)
			return
		}
		next(w, r)
	}
}

func (s *Server) serveRelay(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
	defer cancel()
	status, err := s.cfg.Relay(ctx, r.URL.Query().Has("versions"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.answer(w, r, status)
}

func (s *Server) servePods(w http.ResponseWriter, r *http.Request) { s.answer(w, r, s.cfg.Pods()) }

func (s *Server) answer(w http.ResponseWriter, r *http.Request, status any) {
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	if err := out.Encode(status); err != nil {
		s.cfg.Log.Debug("a status was not sent", "path", r.URL.Path, "err", err)
	}
}

func (s *Server) serveQuit(w http.ResponseWriter, r *http.Request) {
	s.cfg.Log.Info("asked to end", "path", r.URL.Path, "from", r.RemoteAddr)
	w.WriteHeader(http.StatusOK)
	s.cfg.Quit()
}
