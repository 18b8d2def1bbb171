package serve

import (
	"context"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// deltaResponse is go-control-plane's view of an answer. Its resources are shared; only the envelope is its own.
type deltaResponse struct {
	request  *discovery.DeltaDiscoveryRequest
	out      *outgoing         // where it goes
	payload  *payload          // nil for none
	removed  []string          // sorted
	versions map[string]string // what a named subscription knows after it
}

// GetDeltaDiscoveryResponse gives the envelope. It is called by the stream's own goroutine, right before it is sent.
func (r *deltaResponse) GetDeltaDiscoveryResponse() (*discovery.DeltaDiscoveryResponse, error) {
	m := &discovery.DeltaDiscoveryResponse{TypeUrl: r.request.GetTypeUrl(), RemovedResources: r.removed}
	if r.out.next = nil; r.payload != nil {
		r.out.next, m.SystemVersionInfo = r.payload, r.payload.version
	}
	return m, nil
}

func (r *deltaResponse) GetDeltaRequest() *discovery.DeltaDiscoveryRequest { return r.request }
func (r *deltaResponse) GetSystemVersion() (string, error)                 { return "", nil }
func (r *deltaResponse) GetResponseVersion() string                        { return "" }
func (r *deltaResponse) GetNextVersionMap() map[string]string              { return r.versions }
func (r *deltaResponse) GetReturnedResources() map[string]string           { return r.versions }
func (r *deltaResponse) GetContext() context.Context                       { return context.Background() }

func (r *deltaResponse) upserts() int {
	if r.payload == nil {
		return 0
	}
	return r.payload.count
}

func (r *deltaResponse) empty() bool { return r.upserts() == 0 && len(r.removed) == 0 }
