package serve

import (
	"slices"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/sallyport/sallyport/xds/compress"
	"github.com/sallyport/sallyport/xds/resource"
)

// deltaResponse is an answer on a delta stream. Its resources are shared; only the rest of the message is its own.
type deltaResponse struct {
	t        resource.Type
	payload  *payload          // nil for none
	removed  []string          // sorted
	versions map[string]string // what a named subscription knows after it

	// What follows is said when it is sent.
	nonce   string
	form    compress.Form // in which the client reads what is compressed
	written func()        // called when all of it was written to the connection; nil for nothing

	// These are what it is sent as, so that a message needs no memory of its own for each.
	head, rest mem.SliceBuffer
	parts      [4]mem.Buffer
}

func (r *deltaResponse) upserts() int {
	if r.payload == nil {
		return 0
	}
	return r.payload.count
}

func (r *deltaResponse) empty() bool { return r.upserts() == 0 && len(r.removed) == 0 }

// compressed says whether it is sent so.
func (r *deltaResponse) compressed() bool {
	return r.payload != nil && r.form != compress.None && r.payload.worthCompressing()
}

// bytes is the size of its resources as they are sent.
func (r *deltaResponse) bytes() int {
	switch {
	case r.payload == nil:
		return 0
	case r.compressed():
		return r.payload.appendFrames(nil, r.form).Len()
	default:
		return r.payload.size
	}
}

// message is what goes over the wire: a DeltaDiscoveryResponse.
func (r *deltaResponse) message() mem.BufferSlice {
	out, size := mem.BufferSlice(r.parts[:0]), r.restSize()
	switch {
	case r.payload == nil:
		r.rest = r.appendRest(make([]byte, 0, size))
	case !r.compressed():
		out = r.payload.appendTo(out)
		r.rest = r.appendRest(make([]byte, 0, size))
	case size > compress.MaxRaw:
		r.head = compress.Head(r.payload.size + size)
		out = r.payload.appendFrames(append(out, &r.head), r.form)
		r.rest = compress.Frame(slices.Values([][]byte{r.appendRest(make([]byte, 0, size))}))
	default:
		message := compress.AppendHead(make([]byte, 0, compress.HeadSize+compress.RawSize+size), r.payload.size+size)
		r.head = message[:len(message):len(message)]
		out = r.payload.appendFrames(append(out, &r.head), r.form)
		r.rest = r.appendRest(compress.AppendRaw(message, size))[len(message):]
	}
	if r.written == nil {
		return append(out, &r.rest)
	}
	return append(out, noticed(r.rest, r.written))
}

// The fields of a DeltaDiscoveryResponse beside its resources.
const (
	fieldSystemVersion = 1
	fieldTypeURL       = 4
	fieldNonce         = 5
	fieldRemoved       = 6
)

func (r *deltaResponse) rests(give func(field protowire.Number, value string)) {
	if r.payload != nil {
		give(fieldSystemVersion, r.payload.version)
	}
	give(fieldTypeURL, r.t.URL())
	give(fieldNonce, r.nonce)
	for _, name := range r.removed {
		give(fieldRemoved, name)
	}
}

func (r *deltaResponse) restSize() (size int) {
	r.rests(func(field protowire.Number, value string) {
		size += protowire.SizeTag(field) + protowire.SizeBytes(len(value))
	})
	return size
}

func (r *deltaResponse) appendRest(to []byte) []byte {
	r.rests(func(field protowire.Number, value string) {
		to = protowire.AppendString(protowire.AppendTag(to, field, protowire.BytesType), value)
	})
	return to
}
