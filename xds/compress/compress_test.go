package compress

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// split cuts a message in parts at random, as a connection may bring it.
func split(r *rand.Rand, message []byte) (out mem.BufferSlice) {
	for len(message) > 0 {
		n := 1 + r.IntN(len(message))
		out = append(out, mem.SliceBuffer(message[:n]))
		message = message[n:]
	}
	return out
}

// TestDecompressed holds that a message is read as if it had not been compressed, however many frames it is of, and so is one that was not.
func TestDecompressed(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	c := Codec(encoding.GetCodecV2("proto"), 1<<20)
	for range 300 {
		want := wrapperspb.String(strings.Repeat("sidecar ", r.IntN(3000)))
		message, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got wrapperspb.StringValue
		if err := c.Unmarshal(split(r, message), &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("as it is: %v", err)
		}
		out := Head(len(message))
		for _, part := range split(r, message) {
			out = append(out, Frame(slices.Values([][]byte{part.ReadOnlyData()}))...)
		}
		got.Reset()
		if err := c.Unmarshal(split(r, out), &got); err != nil || !proto.Equal(&got, want) {
			t.Fatalf("compressed: %v", err)
		}
	}
}

// TestNotMoreThanAgreed holds that what a message says of its size, and what it decompresses to, takes no more than the limit.
func TestNotMoreThanAgreed(t *testing.T) {
	const limit = 1 << 20
	c := Codec(encoding.GetCodecV2("proto"), limit)
	much := Frame(slices.Values([][]byte{bytes.Repeat([]byte{0x0a}, 64*limit)}))
	var got wrapperspb.StringValue
	var before, after runtime.MemStats
	for _, head := range [][]byte{Head(10), Head(1 << 31)} {
		runtime.ReadMemStats(&before)
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(append(head, much...))}, &got); err == nil {
			t.Fatal("it was read")
		}
		if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 8*limit {
			t.Errorf("%d bytes for it", after.TotalAlloc-before.TotalAlloc)
		}
	}
	if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(append(Head(4), 1, 2, 3))}, &got); err == nil {
		t.Error("no frame was read")
	}
}
