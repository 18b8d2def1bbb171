package controlplane

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/egress/audit/ingest"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/istioca"
	"github.com/sallyport/sallyport/xds/identity/meshtls"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/identity/token"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

// A client may have window bytes under way, and callWindow on a call, which are kept while it waits for who it is to be found out. Who reads a longer message opens the
// call's window for it. Fixed ones spare the pings by which this library would otherwise estimate the bandwidth behind every acknowledgement.
const (
	window     = 256 << 10
	callWindow = 64 << 10
)

// writeBuffer is how many bytes are gathered before they are written. When something changes, each stream holds one until its turn to write has come: with
// the library's 32 KiB those of a thousand streams were a fifth of the heap.
const writeBuffer = 8 << 10

// readBuffer is how many bytes of a connection are read at a time. Each connection holds one for good, and what proxies say is acknowledgements of some hundred bytes;
// the rest of a longer message is read past it.
const readBuffer = 1 << 10

// connectionAge is how long a client may stay on what it once proved: after it, give or take a tenth, it has to come
// again, with a token or certificate that is good then. It resumes with what it has, so nothing is sent twice.
const connectionAge = 30 * time.Minute

// options are common to all gRPC ports: clients that vanished are noticed, none may send much at once, and thousands
// of mostly silent connections keep small buffers only.
func options(more ...grpc.ServerOption) []grpc.ServerOption {
	return append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(serve.Codec()),
		grpc.StaticStreamWindowSize(callWindow),
		grpc.StaticConnWindowSize(window),
		grpc.ReadBufferSize(readBuffer),
		grpc.WriteBufferSize(writeBuffer),
		grpc.ConnectionTimeout(patience),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			Time: 30 * time.Second, Timeout: 10 * time.Second, MaxConnectionIdle: patience,
			MaxConnectionAge: connectionAge, MaxConnectionAgeGrace: 10 * time.Second,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(16 << 20),
		grpc.MaxHeaderListSize(64 << 10),
		grpc.MaxConcurrentStreams(128),
	}, more...)
}

// plainServer is xDS for debugging and benchmarks, which takes node ids at their word.
func (p *plane) plainServer(ctx context.Context) *grpc.Server {
	g := grpc.NewServer(options()...)
	serve.NewServer(p.cache, func(_ context.Context, n translate.Node) (translate.Node, error) {
		if n.IsAmbient() {
			return n, status.Error(codes.PermissionDenied, "xds: nodes' proxies are served on the secure port only")
		}
		n.Machine = nil // nobody was authenticated
		n.Plain = true  // no keys go over this port
		return n, nil
	}, p.xds, p.log).Register(ctx, g)
	return g
}

// secure is the port for agents, and what has to run beside it.
type secure struct {
	server *grpc.Server
	jobs   []func(context.Context)
}

// secureServer is xDS, the certificate service and the way in for audit records, for authenticated callers.
func (p *plane) secureServer(ctx context.Context, trustDomain string) (*secure, error) {
	authority, tokens, err := p.vouchers(trustDomain)
	if err != nil {
		return nil, err
	}
	hosts := p.cfg.Hosts
	if p.cluster != nil {
		hosts = append(servertls.ServiceHosts(p.cluster.Service, p.cluster.Namespace), hosts...)
	}
	tls, err := servertls.New(servertls.Options{CA: authority, Hosts: servertls.Hosts(hosts...)})
	if err != nil {
		return nil, err
	}
	guard := identity.NewGuard(identity.FirstOf(identity.Certificate{TrustDomain: trustDomain, Aliases: p.trustDomainAliases}, tokens), p.log, p.metrics)
	g := grpc.NewServer(options(
		grpc.Creds(credentials.NewTLS(tls)), grpc.UnaryInterceptor(guard.Unary), grpc.StreamInterceptor(guard.Stream))...)
	xds := serve.NewServer(p.cache, p.ownNode, p.xds, p.log)
	xds.Follow(p.machines)
	services := identity.Before(g)
	xds.Register(ctx, services)
	istioca.New(istioca.Options{CA: authority, Tokens: tokens, OfPod: p.cluster != nil, Unbound: p.joins, Impersonate: p.impersonate, TTL: p.cfg.CertTTL, Metrics: p.metrics, Log: p.log}).Register(services)
	s := &secure{server: g, jobs: []func(context.Context){func(ctx context.Context) { authority.Watch(ctx, 10*time.Second) }}}
	if p.cluster != nil {
		p.cluster.replicas(p, authority).Register(services)
		s.jobs = append(s.jobs, func(ctx context.Context) { <-ctx.Done(); _ = p.cluster.others.Close() })
	}
	conn, err := p.auditConnection(authority)
	if err != nil || conn == nil {
		return s, err
	}
	records := ingest.NewServer(ingest.NewClient(conn), p.ownRecord, p.log)
	records.Limit(func() float64 { return p.snapshot.Load().Mesh.Audit.RecordsPerSecond })
	records.Share(func(ctx context.Context) string {
		id, _ := identity.FromContext(ctx)
		return id.String()
	})
	records.Register(services)
	if p.cluster != nil {
		p.foresight = newForesight(p, conn)
	}
	s.jobs = append(s.jobs, func(ctx context.Context) { p.tellPresence(ctx, conn); _ = conn.Close() })
	return s, nil
}

// trustDomainAliases are the mesh settings' newest.
func (p *plane) trustDomainAliases() []string {
	if s := p.snapshot.Load(); s != nil {
		return s.Mesh.TrustDomainAliases
	}
	return nil
}

// vouchers are the CA, and who knows callers that come with a token: the cluster's API server, or without one the
// controller itself, which signed the token.
func (p *plane) vouchers(trustDomain string) (*ca.CA, identity.Authenticator, error) {
	if p.cluster != nil {
		tokens, err := p.cluster.tokens(p, trustDomain)
		return p.cluster.authority, tokens, err
	}
	authority, err := ca.Open(ca.Options{DataDir: p.cfg.DataDir, CACertsDir: p.cfg.CACertsDir, TrustDomain: trustDomain, Log: p.log})
	if err != nil {
		return nil, nil, err
	}
	key, err := token.OpenKey(p.cfg.DataDir)
	if err != nil {
		return nil, nil, err
	}
	return authority, token.NewVerifier(key, trustDomain, nil), nil
}

// auditConnection leads to the audit server: by its socket, or to another pod by mutual TLS; nil when records are not
// taken.
func (p *plane) auditConnection(authority *ca.CA) (*grpc.ClientConn, error) {
	address, how := "unix:"+p.cfg.AuditSocket, insecure.NewCredentials()
	switch {
	case p.cfg.AuditAddress != "" && p.cluster != nil:
		own := p.cluster.own(authority)
		server := own
		server.ServiceAccount = AuditAccount
		address, how = p.cfg.AuditAddress, credentials.NewTLS(meshtls.Client(meshtls.NewOwn(authority, own), server))
	case p.cfg.AuditAddress != "":
		return nil, WrongSetting{fmt.Errorf("--audit-address %q: only the controller of a cluster hands records to another pod; leave it out, and let this one run the audit server (--audit)", p.cfg.AuditAddress)}
	case p.cfg.AuditSocket == "":
		return nil, nil
	}
	// A server whose pod was replaced is noticed in seconds: records wait with the proxies meanwhile, and nobody reads them.
	reconnect := backoff.DefaultConfig
	reconnect.MaxDelay = 5 * time.Second
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(how),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		return nil, fmt.Errorf("audit server: %w", err)
	}
	return conn, nil
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
