package replicas

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/replicas/replicaspb"
	"github.com/sallyport/sallyport/xds/serve"
)

// mostAsked bounds how many policies are asked about at a time.
const mostAsked = 10_000

// Server answers the leading replica.
type Server struct {
	replicaspb.UnimplementedReplicasServer

	Replica string      // its name
	Own     identity.ID // of all replicas
	Ask     func([]config.Key) map[config.Key]serve.Enforcement
	// Gateways are the addresses of gateways' pods that are connected to it.
	Gateways func() []string
}

// Register adds it to a gRPC server.
func (s *Server) Register(g grpc.ServiceRegistrar) { replicaspb.RegisterReplicasServer(g, s) }

// Enforcing says how far this replica's proxies are.
func (s *Server) Enforcing(ctx context.Context, q *replicaspb.EnforcingRequest) (*replicaspb.EnforcingResponse, error) {
	if id, ok := identity.FromContext(ctx); !ok || id != s.Own {
		return nil, status.Errorf(codes.PermissionDenied, "replicas: %s is no controller", id)
	}
	if len(q.Policies) > mostAsked {
		return nil, status.Errorf(codes.InvalidArgument, "replicas: %d policies are asked about, at most %d may be", len(q.Policies), mostAsked)
	}
	keys := make([]config.Key, len(q.Policies))
	for i, p := range q.Policies {
		keys[i] = config.Key{Kind: config.KindEgressPolicy, Namespace: p.Namespace, Name: p.Name}
	}
	found := s.Ask(keys)
	out := &replicaspb.EnforcingResponse{Replica: s.Replica, Gateways: s.Gateways()}
	for _, key := range keys {
		e := found[key]
		out.Enforcements = append(out.Enforcements, &replicaspb.Enforcement{
			Revision: e.Revision, Selected: uint32(e.Selected), Current: uint32(e.Current), Behind: e.Behind, Refuses: e.Refuses, Refusal: e.Refusal,
			Endless: uint32(e.Endless), EndlessAt: e.EndlessAt,
		})
	}
	return out, nil
}
