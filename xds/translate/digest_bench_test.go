package translate_test

import (
	"fmt"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// BenchmarkUpdateOver moves on the views of fifty namespaces, which are over everybody's and ask for rows by name, by one ServiceEntry whose host is another now.
func BenchmarkUpdateOver(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("entries=%d", n), func(b *testing.B) {
			r, t := filled(n), translate.NewTranslator()
			s := r.Snapshot()
			class := func(ns string) translate.Class {
				return translate.Classify(s, byName(translate.Node{ID: "sidecar~10.1.2.3~pod." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns}))
			}
			common := class("ns-0").Common().Common() // what pods let in is beside it
			everybody := t.Build(s, common)
			var over []*translate.View
			for i := range 50 {
				over = append(over, t.BuildOver(everybody, s, class(fmt.Sprintf("ns-%d", i)).Common()))
			}
			b.ReportAllocs()
			for i := uint64(1); b.Loop(); i++ {
				b.StopTimer()
				var changed registry.Changed
				s, changed = r.Apply([]config.Change{entry(7, i)})
				b.StartTimer()
				t.Forget(changed)
				var differ []resource.Ref
				everybody, differ = t.Update(everybody, s, changed)
				for j := range over {
					over[j], _ = t.UpdateOver(over[j], everybody, differ, s, changed)
				}
			}
		})
	}
}
