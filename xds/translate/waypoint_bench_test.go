package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
)

// BenchmarkWaypointPolicy is an edit of an AuthorizationPolicy for a waypoint, in a mesh with other Services.
func BenchmarkWaypointPolicy(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			waypoint := load(b, "testdata/waypoint.txtar")
			var text strings.Builder
			for i := range n {
				fmt.Fprintf(&text, "---\napiVersion: v1\nkind: Service\nmetadata: {name: s%d, namespace: other}\nspec: {clusterIP: 10.%d.%d.%d, ports: [{name: http, port: 80}]}\n", i, 97+i>>16, i>>8&255, i&255)
			}
			all := changedBy(b, strings.TrimPrefix(text.String(), "---\n"))
			for i := range waypoint.objects {
				all = append(all, config.Change{Key: waypoint.objects[i].Key, Object: &waypoint.objects[i]})
			}
			r := registry.New(&waypoint.mesh)
			s, _ := r.Apply(all)
			tr := translate.NewTranslator()
			v := tr.Build(s, translate.Classify(s, waypoint.node))
			i := 0
			for b.Loop() {
				i++
				next, changed := r.Apply(changedBy(b, fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: clients, namespace: shop}\nspec: {targetRefs: [{kind: Service, name: web}], rules: [{from: [{source: {namespaces: [n%d]}}]}]}\n", i)))
				tr.Forget(changed)
				v, _ = tr.Update(v, next, changed)
			}
		})
	}
}
