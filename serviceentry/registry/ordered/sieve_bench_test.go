package ordered_test

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// BenchmarkSays asks a layer of 2,000 hosts about others, of which it says nothing.
func BenchmarkSays(b *testing.B) {
	under := ordered.NewLayer(func(a, b int) bool { return a == b })
	for name, under := range map[string]ordered.Layer[int]{"searched": under, "sifted": under.Sifted()} {
		b.Run(name, func(b *testing.B) {
			host := func(i int) string { return fmt.Sprintf("api.service-%d.example.com", i) }
			edit := under.Over().Edit()
			var others []string
			for i := range 2000 {
				edit.Put(host(50*i), 1)
				others = append(others, host(50*i+1))
			}
			layer := edit.Done()
			for i := 0; b.Loop(); i++ {
				if layer.Says(others[i%len(others)]) {
					b.Fatal("it says something")
				}
			}
		})
	}
}
