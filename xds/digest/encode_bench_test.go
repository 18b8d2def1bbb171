package digest

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkEncode makes what is sent of a bucket of 250 keys.
func BenchmarkEncode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]uint64, 250)
	for i := range values {
		values[i] = r.Uint64()
	}
	b.ReportAllocs()
	for b.Loop() {
		Encode(values)
	}
}
