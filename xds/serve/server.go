package serve

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	clusterservice "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpointservice "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listenerservice "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	routeservice "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/sotw/v3"
	gcpserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/config/pacedlog"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// Authorize says whether the peer of a stream may be the node that it says it is, and gives the node that it is: what
// decides about its configuration, such as labels, may be known better than from itself. The plaintext port, which is
// for loopback only, takes everybody at their word. It must not wait for anything: the cache is held meanwhile.
type Authorize func(ctx context.Context, n translate.Node) (translate.Node, error)

// Server speaks xDS: ADS and each type alone, delta and state of the world.
type Server struct {
	cache     *Cache
	log       *slog.Logger
	told      *slog.Logger // what proxies say, and cause
	authorize Authorize
	metrics   *Metrics
	large     semaphore
	machines  Machines // nil where nobody follows them

	ended <-chan struct{} // streams end with it

	mu      sync.Mutex
	streams map[int64]*stream         // of the state of the world, by go-control-plane's numbers
	open    map[int64]context.Context // those that have not said who they are
}

// NewServer makes a server of the cache. Several may share one (one for each port, with its own Authorize).
func NewServer(c *Cache, authorize Authorize, m *Metrics, log *slog.Logger) *Server {
	return &Server{
		cache: c, log: log, told: pacedlog.New(log, maxProblem+len("…")), authorize: authorize, metrics: m, large: make(semaphore, atOnce),
		streams: map[int64]*stream{}, open: map[int64]context.Context{},
	}
}

// Register offers the services on a gRPC server that uses Codec. Streams end with ctx.
func (s *Server) Register(ctx context.Context, g grpc.ServiceRegistrar) {
	s.ended = ctx.Done()
	x := services{gcpserver.NewServer(ctx, s.cache, (*callbacks)(s), sotw.WithOrderedADS()), s}
	discovery.RegisterAggregatedDiscoveryServiceServer(g, x)
	clusterservice.RegisterClusterDiscoveryServiceServer(g, x)
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, x)
	listenerservice.RegisterListenerDiscoveryServiceServer(g, x)
	routeservice.RegisterRouteDiscoveryServiceServer(g, x)
}

// introduced lets a stream in whose first request carries the node.
func (s *Server) introduced(ctx context.Context, node *core.Node, delta bool) (*stream, error) {
	if node == nil {
		return nil, status.Error(codes.InvalidArgument, "xds: the first request must carry the node")
	}
	proxy, err := parseNode(node, !delta)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "xds: "+err.Error())
	}
	st := &stream{done: ctx.Done(), ends: node.GetMetadata().GetFields()[wire.EndsConnectionsMetadata].GetStringValue()}
	if err := s.cache.join(st, func() (translate.Node, error) { return s.authorize(ctx, proxy) }); err != nil {
		s.told.Warn("a proxy was turned away", "node", node.GetId(), "error", err)
		return nil, err
	}
	if _, err := topologyOf(node); err != nil {
		s.told.Warn("what a proxy says of the proxies in front of it does not count", "node", st.node.GetId(), "error", err)
	}
	s.machineCame(st)
	s.metrics.connected.Inc()
	s.log.Info("a proxy connected", "node", st.node.GetId(), "delta", delta)
	return st, nil
}

// gone forgets a stream that has ended.
func (s *Server) gone(st *stream) {
	s.cache.leave(st.node)
	s.machineWent(st)
	s.metrics.connected.Dec()
	s.log.Info("a proxy left", "node", st.node.GetId())
}

// refused tells of a refusal. A refused version is not sent again; the proxy keeps its last good one.
func (s *Server) refused(st *stream, url, problem string) {
	if problem != "" {
		s.metrics.refused.WithLabelValues(url).Inc()
		s.told.Error("a proxy refused configuration and keeps what it had", "node", st.node.GetId(), "type", url, "reason", problem)
	}
}

// heardDelta takes a request on a delta stream.
func (s *Server) heardDelta(st *stream, req *discovery.DeltaDiscoveryRequest) error {
	if s.healthTold(st, req.GetTypeUrl(), req.GetErrorDetail()) {
		return nil
	}
	t, ok := resource.ParseType(req.GetTypeUrl())
	if !ok {
		return nil // a type that is not served here: never an answer, as for an empty set that stays empty
	}
	if nonce, problem := req.GetResponseNonce(), problem(req.GetErrorDetail()); nonce != "" {
		st.stats.heard(t, nonce, problem)
		s.refused(st, req.GetTypeUrl(), problem)
	}
	if err := boundDelta(req); err != nil {
		return err
	}
	st.stats.dropped(t, req.GetResourceNamesUnsubscribe())
	st.pace.wait(req, t, st.done)
	return s.cache.hear(st, t, req)
}

