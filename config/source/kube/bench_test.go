package kube

import (
	"fmt"
	"runtime"
	"testing"

	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
)

// wire is a ServiceEntry as an API server sends it, with what kubectl and server-side apply leave in it.
func wire(i int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"networking.istio.io/v1\",\"kind\":\"ServiceEntry\",\"metadata\":{\"name\":\"e%[1]d\",\"namespace\":\"ns%[2]d\"},\"spec\":{\"hosts\":[\"h%[1]d.example.com\"]}}"},"creationTimestamp":"2026-01-02T03:04:05Z","generation":1,"name":"e%[1]d","namespace":"ns%[2]d","resourceVersion":"%[1]d","uid":"4c1a3a0e-0000-0000-0000-%012[1]d","managedFields":[{"apiVersion":"networking.istio.io/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{".":{},"f:kubectl.kubernetes.io/last-applied-configuration":{}}},"f:spec":{".":{},"f:hosts":{},"f:location":{},"f:ports":{},"f:resolution":{}}},"manager":"kubectl","operation":"Update","time":"2026-01-02T03:04:05Z"}]},"spec":{"hosts":["h%[1]d.example.com"],"location":"MESH_EXTERNAL","ports":[{"name":"tls","number":443,"protocol":"TLS"}],"resolution":"DNS"},"status":{"conditions":[{"type":"egress.sallyport.io/Accepted","status":"True","reason":"Accepted","observedGeneration":1}]}}`, i, i%100)
}

// BenchmarkEntries takes 10,000 ServiceEntries from the wire into the store, and says what each takes of memory.
func BenchmarkEntries(b *testing.B) {
	const n = 10_000
	k := kinds()[0]
	c := serializerFor(b, k)
	for b.Loop() {
		before := heap()
		s := newStore([]kind{k})
		to := sink{s, k}
		for i := range n {
			o, _, err := c.Decode(wire(i), nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := to.Add(o); err != nil {
				b.Fatal(err)
			}
		}
		if got := len(s.collect().changes); got != n {
			b.Fatalf("%d changes", got)
		}
		b.ReportMetric(float64(heap()-before)/n, "heap-B/object")
		runtime.KeepAlive(s)
	}
}

func serializerFor(b *testing.B, k kind) kuberuntime.Decoder {
	b.Helper()
	f := serializer.NewCodecFactory(typesOf([]kind{k}))
	return f.UniversalDeserializer()
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
