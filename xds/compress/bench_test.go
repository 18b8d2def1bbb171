package compress

import (
	"bytes"
	"slices"
	"testing"
)

// BenchmarkFrame packs a small message: what a change costs each class once, and its envelope each stream.
func BenchmarkFrame(b *testing.B) {
	small := bytes.Repeat([]byte("api.example.com "), 8)
	b.ReportAllocs()
	for b.Loop() {
		Frame(slices.Values([][]byte{small}))
	}
}
