package controlplane

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/istioca"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/identity/token"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

// window is how many bytes a client may have under way. A fixed one spares the pings by
// which this library would otherwise estimate the bandwidth behind every acknowledgement.
const window = 256 << 10

// connectionAge is how long a client may stay on what it once proved: after it, give or take a tenth, it has to come
// again, with a token or certificate that is good then. It resumes with what it has, so nothing is sent twice.
const connectionAge = 30 * time.Minute

// options are common to all gRPC ports: clients that vanished are noticed, none may send much at once, and thousands
// of mostly silent connections keep small buffers only.
func options(more ...grpc.ServerOption) []grpc.ServerOption {
	return append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(serve.Codec()),
		grpc.StaticStreamWindowSize(window),
		grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(4 << 10),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second,
			MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(16 << 20),
		grpc.MaxConcurrentStreams(1024),
	}, more...)
}

// plainServer is xDS for debugging and benchmarks, which takes node ids at their word.
func (p *plane) plainServer(ctx context.Context) *grpc.Server {
	g := grpc.NewServer(options()...)
	serve.NewServer(p.cache, func(context.Context, translate.Node) error { return nil }, p.xds, p.log).Register(ctx, g)
	return g
}

// secure is the port for agents, and what has to run beside it.
type secure struct {
	server *grpc.Server
	jobs   []func(context.Context)
}

// secureServer is xDS, the certificate service and the way in for audit records, for authenticated callers.
func (p *plane) secureServer(ctx context.Context, trustDomain string) (*secure, error) {
	authority, err := ca.Open(ca.Options{DataDir: p.cfg.DataDir, CACertsDir: p.cfg.CACertsDir, TrustDomain: trustDomain, Log: p.log})
	if err != nil {
		return nil, err
	}
	key, err := token.OpenKey(p.cfg.DataDir)
	if err != nil {
		return nil, err
	}
	tls, err := servertls.New(servertls.Options{CA: authority, Hosts: servertls.Hosts(p.cfg.Hosts...)})
	if err != nil {
		return nil, err
	}
	guard := identity.NewGuard(identity.FirstOf(
		identity.Certificate{TrustDomain: trustDomain},
		token.NewVerifier(key, trustDomain, nil),
	), p.log, p.metrics)
	g := grpc.NewServer(options(
		grpc.Creds(credentials.NewTLS(tls)), grpc.UnaryInterceptor(guard.Unary), grpc.StreamInterceptor(guard.Stream))...)
	serve.NewServer(p.cache, ownNode, p.xds, p.log).Register(ctx, g)
	istioca.New(istioca.Options{CA: authority, TTL: p.cfg.CertTTL, Metrics: p.metrics, Log: p.log}).Register(g)
	s := &secure{server: g, jobs: []func(context.Context){func(ctx context.Context) { authority.Watch(ctx, time.Minute) }}}
	if p.cfg.AuditSocket != "" {
		conn, err := grpc.NewClient("unix:"+p.cfg.AuditSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return nil, fmt.Errorf("audit server: %w", err)
		}
		ingest.NewServer(ingest.NewClient(conn), p.ownRecord, p.log).Register(g)
		s.jobs = append(s.jobs, func(ctx context.Context) { <-ctx.Done(); _ = conn.Close() })
	}
	return s, nil
}

// ownNode lets a caller have the configuration of its own namespace's proxies only.
func ownNode(ctx context.Context, n translate.Node) error {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "xds: nobody was authenticated")
	}
	if id.Namespace != n.Namespace {
		return status.Errorf(codes.PermissionDenied, "xds: %s may not be the node %q: its namespace is %q", id, n.ID, id.Namespace)
	}
	return nil
}

// ownRecord stamps who reported: a sidecar speaks for its own workload only, and only gateways may speak for others,
// whose certificates they verified.
func (p *plane) ownRecord(ctx context.Context, r *record.Record) error {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return status.Error(codes.Unauthenticated, "audit: nobody was authenticated")
	}
	if ns := serve.NamespaceOf(r.Proxy); ns != id.Namespace {
		return fmt.Errorf("%s may not report as the proxy %q", id, r.Proxy)
	}
	if r.Reporter == record.ReporterGateway {
		if !p.mayBeGateway(id.Namespace) {
			return fmt.Errorf("%s reports as a gateway, but no gateway is in namespace %q", id, id.Namespace)
		}
		return nil
	}
	r.Workload.Principal, r.Workload.Namespace, r.Workload.ServiceAccount = id.String(), id.Namespace, id.ServiceAccount
	return nil
}

// mayBeGateway says whether egress gateways run in a namespace.
func (p *plane) mayBeGateway(ns string) bool {
	s := p.snapshot.Load()
	return ns == s.Mesh.RootNamespace || ns == s.Mesh.DefaultGateway.Namespace || s.HasExitIn(ns)
}

// serveGRPC serves until ctx ends; streams get a moment to end by themselves.
func serveGRPC(ctx context.Context, g *grpc.Server, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() {
		done := make(chan struct{})
		go func() { g.GracefulStop(); close(done) }()
		select {
		case <-done:
		case <-time.After(time.Second):
			g.Stop()
		}
	})
	defer stop()
	err := g.Serve(l)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
