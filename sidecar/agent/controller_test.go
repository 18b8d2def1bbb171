package agent

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/e2e/freeport"
	"github.com/sallyport/sallyport/sidecar/relay"
	"github.com/sallyport/sallyport/xds/digest"
)

// controller is go-control-plane's server on linear caches, with a record of what was sent. It can be stopped and
// started again on the same address.
type controller struct {
	t      *testing.T
	addr   string
	caches map[string]*cache.LinearCache
	server *grpc.Server

	mu   sync.Mutex
	sent map[string]int // resource name → how often since the last start
	nack []string       // reasons
	node *corev3.Node
}

func newController(t *testing.T) *controller {
	addr, err := freeport.Addr() // which it has when it is started again, too
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{t: t, addr: addr, caches: map[string]*cache.LinearCache{}}
	for _, url := range []string{relay.ClusterType, relay.ListenerType, relay.RouteType, relay.EndpointType, name.TypeURL, digest.Type} {
		c.caches[url] = cache.NewLinearCache(url)
	}
	t.Cleanup(func() { c.stop() })
	c.start()
	return c
}

func (c *controller) start() {
	c.t.Helper()
	listener, err := net.Listen("tcp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	c.mu.Lock()
	c.sent = map[string]int{}
	c.mu.Unlock()
	mux := &cache.MuxCache{
		Classify:      func(r *cache.Request) string { return r.GetTypeUrl() },
		ClassifyDelta: func(r *cache.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cache.Cache{},
	}
	for url, one := range c.caches {
		mux.Caches[url] = one
	}
	c.server = grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(c.server, serverv3.NewServer(context.Background(), mux, serverv3.CallbackFuncs{
		StreamDeltaRequestFunc:  c.heard,
		StreamDeltaResponseFunc: c.said,
	}))
	go func(s *grpc.Server) { _ = s.Serve(listener) }(c.server)
}

func (c *controller) stop() {
	if c.server != nil {
		c.server.Stop()
		c.server = nil
	}
}

func (c *controller) heard(_ int64, req *discoveryv3.DeltaDiscoveryRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if req.GetErrorDetail() != nil {
		c.nack = append(c.nack, req.GetErrorDetail().GetMessage())
	}
	if req.GetNode() != nil {
		c.node = req.GetNode()
	}
	return nil
}

func (c *controller) said(_ int64, _ *discoveryv3.DeltaDiscoveryRequest, resp *discoveryv3.DeltaDiscoveryResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range resp.GetResources() {
		c.sent[r.GetName()]++
	}
}

func (c *controller) sentOf(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent[name]
}

func (c *controller) nacks() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.nack...)
}

func (c *controller) set(url string, resources map[string]types.Resource) {
	c.t.Helper()
	if err := c.caches[url].UpdateResources(resources, nil); err != nil {
		c.t.Fatal(err)
	}
}

// cluster is a static one; policy makes it one that Envoy rejects.
func cluster(name string, bad bool) *clusterv3.Cluster {
	c := &clusterv3.Cluster{
		Name: name, ConnectTimeout: durationpb.New(time.Second),
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
	}
	if bad {
		c.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	}
	return c
}

// route answers every request with a text.
func route(text string) *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: "80", VirtualHosts: []*routev3.VirtualHost{{
		Name: "any", Domains: []string{"*"},
		Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
				Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: text}},
			}},
		}},
	}}}
}

// podsListeners are the two that a pod cannot do without; the first answers at the port.
func podsListeners(t *testing.T, port int) map[string]types.Resource {
	t.Helper()
	out := map[string]types.Resource{}
	for i, name := range podListeners {
		l := listener(t, port*(1-i)) // the other one is at a free port
		l.Name = name
		out[name] = l
	}
	return out
}

func listener(t *testing.T, port int) *listenerv3.Listener {
	t.Helper()
	manager := pack(t, &hcmv3.HttpConnectionManager{
		StatPrefix: "in",
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{RouteConfigName: "80", ConfigSource: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		}}},
		HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(t, &routerv3.Router{})}}},
	})
	return &listenerv3.Listener{
		Name: "in",
		Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "127.0.0.1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(port)},
		}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{{
			Name: "hcm", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: manager},
		}}}},
	}
}

// host is a name resource without addresses: its wire format is that of a StringValue.
func host(text string) types.Resource { return wrapperspb.String(text) }

// refuseRest refuses all names that have no resource: beside the name there is what StringValue does not know.
func refuseRest() types.Resource { return rest(name.Defaults{Refuse: true}) }

func rest(r name.Defaults) types.Resource {
	m := wrapperspb.String(name.Everything)
	whole := name.Name{Host: name.Everything, Defaults: &r}.Marshal()
	m.ProtoReflect().SetUnknown(whole[len(name.Name{Host: name.Everything}.Marshal()):])
	return m
}

func pack(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	out, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
