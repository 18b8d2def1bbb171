package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
)

// BenchmarkDecide asks about one request of each kind among many entries.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		var text strings.Builder
		text.WriteString(objects)
		for i := range n {
			fmt.Fprintf(&text, `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: e%d, namespace: ns-%d}
spec:
  hosts: [h%d.example.com]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}, {number: 6432, name: tcp, protocol: TCP}]
`, i, i%100, i)
		}
		s := read(b, true, text.String())
		for _, url := range []string{
			"https://h7.example.com", "http://h7.example.com", "tcp://h7.example.com:6432", "https://h7.example.com:9443", "https://a.b.wild.test",
			"https://nobody.test", "tcp://198.51.100.9:5432", "http://web",
		} {
			b.Run(fmt.Sprintf("entries=%d/%s", n, strings.ReplaceAll(url, "/", "")), func(b *testing.B) {
				d, w := parse(b, url), from("")
				b.ReportAllocs()
				for b.Loop() {
					policy.Decide(s, w, d)
				}
			})
		}
	}
}
