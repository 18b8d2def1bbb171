package translate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/serviceentry"
	"github.com/sallyport/sallyport/serviceentry/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/translate"
)

// versions lists a view's resources with their hashes.
func versions(v *translate.View) map[string]string {
	out := map[string]string{}
	for _, t := range translate.Types() {
		v.Walk(t, func(r *translate.Resource) bool {
			out[fmt.Sprint(t, " ", r.Name)] = r.Version
			return true
		})
	}
	return out
}

// nodes are one of each kind of proxy in each namespace.
func nodes() []translate.Node {
	var out []translate.Node
	for _, ns := range registrytest.Namespaces {
		out = append(out,
			translate.Node{ID: "sidecar~10.0.0.1~app." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns},
			translate.Node{ID: "sidecar~10.0.0.1~old." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns, Inline: true},
			translate.Node{ID: "router~127.0.0.1~up." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns, Forward: "127.0.0.1:3128", OnDemand: true})
	}
	return append(out, translate.Node{
		ID: "router~10.0.0.2~g1.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system",
		Labels: map[string]string{"istio": "egressgateway"},
	})
}

// build makes a view like that of another class, if there is one of its kind, and otherwise from nothing.
func build(tr *translate.Translator, s *registry.Snapshot, class translate.Class, others map[translate.Class]*translate.View) *translate.View {
	for other, v := range others {
		if other.Kind == class.Kind {
			return tr.BuildLike(v, s, class)
		}
	}
	return tr.Build(s, class)
}

// runRandom applies changes and holds, at each step, that views made from the ones before equal views made from
// nothing, and that Update named everything that differs.
func runRandom(t *testing.T, seed uint64, steps int) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(seed)
	r := registry.New(&cfg)
	tr := translate.NewTranslator()
	views := map[translate.Class]*translate.View{}
	for step := range steps {
		s, changed := r.Apply([]serviceentry.Change{world.Change()})
		tr.Forget(changed.Hosts)
		for class, v := range views {
			next, refs := tr.Update(v, s, changed)
			holdRefs(t, v, next, refs)
			views[class] = next
		}
		live := map[translate.Class]bool{}
		for _, n := range nodes() {
			class := translate.Classify(s, n)
			live[class] = true
			if views[class] == nil {
				views[class] = build(tr, s, class, views)
			}
		}
		maps.DeleteFunc(views, func(c translate.Class, _ *translate.View) bool { return !live[c] })
		if step%20 != 0 {
			continue
		}
		for class, v := range views {
			full := translate.NewTranslator().Build(s, class)
			if d := cmp.Diff(versions(full), versions(v)); d != "" {
				t.Fatalf("seed %d, after %d changes, %+v (-full +incremental):\n%s", seed, step+1, class, d)
			}
		}
	}
}

func holdRefs(t *testing.T, old, now *translate.View, refs []translate.Ref) {
	t.Helper()
	named := map[string]bool{}
	for _, ref := range refs {
		named[fmt.Sprint(ref.Type, " ", ref.Name)] = true
	}
	was, is := versions(old), versions(now)
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if was[name] != is[name] && !named[name] {
			t.Fatalf("%s changed without being named", name)
		}
	}
	for name := range was {
		if _, ok := is[name]; !ok && !named[name] {
			t.Fatalf("%s went without being named", name)
		}
	}
}

func TestIncrementalIsFull(t *testing.T) {
	for seed := range uint64(2) {
		runRandom(t, seed, 150)
	}
}

func FuzzIncrementalIsFull(f *testing.F) {
	f.Add(uint64(11))
	f.Fuzz(func(t *testing.T, seed uint64) { runRandom(t, seed, 60) })
}

// TestAnyOrderSameBytes holds law 8: what is made does not depend on the order in which objects came.
func TestAnyOrderSameBytes(t *testing.T) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(9)
	for range 400 {
		world.Change()
	}
	var first map[string]map[string]string
	for range 5 {
		s, _ := registry.New(&cfg).Apply(world.Shuffled())
		all := map[string]map[string]string{}
		for _, n := range nodes() {
			all[n.ID] = versions(translate.NewTranslator().Build(s, translate.Classify(s, n)))
		}
		if first == nil {
			first = all
		}
		if d := cmp.Diff(first, all); d != "" {
			t.Fatalf("another order gives other bytes:\n%s", d)
		}
	}
}

// TestPrivateHostsStayPrivate holds that no sidecar gets a host that is not exported to its namespace.
func TestPrivateHostsStayPrivate(t *testing.T) {
	cfg := mesh.Default()
	world := registrytest.NewWorld(12)
	r := registry.New(&cfg)
	for range 60 {
		s, _ := r.Apply([]serviceentry.Change{world.Change()})
		for _, n := range nodes() {
			if n.IsRouter() {
				continue
			}
			v := translate.NewTranslator().Build(s, translate.Classify(s, n))
			v.Walk(translate.VirtualHost, func(res *translate.Resource) bool {
				_, host, _ := strings.Cut(res.Name, "/")
				if strings.HasSuffix(host, ".invalid") { // the row that every table has
					return true
				}
				for _, svc := range s.Services(host) {
					if svc.ExportTo.Includes(n.Namespace) {
						return true
					}
				}
				t.Fatalf("%s got %s, which nobody exports to it", n.ID, host)
				return false
			})
		}
	}
}
