package compress

import (
	"context"
	"fmt"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/klauspost/compress/zstd"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for what was decompressed
	"google.golang.org/grpc/mem"
)

// header is how a client says, for a stream, what it can read.
const (
	header = "sallyport-compressed"
	format = "zstd"
)

// Client are the options of a connection whose streams may be sent compressed messages, of at most so many bytes when they are decompressed.
func Client(limit int) []grpc.DialOption {
	c := Codec(encoding.GetCodecV2("proto"), limit)
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(c)),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(Want(ctx), desc, conn, method, opts...)
		}),
	}
}

// Codec decompresses messages before another codec reads them, and gives resources the versions that they come without.
func Codec(inner encoding.CodecV2, limit int) encoding.CodecV2 {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(uint64(limit)))
	if err != nil {
		panic(err) // the options are constant, the limit is not zero
	}
	return codec{inner, d, limit}
}

type codec struct {
	encoding.CodecV2
	decoder *zstd.Decoder // of whole messages only, which is safe for concurrent use
	limit   int
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	var first [HeadSize]byte
	n := 0
	for i := 0; i < len(data) && n < len(first); i++ {
		n += copy(first[n:], data[i].ReadOnlyData())
	}
	size, ok := headed(first[:n])
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	whole := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer whole.Free()
	plain, err := c.decoder.DecodeAll(whole.ReadOnlyData(), make([]byte, 0, min(size, c.limit)))
	if err != nil {
		return fmt.Errorf("a compressed message: %w", err)
	}
	if err = c.CodecV2.Unmarshal(mem.BufferSlice{mem.SliceBuffer(plain)}, v); err != nil {
		return err
	}
	if response, ok := v.(*discovery.DeltaDiscoveryResponse); ok {
		addVersions(response)
	}
	return nil
}
