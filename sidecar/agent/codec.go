package agent

import (
	"unsafe"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // registers the codec that this one is put before
	"google.golang.org/grpc/mem"
)

// wholeMessage is a message as it came over the wire. Used again, it has another one at the same place.
type wholeMessage struct{ body []byte }

// text is the message, until the next one comes: what is kept of it has to be copied.
func (m *wholeMessage) text() string {
	return unsafe.String(unsafe.SliceData(m.body), len(m.body)) //nolint:gosec // within the slice
}

// codec is gRPC's codec for protobuf, and gives a wholeMessage to those who read messages on their own.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2("proto")} }

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	whole, ok := v.(*wholeMessage)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole.body = whole.body[:0]
	for _, part := range data {
		whole.body = append(whole.body, part.ReadOnlyData()...)
	}
	return nil
}
