package relay

import (
	"context"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/sallyport/sallyport/xds/health"
)

// TellHealth says to the controller how the machine is: why it is not well, or "". It is said again on each new stream.
func (r *Relay) TellHealth(ctx context.Context, problem string) error {
	return r.call(ctx, func() {
		r.machine.health = &problem
		if r.machine.connected {
			r.machine.tellHealth()
		}
	})
}

// ForgetHealth is that nobody asks any more how the machine is: no later stream is told what was said.
func (r *Relay) ForgetHealth(ctx context.Context) error {
	return r.call(ctx, func() { r.machine.health = nil })
}

// tellHealth says what is known of the machine, if anything is.
func (m *machine) tellHealth() {
	if m.health == nil {
		return
	}
	req := &discoveryv3.DeltaDiscoveryRequest{TypeUrl: health.Type}
	if *m.health != "" {
		req.ErrorDetail = &statuspb.Status{Code: int32(codes.Internal), Message: *m.health}
	}
	m.tell(req)
}
