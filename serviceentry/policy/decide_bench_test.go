package policy_test

import (
	"fmt"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// askedAmongMany is one request of each kind.
var askedAmongMany = []string{
	"https://h7.example.com", "http://h7.example.com", "tcp://h7.example.com:6432", "https://h7.example.com:9443", "https://a.b.wild.test",
	"https://nobody.test", "tcp://198.51.100.9:5432", "http://web",
}

// amongMany are the tests' objects, and n entries beside.
func amongMany(t testing.TB, n int) *registry.Snapshot {
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
	return read(t, true, text.String())
}

// BenchmarkDecide asks about one request of each kind among many entries: as explain asks, and quickly, as who simulates does. On a machine
// where much else runs its processor time is what counts.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		once := amongMany(b, n)
		for _, url := range askedAmongMany {
			for _, asked := range []struct {
				name string
				s    *registry.Snapshot
			}{{"", once}, {"/quick", once.Quick()}} {
				b.Run(fmt.Sprintf("entries=%d/%s%s", n, strings.ReplaceAll(url, "/", ""), asked.name), func(b *testing.B) {
					d, w := parse(b, url), from("")
					b.ReportAllocs()
					before := cpuTime()
					for b.Loop() {
						policy.Decide(asked.s, w, d)
					}
					b.ReportMetric(float64(cpuTime()-before)/float64(b.N), "cpu-ns/op")
				})
			}
		}
	}
}

// TestQuickDecidesAlike: a snapshot that finds hosts quickly says what the same one says that does not, also of hosts that nobody has.
func TestQuickDecidesAlike(t *testing.T) {
	s := amongMany(t, 300)
	quick := s.Quick()
	for _, url := range append(askedAmongMany, "https://h299.example.com", "https://H299.example.com", "http://h300.example.com", "https://wild.test") {
		d, w := parse(t, url), from("")
		if got, want := policy.Decide(quick, w, d), policy.Decide(s, w, d); !reflect.DeepEqual(policy.Explain(w, d, got), policy.Explain(w, d, want)) {
			t.Errorf("%s: %+v, want %+v", url, got, want)
		}
	}
}

// cpuTime is the processor time, in nanoseconds, that the process has used.
func cpuTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}

// TestDecideAllocates: a question among many takes memory at most ten times; simulations ask millions.
func TestDecideAllocates(t *testing.T) {
	s := amongMany(t, 1_000)
	for _, url := range askedAmongMany {
		d, w := parse(t, url), from("")
		if n := testing.AllocsPerRun(100, func() { policy.Decide(s, w, d) }); n > 10 {
			t.Errorf("%s: %v times", url, n)
		}
	}
}
