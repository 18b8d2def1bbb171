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

	"github.com/sallyport/sallyport/xds/compress"
)

// body is the resources of an answer as they go over the wire: fields of the message that the envelope is the rest of.
type body interface {
	bytes() int // all of it
	appendTo(mem.BufferSlice) mem.BufferSlice
	frames(compress.Form) mem.BufferSlice // compressed; nil where that is not worth it
}

// outgoing is what goes by the side of a stream: go-control-plane hands on the envelopes that it got, and the resources
// belong to the one that is sent next.
type outgoing struct {
	ctx     context.Context
	form    compress.Form // in which the client reads compressed answers
	next    body          // nil for none
	written func()        // called when all of it was written to the connection; nil for nothing
}

type outgoingKey struct{}

func newOutgoing(ctx context.Context) *outgoing {
	o := &outgoing{form: compress.Wanted(ctx)}
	o.ctx = context.WithValue(ctx, outgoingKey{}, o)
	return o
}

// message joins an envelope and what belongs to it.
func (o *outgoing) message(envelope proto.Message) *sealedResponse {
	r := &sealedResponse{envelope, o.next, o.form, o.written}
	o.next, o.written = nil, nil
	return r
}

// nextBytes is the size of what goes with the next envelope.
func (o *outgoing) nextBytes() int {
	switch {
	case o.next == nil:
		return 0
	case o.form != compress.None:
		if frames := o.next.frames(o.form); frames != nil {
			return frames.Len()
		}
	}
	return o.next.bytes()
}

type (
	deltaStream = grpc.BidiStreamingServer[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]
	wholeStream = grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]
)

// deltaOut and wholeOut are streams with an outgoing, to which their contexts lead callbacks.
type deltaOut struct {
	deltaStream
	*outgoing
}

func (s deltaOut) Context() context.Context { return s.ctx }

// Send sends the envelope and what belongs to it.
func (s deltaOut) Send(envelope *discovery.DeltaDiscoveryResponse) error {
	return s.SendMsg(s.message(envelope))
}

type wholeOut struct {
	wholeStream
	*outgoing
}

func (s wholeOut) Context() context.Context { return s.ctx }

// Send sends the envelope and what belongs to it.
func (s wholeOut) Send(envelope *discovery.DiscoveryResponse) error {
	return s.SendMsg(s.message(envelope))
}

func viaDelta(s deltaStream) deltaOut { return deltaOut{s, newOutgoing(s.Context())} }
func viaWhole(s wholeStream) wholeOut { return wholeOut{s, newOutgoing(s.Context())} }

// sealedResponse is a response whose resources are encoded already.
type sealedResponse struct {
	envelope proto.Message
	body     body
	form     compress.Form
	written  func()
}

// services are go-control-plane's, on outgoing streams.
type services struct{ gcpserver.Server }

func (s services) DeltaAggregatedResources(st deltaStream) error {
	return s.Server.DeltaAggregatedResources(viaDelta(st))
}
func (s services) DeltaClusters(st deltaStream) error  { return s.Server.DeltaClusters(viaDelta(st)) }
func (s services) DeltaEndpoints(st deltaStream) error { return s.Server.DeltaEndpoints(viaDelta(st)) }
func (s services) DeltaListeners(st deltaStream) error { return s.Server.DeltaListeners(viaDelta(st)) }
func (s services) DeltaRoutes(st deltaStream) error    { return s.Server.DeltaRoutes(viaDelta(st)) }

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
	r, ok := v.(*sealedResponse)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	envelope, err := proto.Marshal(r.envelope)
	if err != nil {
		return nil, err
	}
	if r.body == nil {
		return mem.BufferSlice{r.last(envelope)}, nil
	}
	if r.form != compress.None {
		if frames := r.body.frames(r.form); frames != nil {
			head := compress.Head(r.body.bytes() + len(envelope))
			frames = slices.Insert(frames, 0, mem.Buffer(mem.SliceBuffer(head)))
			return append(frames, r.last(compress.Frame(slices.Values([][]byte{envelope})))), nil
		}
	}
	return append(r.body.appendTo(nil), r.last(envelope)), nil
}

// last makes the buffer that is written last. gRPC lets go of it when it was.
func (r *sealedResponse) last(envelope []byte) mem.Buffer {
	if r.written == nil {
		return mem.SliceBuffer(envelope)
	}
	// Smaller buffers are not given back to a pool.
	envelope = slices.Grow(envelope, 4096)
	return mem.NewBuffer(&envelope, notice(r.written))
}

// notice is a pool without buffers that calls a function when it is given one back.
type notice func()

// Get is not called.
func (n notice) Get(length int) *[]byte { return new(make([]byte, length)) }

// Put calls the function.
func (n notice) Put(*[]byte) { n() }
