package translate_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestPlacesOverCommon: views of sidecars that are told something of their own for where they are are kept as what differs, and are those that
// are made from nothing; also after Nodes moved, and after nothing asks any more.
func TestPlacesOverCommon(t *testing.T) {
	c := load(t, "testdata/locality-sidecar.txtar")
	r := registry.New(&c.mesh)
	made := translate.NewTranslator()
	views := map[translate.Class]*translate.View{}
	apart := 0
	hold := func(step string, changes []config.Change) {
		t.Helper()
		s, changed := r.Apply(changes)
		made.Forget(changed)
		refs := map[translate.Class][]resource.Ref{}
		for _, class := range slices.SortedFunc(maps.Keys(views), func(a, b translate.Class) int { return cmp.Compare(depth(a), depth(b)) }) {
			if common := class.Common(); common == class {
				views[class], refs[class] = made.Update(views[class], s, changed)
			} else {
				views[class], refs[class] = made.UpdateOver(views[class], views[common], refs[common], s, changed)
			}
		}
		for _, node := range []translate.Node{
			{ID: "sidecar~10.0.0.1~a.shop~x", Namespace: "shop", Host: "near"}, {ID: "sidecar~10.0.0.1~b.shop~x", Namespace: "shop", Host: "far", Labels: map[string]string{"version": "v1"}},
			{ID: "sidecar~10.0.0.1~c.shop~x", Namespace: "shop"}, {ID: "sidecar~10.0.0.1~d.other~x", Namespace: "other", Host: "near"},
		} {
			class := translate.Classify(s, node)
			if views[class] == nil {
				views[class] = build(made, s, class, views)
			}
			if class.Common() != class && !views[class].Alone() {
				apart++
			}
			full := translate.NewTranslator().Build(s, class)
			if digest(full) != digest(views[class]) {
				t.Fatalf("%s: %s (-full +kept):\n%s", step, node.ID, gocmp.Diff(versions(full), versions(views[class])))
			}
		}
	}
	change := func(yaml string) []config.Change {
		t.Helper()
		var out []config.Change
		read := decode.File("a.yaml", []byte(yaml))
		for _, f := range read.Findings {
			t.Fatal(f)
		}
		for i := range read.Objects {
			out = append(out, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
		}
		return out
	}
	var all []config.Change
	for i := range c.objects {
		all = append(all, config.Change{Key: c.objects[i].Key, Object: &c.objects[i]})
	}
	hold("all", all)
	if apart == 0 {
		t.Fatal("nobody is told anything of its own: nothing is tried")
	}
	hold("a node is in another zone", change("apiVersion: v1\nkind: Node\nmetadata: {name: far, labels: {topology.kubernetes.io/region: r1, topology.kubernetes.io/zone: z1}}\n"))
	hold("a pod comes", change("apiVersion: v1\nkind: Pod\nmetadata: {name: late, namespace: shop, labels: {app: shop}}\nspec: {nodeName: far, containers: []}\nstatus: {podIP: 10.244.0.29, phase: Running}\n"))
	hold("a node goes", []config.Change{{Key: config.Key{Kind: config.KindNode, Name: "near"}}})
	var gone []config.Change
	for _, o := range all {
		if o.Key.Kind == config.KindDestinationRule || o.Key.Kind == config.KindService && (o.Key.Name == "zone" || o.Key.Name == "node") {
			gone = append(gone, config.Change{Key: o.Key})
		}
	}
	hold("nothing asks any more", gone)
	s := r.Snapshot()
	if a, b := translate.Classify(s, translate.Node{ID: "sidecar~10.0.0.1~a.shop~x", Namespace: "shop", Host: "near"}), translate.Classify(s, translate.Node{ID: "sidecar~10.0.0.1~b.shop~x", Namespace: "shop", Host: "far"}); a != b {
		t.Errorf("places tell classes apart that nothing asks about: %+v, %+v", a, b)
	}
}
