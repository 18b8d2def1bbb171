package serve

import (
	"context"
	"slices"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	gcpserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for all other messages
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/resource"
)

// outgoing is what goes by the side of a state-of-the-world stream: go-control-plane hands on the envelopes that it got, and the resources
// belong to the one that is sent next.
type outgoing struct {
	ctx     context.Context
	next    *listing // nil for none
	written func()   // called when all of it was written to the connection; nil for nothing
}

type outgoingKey struct{}

func newOutgoing(ctx context.Context) *outgoing {
	o := &outgoing{}
	o.ctx = context.WithValue(ctx, outgoingKey{}, o)
	return o
}

// message joins an envelope and what belongs to it.
func (o *outgoing) message(envelope proto.Message) *sealedResponse {
	r := &sealedResponse{envelope, o.next, o.written}
	o.next, o.written = nil, nil
	return r
}

// nextBytes is the size of what goes with the next envelope.
func (o *outgoing) nextBytes() int {
	if o.next == nil {
		return 0
	}
	return o.next.size
}

type wholeStream = grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

// wholeOut is a stream with an outgoing, to which its context leads callbacks.
type wholeOut struct {
	wholeStream
	*outgoing
}

func (s wholeOut) Context() context.Context { return s.ctx }

// Send sends the envelope and what belongs to it.
func (s wholeOut) Send(envelope *discovery.DiscoveryResponse) error {
	return s.SendMsg(s.message(envelope))
}

func viaWhole(s wholeStream) wholeOut { return wholeOut{s, newOutgoing(s.Context())} }

// sealedResponse is a response whose resources are encoded already.
type sealedResponse struct {
	envelope proto.Message
	body     *listing
	written  func()
}

// services are delta streams of our own, and go-control-plane's of the state of the world.
type services struct {
	gcpserver.Server
	own *Server
}

func (s services) DeltaAggregatedResources(st deltaStream) error { return s.own.serveDelta(st, "") }
func (s services) DeltaClusters(st deltaStream) error {
	return s.own.serveDelta(st, resource.Cluster.URL())
}
func (s services) DeltaEndpoints(st deltaStream) error {
	return s.own.serveDelta(st, resource.Endpoints.URL())
}
func (s services) DeltaListeners(st deltaStream) error {
	return s.own.serveDelta(st, resource.Listener.URL())
}
func (s services) DeltaRoutes(st deltaStream) error {
	return s.own.serveDelta(st, resource.Route.URL())
}

func (s services) StreamAggregatedResources(st wholeStream) error {
	return s.Server.StreamAggregatedResources(viaWhole(st))
}
func (s services) StreamClusters(st wholeStream) error { return s.Server.StreamClusters(viaWhole(st)) }
func (s services) StreamEndpoints(st wholeStream) error {
	return s.Server.StreamEndpoints(viaWhole(st))
}
func (s services) StreamListeners(st wholeStream) error {
	return s.Server.StreamListeners(viaWhole(st))
}
func (s services) StreamRoutes(st wholeStream) error { return s.Server.StreamRoutes(viaWhole(st)) }

// Codec is gRPC's codec for protobuf, and for what a Server sends. A gRPC server that a Server is registered with
// needs it: grpc.ForceServerCodecV2(serve.Codec()).
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*deltaResponse); ok {
		return r.message(), nil
	}
	r, ok := v.(*sealedResponse)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	envelope, err := proto.Marshal(r.envelope)
	if err != nil {
		return nil, err
	}
	var out mem.BufferSlice
	if r.body != nil {
		out = r.body.appendTo(out)
	}
	if r.written != nil {
		return append(out, noticed(envelope, r.written)), nil
	}
	return append(out, mem.SliceBuffer(envelope)), nil
}

// noticed is a buffer that is written last, of which is told when it was: gRPC lets go of it then.
func noticed(last []byte, written func()) mem.Buffer {
	// Smaller buffers are not given back to a pool.
	last = slices.Grow(last, 4096)
	return mem.NewBuffer(&last, notice(written))
}

// notice is a pool without buffers that calls a function when it is given one back.
type notice func()

// Get is not called.
func (n notice) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put calls the function.
func (n notice) Put(*[]byte) { n() }
