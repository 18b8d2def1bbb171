package serve

import (
	"context"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	gcpserver "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for all other messages
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/translate"
)

// parcel is the resources of an answer: the bytes that were sealed, one after the other. Whoever is sent a resource
// is sent the same bytes, which are never copied for it.
type parcel struct {
	resources []*translate.Resource
	size      int    // bytes
	version   string // hash over the resources' versions
	ends      bool   // it will be let go of
}

func pack(resources []*translate.Resource) *parcel {
	p := &parcel{resources: resources}
	h := xxhash.New()
	for _, r := range resources {
		p.size += len(r.Wire)
		_, _ = h.WriteString(r.Version)
	}
	p.version = strconv.FormatUint(h.Sum64(), 16)
	return p
}

// outgoing is a delta stream on which parcels can be sent. go-control-plane hands on the envelopes that it got from
// a deltaResponse; the parcel goes by its side.
type outgoing struct {
	deltaStream
	ctx context.Context
	// What belongs to the envelope that is sent next: a parcel, and what is called when all of it was written to the
	// connection. Either may be nil.
	next    *parcel
	written func()
}

type deltaStream = grpc.BidiStreamingServer[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

type outgoingKey struct{}

func newOutgoing(s deltaStream) *outgoing {
	o := &outgoing{deltaStream: s}
	o.ctx = context.WithValue(s.Context(), outgoingKey{}, o)
	return o
}

// Context leads callbacks to the stream.
func (o *outgoing) Context() context.Context { return o.ctx }

// Send sends the envelope and the parcel that belongs to it.
func (o *outgoing) Send(envelope *discovery.DeltaDiscoveryResponse) error {
	r := &sealedResponse{envelope, o.next, o.written}
	o.next, o.written = nil, nil
	return o.SendMsg(r)
}

// sealedResponse is a DeltaDiscoveryResponse whose resources are encoded already.
type sealedResponse struct {
	envelope *discovery.DeltaDiscoveryResponse
	parcel   *parcel
	written  func()
}

// services are go-control-plane's, on outgoing streams.
type services struct{ gcpserver.Server }

func (s services) DeltaAggregatedResources(st deltaStream) error {
	return s.Server.DeltaAggregatedResources(newOutgoing(st))
}
func (s services) DeltaClusters(st deltaStream) error { return s.Server.DeltaClusters(newOutgoing(st)) }
func (s services) DeltaEndpoints(st deltaStream) error {
	return s.Server.DeltaEndpoints(newOutgoing(st))
}
func (s services) DeltaListeners(st deltaStream) error {
	return s.Server.DeltaListeners(newOutgoing(st))
}
func (s services) DeltaRoutes(st deltaStream) error { return s.Server.DeltaRoutes(newOutgoing(st)) }

// Codec is gRPC's codec for protobuf, and for what a Server sends on delta streams. A gRPC server that a Server is
// registered with needs it: grpc.ForceServerCodecV2(serve.Codec()).
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
	var resources []*translate.Resource
	if r.parcel != nil {
		resources = r.parcel.resources
	}
	out := make(mem.BufferSlice, 0, len(resources)+1)
	for _, piece := range resources {
		out = append(out, (*mem.SliceBuffer)(&piece.Wire)) // by pointer: nothing is allocated for it
	}
	return append(out, r.last(envelope)), nil
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
