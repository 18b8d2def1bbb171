package serve_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
)

// plane is a control plane without sources, for tests and benchmarks of many streams: a registry, a cache and a server
// on loopback, where each stream has a connection of its own.
type plane struct {
	t        testing.TB
	registry *registry.Registry
	cache    *serve.Cache
	metrics  *prometheus.Registry
	addr     string
	version  uint64
}

func startPlane(t testing.TB, hosts ...string) *plane {
	t.Helper()
	cfg := mesh.Default()
	p := &plane{t: t, registry: registry.New(&cfg), metrics: prometheus.NewRegistry()}
	var changes []config.Change
	for _, h := range hosts {
		changes = append(changes, p.entry(h, "*"))
	}
	s, _ := p.registry.Apply(changes)
	p.cache = serve.NewCache(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.addr = l.Addr().String()
	g := grpc.NewServer(grpc.ForceServerCodecV2(serve.Codec()))
	ctx, cancel := context.WithCancel(context.Background())
	everybody := func(_ context.Context, n translate.Node) (translate.Node, error) { return n, nil }
	serve.NewServer(p.cache, everybody, serve.NewMetrics(p.metrics), slog.New(slog.DiscardHandler)).Register(ctx, g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	t.Cleanup(func() {
		cancel()
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return p
}

// entry registers a host that is exported to a namespace ("*" for all): each time as another version.
func (p *plane) entry(host, exportTo string) config.Change {
	p.version++
	key := config.Key{Kind: config.KindServiceEntry, Namespace: mesh.Default().RootNamespace, Name: host}
	return config.Change{Key: key, Object: &config.Object{
		Key: key, Hash: p.version,
		Spec: &networking.ServiceEntry{
			Hosts: []string{host}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
			Ports:     []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 443, Name: "tls", Protocol: "TLS"}},
			Addresses: []string{fmt.Sprintf("203.0.113.%d", p.version%200)}, ExportTo: []string{exportTo},
		},
	}}
}

func (p *plane) publish(changes ...config.Change) { p.cache.Publish(p.registry.Apply(changes)) }

// peer is a delta stream to a plane.
type peer struct {
	t      testing.TB
	conn   *grpc.ClientConn
	stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
	node   *core.Node
	close  func()
}

// pod is the node of a pod in a namespace that nobody ever heard of.
func pod(name, ns string) *core.Node {
	return &core.Node{Id: fmt.Sprintf("sidecar~10.1.2.3~%s.%s~%s.svc.cluster.local", name, ns, ns)}
}

func (p *plane) join(n *core.Node, options ...grpc.DialOption) *peer {
	p.t.Helper()
	conn, err := grpc.NewClient("passthrough:"+p.addr, append(options, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))...)
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &peer{t: p.t, conn: conn, stream: stream, node: n, close: func() { cancel(); _ = conn.Close() }}
	p.t.Cleanup(c.close)
	return c
}

func (c *peer) send(r *discovery.DeltaDiscoveryRequest) {
	c.t.Helper()
	r.Node = c.node
	if err := c.stream.Send(r); err != nil {
		c.t.Fatal(err)
	}
}

// ask subscribes to a type: to names, or to everything.
func (c *peer) ask(t resource.Type, names ...string) {
	c.t.Helper()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: t.URL(), ResourceNamesSubscribe: names})
}

// next receives a response without acknowledging it.
func (c *peer) next() *discovery.DeltaDiscoveryResponse {
	c.t.Helper()
	r, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	return r
}

// take receives a response and acknowledges it.
func (c *peer) take() *discovery.DeltaDiscoveryResponse {
	c.t.Helper()
	r := c.next()
	c.send(&discovery.DeltaDiscoveryRequest{TypeUrl: r.GetTypeUrl(), ResponseNonce: r.GetNonce()})
	return r
}
