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

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// Authorize says whether the peer of a stream may be the node that it says it is, and gives the node that it is: what
// decides about its configuration, such as labels, may be known better than from itself. The plaintext port, which is
// for loopback only, takes everybody at their word. It must not wait for anything: the cache is held meanwhile.
type Authorize func(ctx context.Context, n translate.Node) (translate.Node, error)

// Server speaks xDS: ADS and each type alone, delta and state of the world.
type Server struct {
	cache     *Cache
	log       *slog.Logger
	authorize Authorize
	metrics   *Metrics
	large     semaphore
	machines  Machines // nil where nobody follows them

	mu      sync.Mutex
	streams map[streamKey]*stream
	open    map[streamKey]context.Context // streams that have not said who they are
}

// streamKey tells delta streams from others: go-control-plane counts them apart.
type streamKey struct {
	delta bool
	id    int64
}

// NewServer makes a server of the cache. Several may share one (one for each port, with its own Authorize).
func NewServer(c *Cache, authorize Authorize, m *Metrics, log *slog.Logger) *Server {
	return &Server{
		cache: c, log: log, authorize: authorize, metrics: m, large: make(semaphore, atOnce),
		streams: map[streamKey]*stream{}, open: map[streamKey]context.Context{},
	}
}

// Register offers the services on a gRPC server that uses Codec. Streams end with ctx.
func (s *Server) Register(ctx context.Context, g *grpc.Server) {
	x := services{gcpserver.NewServer(ctx, s.cache, (*callbacks)(s), sotw.WithOrderedADS())}
	discovery.RegisterAggregatedDiscoveryServiceServer(g, x)
	clusterservice.RegisterClusterDiscoveryServiceServer(g, x)
	endpointservice.RegisterEndpointDiscoveryServiceServer(g, x)
	listenerservice.RegisterListenerDiscoveryServiceServer(g, x)
	routeservice.RegisterRouteDiscoveryServiceServer(g, x)
}

// callbacks are what go-control-plane tells about its streams.
type callbacks Server

func (s *callbacks) opened(ctx context.Context, key streamKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[key] = ctx
	return nil
}

// asked makes sure that the stream is known, and gives the node that identifies it to the cache: requests after
// the first one need not carry it, and may carry another copy. It is called for one request of a stream at a time.
func (s *callbacks) asked(key streamKey, node *core.Node) (*stream, error) {
	s.mu.Lock()
	st, ctx := s.streams[key], s.open[key]
	s.mu.Unlock()
	if st != nil {
		return st, nil
	}
	if node == nil {
		return nil, status.Error(codes.InvalidArgument, "xds: the first request must carry the node")
	}
	proxy, err := parseNode(node, !key.delta)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, "xds: "+err.Error())
	}
	st = &stream{id: key.id, done: ctx.Done()}
	st.out, _ = ctx.Value(outgoingKey{}).(*outgoing)
	if err := s.cache.join(st, func() (translate.Node, error) { return s.authorize(ctx, proxy) }); err != nil {
		s.log.Warn("a proxy was turned away", "node", node.GetId(), "error", err)
		return nil, err
	}
	s.mu.Lock()
	s.streams[key] = st
	s.mu.Unlock()
	s.machineCame(st)
	s.metrics.connected.Inc()
	s.log.Info("a proxy connected", "node", st.node.GetId(), "delta", key.delta)
	return st, nil
}

func (s *callbacks) closed(key streamKey) {
	s.mu.Lock()
	st := s.streams[key]
	delete(s.open, key)
	delete(s.streams, key)
	s.mu.Unlock()
	if st == nil {
		return
	}
	st.endTurn()
	s.cache.leave(st.node)
	s.machineWent(st)
	s.metrics.connected.Dec()
	s.log.Info("a proxy left", "node", st.node.GetId())
}

// refused tells of a refusal. A refused version is not sent again; the proxy keeps its last good one.
func (s *callbacks) refused(st *stream, url, problem string) {
	if problem != "" {
		s.metrics.refused.WithLabelValues(url).Inc()
		s.log.Error("a proxy refused configuration and keeps what it had", "node", st.node.GetId(), "type", url, "reason", problem)
	}
}

func (s *callbacks) OnDeltaStreamOpen(ctx context.Context, id int64, _ string) error {
	return s.opened(ctx, streamKey{true, id})
}

func (s *callbacks) OnDeltaStreamClosed(id int64, _ *core.Node) { s.closed(streamKey{true, id}) }

func (s *callbacks) OnStreamDeltaRequest(id int64, req *discovery.DeltaDiscoveryRequest) error {
	st, err := s.asked(streamKey{true, id}, req.GetNode())
	if err != nil {
		return err
	}
	req.Node = st.node
	if s.healthTold(st, req.GetTypeUrl(), req.GetErrorDetail()) {
		return nil
	}
	t, ok := resource.ParseType(req.GetTypeUrl())
	if !ok {
		return nil
	}
	if nonce, problem := req.GetResponseNonce(), problem(req.GetErrorDetail()); nonce != "" {
		st.stats.heard(t, nonce, problem)
		s.refused(st, req.GetTypeUrl(), problem)
	}
	st.stats.dropped(t, req.GetResourceNamesUnsubscribe())
	st.pace.wait(req, t, st.done)
	return nil
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

func (s *callbacks) OnStreamDeltaResponse(id int64, _ *discovery.DeltaDiscoveryRequest, resp *discovery.DeltaDiscoveryResponse) {
	if st, t := s.responding(streamKey{true, id}, resp.GetTypeUrl()); st != nil {
		content, _ := st.out.next.(*payload)
		st.stats.responded(t, resp.GetNonce(), content, resp.GetRemovedResources())
	}
}

func (s *callbacks) OnStreamOpen(ctx context.Context, id int64, _ string) error {
	return s.opened(ctx, streamKey{false, id})
}

func (s *callbacks) OnStreamClosed(id int64, _ *core.Node) { s.closed(streamKey{false, id}) }

func (s *callbacks) OnStreamRequest(id int64, req *discovery.DiscoveryRequest) error {
	st, err := s.asked(streamKey{false, id}, req.GetNode())
	if err != nil {
		return err
	}
	req.Node = st.node
	if s.healthTold(st, req.GetTypeUrl(), req.GetErrorDetail()) {
		return nil
	}
	t, ok := resource.ParseType(req.GetTypeUrl())
	if nonce, problem := req.GetResponseNonce(), problem(req.GetErrorDetail()); ok && nonce != "" {
		st.stats.heardWhole(t, nonce, req.GetVersionInfo(), problem)
		s.refused(st, req.GetTypeUrl(), problem)
	}
	return nil
}

func (s *callbacks) OnStreamResponse(_ context.Context, id int64, _ *discovery.DiscoveryRequest, resp *discovery.DiscoveryResponse) {
	if st, t := s.responding(streamKey{false, id}, resp.GetTypeUrl()); st != nil {
		st.stats.respondedWhole(t, resp.GetNonce(), resp.GetVersionInfo())
	}
}

// responding is called before an answer is sent. It may block: that delays this stream only. It gives the stream, nil
// when nothing is kept of it.
func (s *callbacks) responding(key streamKey, url string) (*stream, resource.Type) {
	s.mu.Lock()
	st := s.streams[key]
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

func (s *callbacks) OnFetchRequest(context.Context, *discovery.DiscoveryRequest) error { return nil }
func (s *callbacks) OnFetchResponse(*discovery.DiscoveryRequest, *discovery.DiscoveryResponse) {
}
