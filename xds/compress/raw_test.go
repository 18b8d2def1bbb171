package compress

import (
	"bytes"
	"testing"
)

// TestRaw: any reader of Zstandard opens raw frames, of each size there may be.
func TestRaw(t *testing.T) {
	for size := range MaxRaw + 1 {
		want := bytes.Repeat([]byte{byte(size)}, size)
		frame := append(AppendRaw(nil, size), want...)
		if len(frame) != RawSize+size {
			t.Fatalf("%d bytes make a frame of %d", size, len(frame))
		}
		if got, err := decompressor().DecodeAll(frame, nil); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("a frame of %d bytes is read as %d, %v", size, len(got), err)
		}
	}
}