// problem is why a client refuses a response; "" when it does not.
func problem(detail *rpcstatus.Status) string {
	if detail == nil {
		return ""
	}
	why := cmp.Or(detail.GetMessage(), "it does not say why")
	if len(why) > maxProblem {
		why = strings.ToValidUTF8(why[:maxProblem], "") + "…"
	}
	return why
}

// maxProblem is how many bytes are kept of what a proxy says about its refusal: what Envoy says has a few hundred, and
// the proxy of a pod may say what its owner likes.
const maxProblem = 4 << 10

// callbacks are what go-control-plane tells about its streams, which are those of the state of the world.
type callbacks Server

func (s *callbacks) OnStreamOpen(ctx context.Context, id int64, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[id] = ctx
	return nil
}

func (s *callbacks) OnStreamClosed(id int64, _ *core.Node) {
	s.mu.Lock()
	st := s.streams[id]
	delete(s.open, id)
	delete(s.streams, id)
	s.mu.Unlock()
	if st != nil {
		st.endTurn()
		(*Server)(s).gone(st)
	}
}

// asked makes sure that the stream is known, and gives the node that identifies it to the cache: requests after
// the first one need not carry it, and may carry another copy. It is called for one request of a stream at a time.
func (s *callbacks) asked(id int64, node *core.Node) (*stream, error) {
	s.mu.Lock()
	st, ctx := s.streams[id], s.open[id]
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	st, err := (*Server)(s).introduced(ctx, node, false)
	if err != nil {
		return nil, err
	}
	st.out, _ = ctx.Value(outgoingKey{}).(*outgoing)
	s.mu.Lock()
	s.streams[id] = st
	s.mu.Unlock()
	return st, nil
}

func (s *callbacks) OnStreamRequest(id int64, req *discovery.DiscoveryRequest) error {
	st, err := s.asked(id, req.GetNode())
	if err != nil {
		return err
	}
	req.Node = st.node
	if (*Server)(s).healthTold(st, req.GetTypeUrl(), req.GetErrorDetail()) {
		return nil
	}
	t, ok := resource.ParseType(req.GetTypeUrl())
	if nonce, problem := req.GetResponseNonce(), problem(req.GetErrorDetail()); ok && nonce != "" {
		st.stats.heardWhole(t, nonce, req.GetVersionInfo(), problem)
		(*Server)(s).refused(st, req.GetTypeUrl(), problem)
	}
	if err := boundNames(req.GetResourceNames()); err != nil {
		return err
	}
	if ok {
		req.ResourceNames = s.cache.withoutUnknown(st, t, req.GetResourceNames())
	}
	return nil
}

func (s *callbacks) OnStreamResponse(_ context.Context, id int64, _ *discovery.DiscoveryRequest, resp *discovery.DiscoveryResponse) {
	if st, t := s.responding(id, resp.GetTypeUrl()); st != nil {
		st.stats.respondedWhole(t, resp.GetNonce(), resp.GetVersionInfo())
	}
}

// responding is called before an answer is sent. It may block: that delays this stream only. It gives the stream, nil
// when nothing is kept of it.
func (s *callbacks) responding(id int64, url string) (*stream, resource.Type) {
	s.mu.Lock()
	st := s.streams[id]
	s.mu.Unlock()
	t, ok := resource.ParseType(url)
	if !ok || st == nil {
		return nil, 0
	}
	if st.out.nextBytes() >= large {
		st.endTurn()
		st.turn = s.large.acquire(st.done)
		st.out.written = st.turn
	}
	s.metrics.pushes.WithLabelValues(url).Inc()
	return st, t
}

// The rest of what go-control-plane may tell of does not come.

func (s *callbacks) OnDeltaStreamOpen(context.Context, int64, string) error { return nil }
func (s *callbacks) OnDeltaStreamClosed(int64, *core.Node)                  {}
func (s *callbacks) OnStreamDeltaRequest(int64, *discovery.DeltaDiscoveryRequest) error {
	return nil
}
func (s *callbacks) OnStreamDeltaResponse(int64, *discovery.DeltaDiscoveryRequest, *discovery.DeltaDiscoveryResponse) {
}
func (s *callbacks) OnFetchRequest(context.Context, *discovery.DiscoveryRequest) error { return nil }
func (s *callbacks) OnFetchResponse(*discovery.DiscoveryRequest, *discovery.DiscoveryResponse) {
}
