package relay

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// session is one stream of Envoy's.
type session struct {
	out     chan *discoveryv3.DeltaDiscoveryResponse
	over    chan struct{} // closed by the loop: replaced, or ended
	greeted bool          // the loop's own: its first request has come
}

// request is what came on a session: a request, or the error that ended it.
type request struct {
	from *session
	*discoveryv3.DeltaDiscoveryRequest
	err error
}

// StreamAggregatedResources is the state-of-the-world protocol, which the relay does not speak.
func (r *Relay) StreamAggregatedResources(grpc.BidiStreamingServer[discoveryv3.DiscoveryRequest, discoveryv3.DiscoveryResponse]) error {
	return status.Error(codes.Unimplemented,
		"this agent serves delta xDS only: set api_type: DELTA_GRPC in dynamic_resources.ads_config of Envoy's bootstrap")
}

// DeltaAggregatedResources serves Envoy until the stream ends or another one replaces it.
func (r *Relay) DeltaAggregatedResources(stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) error {
	ctx := stream.Context()
	s := &session{out: make(chan *discoveryv3.DeltaDiscoveryResponse), over: make(chan struct{})}
	select {
	case r.sessions <- s:
	case <-r.stopped:
		return status.Error(codes.Unavailable, "the agent is stopping")
	case <-ctx.Done():
		return ctx.Err()
	}
	go r.receive(s, stream)
	for {
		select {
		case response := <-s.out:
			if err := stream.Send(response); err != nil {
				return err
			}
		case <-s.over:
			return status.Error(codes.Aborted, "another stream has replaced this one, or the agent is stopping")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive passes requests to the loop until the stream ends, which it does when its handler returns.
func (r *Relay) receive(s *session, stream grpc.BidiStreamingServer[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]) {
	for {
		req, err := stream.Recv()
		select {
		case r.requests <- request{from: s, DeltaDiscoveryRequest: req, err: err}:
		case <-r.stopped:
			return
		}
		if err != nil {
			return
		}
	}
}
