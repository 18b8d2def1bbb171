package load

import (
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/compress"
)

// keepLimit is the largest response, in bytes, whose resources are kept to look into them.
const keepLimit = 1 << 20

// response is what a client remembers of a DeltaDiscoveryResponse.
type response struct {
	size      int // bytes on the wire
	typeURL   string
	nonce     string
	resources []resource
	removed   []string
}

// resource is one of a response. The body is that of the message itself, nil where the response was too large to
// keep it.
type resource struct {
	name, version string
	body          []byte
}

// mentions says whether a resource of the response is about the host.
func (r *response) mentions(host string) bool {
	for _, res := range r.resources {
		if strings.Contains(res.name, host) {
			return true
		}
	}
	for _, name := range r.removed {
		if strings.Contains(name, host) {
			return true
		}
	}
	return false
}

// rawCodec writes requests as usual and reads responses without unmarshalling their resources.
type rawCodec struct{}

func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if raw, ok := v.([]byte); ok {
		return mem.BufferSlice{mem.SliceBuffer(raw)}, nil
	}
	raw, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(raw)}, err
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	r := v.(*response)
	*r = response{size: data.Len()}
	in := &input{Reader: data.Reader()}
	defer func() { _ = in.Close() }()
	for in.Remaining() > 0 && in.err == nil {
		field, length := in.tag()
		switch field {
		case 2:
			r.resources = append(r.resources, in.resource(length, r.size <= keepLimit))
		case 4:
			r.typeURL = string(in.bytes(length))
		case 5:
			r.nonce = string(in.bytes(length))
		case 6:
			r.removed = append(r.removed, string(in.bytes(length)))
		default:
			in.skip(length)
		}
	}
	return in.err
}

// wireCodec reads what may be compressed, and notes what came over the wire.
type wireCodec struct{ encoding.CodecV2 }

func newWireCodec() wireCodec { return wireCodec{compress.Codec(rawCodec{}, maxMessage)} }

func (c wireCodec) Unmarshal(data mem.BufferSlice, v any) error {
	size := data.Len()
	if size > skimLimit {
		data = envelopeOf(data)
	}
	err := c.CodecV2.Unmarshal(data, v)
	v.(*response).size = size
	return err
}

// skimLimit is the largest compressed response, in bytes, that is decompressed whole. Of a larger one only what comes last is: for all of it a crowd
// of clients would take more of the machine that they share with the control plane than that does. Nothing that refers to anything comes in such.
const skimLimit = 256 << 10

// envelopeOf gives the last frame of a response that is compressed, which says what the response is (docs/adr/0036-compressed-once.md); any other
// response as it is.
func envelopeOf(data mem.BufferSlice) mem.BufferSlice {
	whole := data.Materialize()
	var head zstd.Header
	if head.Decode(whole) != nil || !head.Skippable {
		return data
	}
	rest := whole[head.HeaderSize+int(head.SkippableSize):]
	out := mem.BufferSlice{mem.SliceBuffer(whole[:len(whole)-len(rest)])}
	for {
		switch size := frameSize(rest); size {
		case 0:
			return data
		case len(rest):
			return append(out, mem.SliceBuffer(rest))
		default:
			rest = rest[size:]
		}
	}
}

// frameSize is how many bytes the first frame has (RFC 8878, section 3.1.1); 0 for what is none.
func frameSize(data []byte) int {
	var head zstd.Header
	if head.Decode(data) != nil || head.Skippable {
		return 0
	}
	const repeated = 1 // a block that is one byte, over and over
	for at := head.HeaderSize; at+3 <= len(data); {
		block := int(data[at]) | int(data[at+1])<<8 | int(data[at+2])<<16
		size := block >> 3
		if block>>1&3 == repeated {
			size = 1
		}
		if at += 3 + size; block&1 == 0 {
			continue
		}
		if head.HasCheckSum {
			at += 4
		}
		if at > len(data) {
			return 0
		}
		return at
	}
	return 0
}

// maxMessage is the largest message that is taken, in bytes.
const maxMessage = 1 << 30

// input reads fields of protobuf's wire format, of which only length-delimited ones come here. After an error it
// reads nothing.
type input struct {
	*mem.Reader
	err error
}

func (in *input) varint() uint64 {
	var v uint64
	for shift := 0; in.err == nil && shift < 64; shift += 7 {
		b, err := in.ReadByte()
		if err != nil {
			in.err = err
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			break
		}
	}
	return v
}

func (in *input) tag() (field, length int) {
	number, kind := protowire.DecodeTag(in.varint())
	if kind != protowire.BytesType && in.err == nil {
		in.err = fmt.Errorf("field %d of a response has the wire type %d", number, kind)
	}
	return int(number), int(in.varint())
}

func (in *input) bytes(n int) []byte {
	if n > in.Remaining() && in.err == nil {
		in.err = io.ErrUnexpectedEOF
	}
	if in.err != nil {
		return nil
	}
	b := make([]byte, n)
	_, in.err = io.ReadFull(in, b)
	return b
}

func (in *input) skip(n int) {
	if in.err == nil {
		_, in.err = in.Discard(n)
	}
}

// resource reads a envoy.service.discovery.v3.Resource: version 1, Any 2, name 3.
func (in *input) resource(length int, keep bool) (r resource) {
	end := in.Remaining() - length
	for in.err == nil && in.Remaining() > end {
		field, n := in.tag()
		switch {
		case field == 1:
			r.version = string(in.bytes(n))
		case field == 3 && keep:
			r.name = string(in.bytes(n))
		case field == 2 && keep:
			if r.body = first(in.bytes(n), 2); r.version == "" { // before the version comes, if it does
				r.version = compress.Version(r.body)
			}
		default:
			in.skip(n)
		}
	}
	return r
}

// all gives every value of a length-delimited field.
func all(message []byte, field protowire.Number) [][]byte {
	var out [][]byte
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return out
		}
		size := protowire.ConsumeFieldValue(number, kind, message[n:])
		if size < 0 {
			return out
		}
		if number == field && kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(message[n:])
			out = append(out, value)
		}
		message = message[n+size:]
	}
	return out
}

// first gives the first value of a field, nil without one.
func first(message []byte, field protowire.Number) []byte {
	for _, v := range all(message, field) {
		return v
	}
	return nil
}
