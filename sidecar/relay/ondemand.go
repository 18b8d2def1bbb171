package relay

import (
	"context"
	"log/slog"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sallyport/sallyport/xds/ondemand"
)

// OnDemand hands Envoy the clusters that it asks for by name. The controller sends the agent all of them, so a host
// that was never used before works without the controller too; Envoy holds only those in use.
//
// Bodies stay on disk, with the rest of what the relay keeps; here are names and versions.
type OnDemand struct {
	clusterv3.UnimplementedClusterDiscoveryServiceServer

	log  *slog.Logger
	body func(ctx context.Context, name string) (*discoveryv3.Resource, error) // nil where there is none
	warm func(ctx context.Context, endpoints []string) error                   // Envoy has taken clusters that wait for them

	mu      sync.Mutex
	known   map[string]string // name → version
	ready   chan struct{}     // closed when the first set has come
	streams map[*demand]struct{}
}

// NewOnDemand makes one; Watch must be among the watches of the relay that Attach is called with.
func NewOnDemand(log *slog.Logger) *OnDemand {
	return &OnDemand{log: log, known: map[string]string{}, ready: make(chan struct{}), streams: map[*demand]struct{}{}}
}

// Attach names the relay that keeps the bodies, and offers the service beside it.
func (o *OnDemand) Attach(r *Relay, server grpc.ServiceRegistrar) {
	o.body = func(ctx context.Context, name string) (found *discoveryv3.Resource, err error) {
		err = r.call(ctx, func() {
			table := r.machine.kind(ondemand.ClusterType).table
			if _, ok := table.Version(name); ok {
				found, err = table.Resource(name)
			}
		})
		return found, err
	}
	o.warm = func(ctx context.Context, endpoints []string) error {
		return r.call(ctx, func() { r.machine.warm(endpoints) })
	}
	clusterv3.RegisterClusterDiscoveryServiceServer(server, o)
}

// Watch follows the set of clusters.
func (o *OnDemand) Watch() Watch {
	return Watch{TypeURL: ondemand.ClusterType, Apply: func(changed []*discoveryv3.Resource, removed []string) map[string]error {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, r := range changed {
			o.known[r.GetName()] = r.GetVersion()
		}
		for _, name := range removed {
			delete(o.known, name)
		}
		select {
		case <-o.ready:
		default:
			close(o.ready)
		}
		for s := range o.streams {
			s.poke()
		}
		return nil
	}}
}

// version gives what is current; "" for a cluster that does not exist.
func (o *OnDemand) version(name string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.known[name]
}

// StreamClusters is the state-of-the-world protocol, which is not spoken here.
func (o *OnDemand) StreamClusters(grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	return status.Error(codes.Unimplemented, "this agent serves delta xDS only")
}

// DeltaClusters serves one of Envoy's on-demand subscriptions: it has one for each filter that may ask.
func (o *OnDemand) DeltaClusters(stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	ctx := stream.Context()
	select {
	case <-o.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	d := newDemand(o)
	o.mu.Lock()
	o.streams[d] = struct{}{}
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		delete(o.streams, d)
		o.mu.Unlock()
	}()
	return d.serve(ctx, stream)
}
