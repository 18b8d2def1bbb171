package translate_test

import (
	"fmt"
	"runtime"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
)

// entry is a ServiceEntry with an HTTP and a TLS port; each version has another host than the one before.
func entry(i int, version uint64) config.Change {
	o := &config.Object{
		Key: config.Key{Kind: config.KindServiceEntry, Namespace: fmt.Sprintf("ns-%d", i%50), Name: fmt.Sprintf("e-%d", i)},
		Spec: &networking.ServiceEntry{
			Hosts: []string{fmt.Sprintf("%c.service-%d.example.com", 'a'+rune(version%2), i)}, Location: networking.ServiceEntry_MESH_EXTERNAL,
			Resolution: networking.ServiceEntry_DNS,
			Ports:      []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 443, Name: "tls", Protocol: "TLS"}},
		},
		Hash: version<<32 | uint64(i),
	}
	return config.Change{Key: o.Key, Object: o}
}

func filled(entries int) *registry.Registry {
	cfg := mesh.Default()
	r := registry.New(&cfg)
	var all []config.Change
	for i := range entries {
		all = append(all, entry(i, 0))
	}
	r.Apply(all)
	return r
}

var sizes = []int{1000, 10000}

// classes are those of a sidecar and of the gateway.
func classes() map[string]translate.Class {
	def := mesh.Default().DefaultGateway
	return map[string]translate.Class{"sidecar": {}, "gateway": {Kind: translate.Gateway, Gateway: registry.Ref(def), Port: 8443}}
}

// BenchmarkBuild makes a class's first view.
func BenchmarkBuild(b *testing.B) {
	for _, n := range sizes {
		s := filled(n).Snapshot()
		for name, class := range classes() {
			b.Run(fmt.Sprintf("%s/entries=%d", name, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					translate.NewTranslator().Build(s, class)
				}
			})
		}
	}
}

// BenchmarkBuildOver makes the view of a namespace from everybody's.
func BenchmarkBuildOver(b *testing.B) {
	for _, n := range sizes {
		s, t := filled(n).Snapshot(), translate.NewTranslator()
		everybody := t.Build(s, translate.Class{})
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t.BuildOver(everybody, s, translate.Class{View: "ns-1"})
			}
		})
	}
}

// BenchmarkUpdate moves a view on by one ServiceEntry whose host is another now.
func BenchmarkUpdate(b *testing.B) {
	for _, n := range sizes {
		for name, class := range classes() {
			b.Run(fmt.Sprintf("%s/entries=%d", name, n), func(b *testing.B) {
				r, t := filled(n), translate.NewTranslator()
				view := t.Build(r.Snapshot(), class)
				b.ReportAllocs()
				for i := uint64(1); b.Loop(); i++ {
					b.StopTimer()
					s, changed := r.Apply([]config.Change{entry(7, i)})
					b.StartTimer()
					t.Forget(changed)
					next, refs := t.Update(view, s, changed)
					if len(refs) == 0 {
						b.Fatal("nothing changed")
					}
					view = next
				}
			})
		}
	}
}

// BenchmarkKept says how many bytes of the heap a host takes in a view: of a sidecar that fetches rows by name, and of a gateway that fetches clusters, beside those that
// have everything.
func BenchmarkKept(b *testing.B) {
	const entries = 10_000
	s := filled(entries).Snapshot()
	kinds := classes()
	named, fetching := kinds["sidecar"], kinds["gateway"]
	named.Fetch, named.Named, fetching.OnDemand = true, true, true
	kinds["sidecar by name"], kinds["gateway on demand"] = named, fetching
	for name, class := range kinds {
		b.Run(name, func(b *testing.B) {
			var kept uint64
			for b.Loop() {
				before := liveHeap()
				t := translate.NewTranslator()
				v := t.Build(s, class)
				kept = liveHeap() - before
				runtime.KeepAlive(v)
				runtime.KeepAlive(t)
			}
			b.ReportMetric(float64(kept)/entries, "B/host")
		})
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has freed is swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
