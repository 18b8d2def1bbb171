package serve

import (
	"strconv"

	"github.com/cespare/xxhash/v2"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for all other messages
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/translate"
)

// parcel is the resources of an answer as they go over the wire. It is made once, and all streams that are given the
// same resources send the same bytes.
type parcel struct {
	body    []byte // as many fields "resources" of a DeltaDiscoveryResponse
	count   int
	version string // hash over the resources' versions
	ends    bool   // it will be let go of
}

// The field numbers of envoy.service.discovery.v3 and google.protobuf.Any.
const (
	responseResources = 2
	resourceVersion   = 1
	resourceAny       = 2
	resourceName      = 3
	anyTypeURL        = 1
	anyValue          = 2
)

// pack encodes resources in their order.
func pack(resources []*translate.Resource) *parcel {
	p := &parcel{count: len(resources)}
	size := 0
	for _, r := range resources {
		size += field(sizeOf(r))
	}
	p.body = make([]byte, 0, size)
	h := xxhash.New()
	for _, r := range resources {
		p.body = protowire.AppendTag(p.body, responseResources, protowire.BytesType)
		p.body = protowire.AppendVarint(p.body, uint64(sizeOf(r)))
		p.body = appendResource(p.body, r)
		_, _ = h.WriteString(r.Version)
	}
	p.version = strconv.FormatUint(h.Sum64(), 16)
	return p
}

// field is the size of a length-delimited field with a content of n bytes; all field numbers here take one byte.
func field(n int) int { return 1 + protowire.SizeBytes(n) }

func sizeOfAny(r *translate.Resource) int {
	return field(len(r.Any.GetTypeUrl())) + field(len(r.Any.GetValue()))
}

func sizeOf(r *translate.Resource) int {
	return field(len(r.Version)) + field(sizeOfAny(r)) + field(len(r.Name))
}

func appendResource(b []byte, r *translate.Resource) []byte {
	b = protowire.AppendTag(b, resourceVersion, protowire.BytesType)
	b = protowire.AppendString(b, r.Version)
	b = protowire.AppendTag(b, resourceAny, protowire.BytesType)
	b = protowire.AppendVarint(b, uint64(sizeOfAny(r)))
	b = protowire.AppendTag(b, anyTypeURL, protowire.BytesType)
	b = protowire.AppendString(b, r.Any.GetTypeUrl())
	b = protowire.AppendTag(b, anyValue, protowire.BytesType)
	b = protowire.AppendBytes(b, r.Any.GetValue())
	b = protowire.AppendTag(b, resourceName, protowire.BytesType)
	return protowire.AppendString(b, r.Name)
}

// message is a response with the parcel in it: as bytes that the Go type has not looked into (protobuf's unknown
// fields), which any codec writes out as they are.
func (p *parcel) message() *discovery.DeltaDiscoveryResponse {
	m := &discovery.DeltaDiscoveryResponse{}
	if p != nil {
		m.SystemVersionInfo = p.version
		m.ProtoReflect().SetUnknown(p.body)
	}
	return m
}

// Codec is gRPC's codec for protobuf, but for responses whose resources are encoded already: those bytes are not
// copied, however many streams they wait on. Give it to a gRPC server with grpc.ForceServerCodecV2.
func Codec() encoding.CodecV2 { return codec{encoding.GetCodecV2("proto")} }

type codec struct{ encoding.CodecV2 }

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*discovery.DeltaDiscoveryResponse)
	if !ok || len(m.ProtoReflect().GetUnknown()) == 0 {
		return c.CodecV2.Marshal(v)
	}
	head, err := proto.Marshal(&discovery.DeltaDiscoveryResponse{ // what message and go-control-plane set
		SystemVersionInfo: m.SystemVersionInfo, TypeUrl: m.TypeUrl, RemovedResources: m.RemovedResources, Nonce: m.Nonce,
	})
	return mem.BufferSlice{mem.SliceBuffer(head), mem.SliceBuffer(m.ProtoReflect().GetUnknown())}, err
}
