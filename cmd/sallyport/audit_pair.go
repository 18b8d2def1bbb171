package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/egress/audit/pair"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/store"
	"github.com/sallyport/sallyport/egress/audit/store/server"
	"github.com/sallyport/sallyport/sidecar/secrets"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
)

// takeOver is how long the first server of a pair is away before the second one sends findings.
const takeOver = 5 * time.Minute

// pairFlags are those of two audit servers that keep one log.
type pairFlags struct {
	both       []string // NAME=HOST:PORT
	name, addr string

	other, address string // its name and address
	standsBy       bool   // this one is the second
	metrics        *pair.Metrics
	link           atomic.Pointer[pair.Link]
}

func (f *pairFlags) add(fs *pflag.FlagSet) {
	fs.StringSliceVar(&f.both, "pair", nil, "NAME=HOST:PORT,NAME=HOST:PORT: two audit servers that keep the same log, one of them this one; the first fills the lake and sends records and findings")
	fs.StringVar(&f.name, "pair-name", os.Getenv("POD_NAME"), "this server's name in --pair (default $POD_NAME)")
	fs.StringVar(&f.addr, "pair-addr", ":15019", "where the other server of --pair hands in what it took, with a certificate of the mesh")
}

// check finds calls that cannot work.
func (f *pairFlags) check(ports *auditPorts) error {
	if len(f.both) == 0 {
		return nil
	}
	wrong := func(why string, args ...any) error {
		return program.Misuse(fmt.Errorf("--pair %q: "+why, append([]any{strings.Join(f.both, ",")}, args...)...))
	}
	if len(f.both) != 2 {
		return wrong("it has %d servers: write both, NAME=HOST:PORT,NAME=HOST:PORT", len(f.both))
	}
	if ports.tls == "" {
		return wrong("the two prove who they are with the certificates of --tls-addr, which is missing")
	}
	own := false
	for i, server := range f.both {
		name, address, _ := strings.Cut(server, "=")
		if _, _, err := net.SplitHostPort(address); name == "" || err != nil {
			return wrong("%q is not NAME=HOST:PORT", server)
		}
		if name == f.name {
			if own {
				return wrong("both are called %s", name)
			}
			own, f.standsBy = true, i == 1
		} else {
			f.other, f.address = name, address
		}
	}
	if !own {
		return wrong("neither is --pair-name, %q", f.name)
	}
	return nil
}

// prepare tells the server of its other one; nothing without --pair.
func (f *pairFlags) prepare(o *server.Options, registry *prometheus.Registry) {
	if len(f.both) > 0 {
		f.metrics = pair.NewMetrics()
		registry.MustRegister(f.metrics)
		o.Held = append(o.Held, store.Pair)
	}
}

// others says whether the other server sends what is found here, too, and up to when it did. What it found just before it went it may not have sent.
func (f *pairFlags) others() (send bool, until time.Time) {
	if !f.standsBy {
		return false, time.Time{}
	}
	link := f.link.Load()
	if link == nil {
		return true, time.Time{}
	}
	away := link.Away()
	return away < takeOver, time.Now().Add(-away - 2*takeOver)
}

// open makes the way between the two.
func (f *pairFlags) open(ports *auditPorts, own *secrets.Workload, data string, log *slog.Logger) (*server.Pair, error) {
	other := identity.ID{TrustDomain: ports.trustDomain, Namespace: ports.namespace, ServiceAccount: ports.account}
	conn, err := grpc.NewClient(f.address, grpc.WithTransportCredentials(credentials.NewTLS(meshtls.Client(own, other))),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, MaxDelay: 2 * time.Second}, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--pair %q: %w", f.address, err))
	}
	l, err := listenWithin(recordLimits, f.addr, log)
	if err != nil {
		return nil, program.Misuse(fmt.Errorf("--pair-addr %q: %w", f.addr, err))
	}
	guard := identity.NewGuard(identity.Certificate{TrustDomain: ports.trustDomain}, log, nil)
	alike := func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if id, ok := identity.FromContext(stream.Context()); !ok || id.Namespace != other.Namespace || id.ServiceAccount != other.ServiceAccount {
			return status.Errorf(codes.PermissionDenied, "audit: %s is no server of this log, only %s/%s is", id, other.Namespace, other.ServiceAccount)
		}
		return next(srv, stream)
	}
	return &server.Pair{
		Options:  pair.Options{Name: f.other, Conn: conn, State: filepath.Join(data, query.StoreName, "pair.json"), Metrics: f.metrics},
		Listener: l,
		Server: append(forCertificates(0), // for as long as the other one is there
			grpc.Creds(credentials.NewTLS(meshtls.Server(own))), grpc.ChainStreamInterceptor(guard.Stream, alike), grpc.UnaryInterceptor(guard.Unary)),
		Linked: f.link.Store,
	}, nil
}
