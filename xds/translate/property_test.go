package translate_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	gocmp "github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// versions lists a view's resources with their hashes.
func versions(v *translate.View) map[string]string {
	out := map[string]string{}
	for _, t := range resource.Types() {
		v.Walk(t, func(r *resource.Resource) bool {
			out[fmt.Sprint(t, " ", r.Name)] = r.Version
			return true
		})
	}
	return out
}

// nodes are a sidecar in each namespace, one that asks for rows by name, and old sidecars, forward proxies and ingress gateways in some.
func nodes() []translate.Node {
	var out []translate.Node
	for i, ns := range registrytest.Namespaces {
		app := translate.Node{ID: "sidecar~10.0.0.1~app." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns}
		picked := translate.Node{ID: "sidecar~10.0.0.1~picked." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns, Labels: map[string]string{"istio": "app"}, Plain: i%2 == 0}
		out = append(out, app, picked, byName(app), byName(picked))
		if i%2 == 0 {
			out = append(out,
				translate.Node{ID: "sidecar~10.0.0.1~old." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns, Inline: true},
				translate.Node{ID: "router~127.0.0.1~up." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns, Forward: "127.0.0.1:3128", OnDemand: true})
		}
	}
	out = append(out, translate.Node{
		ID: "sidecar~10.0.0.1~west.team-a~team-a.svc.cluster.local", Namespace: "team-a", Labels: map[string]string{"topology.istio.io/network": "west"},
	})
	for i, host := range []string{"n1", "n2"} {
		labels := []map[string]string{nil, {"istio": "app"}}[i]
		out = append(out, translate.Node{ID: "sidecar~10.0.0.1~on" + host + ".team-b~team-b.svc.cluster.local", Namespace: "team-b", Labels: labels, Host: host})
	}
	for _, ns := range []string{"istio-system", "team-a"} { // ingress gateways, where a Gateway object selects them
		out = append(out, translate.Node{ID: "router~10.0.0.5~in." + ns + "~" + ns + ".svc.cluster.local", Namespace: ns, Labels: map[string]string{"istio": "other"}, Plain: ns == "team-a"})
	}
	out = append(out, translate.Node{ID: "ztunnel~10.0.0.7~agent.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Serves: strings.Join(registrytest.Namespaces, ","), OwnTables: true})
	return append(out, translate.Node{
		ID: "router~10.0.0.2~g1.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system",
		Labels: map[string]string{"istio": "egressgateway"},
	})
}

// depth is how many views lie under a class's, which come before it.
func depth(c translate.Class) int {
	if common := c.Common(); common != c {
		return 1 + depth(common)
	}
	return 0
}

// build makes a view over that of the class's Common, which it makes, too, if it is not among the others.
func build(tr *translate.Translator, s *registry.Snapshot, class translate.Class, others map[translate.Class]*translate.View) *translate.View {
	common := class.Common()
	if common == class {
		return tr.Build(s, class)
	}
	if others[common] == nil {
		others[common] = build(tr, s, common, others)
	}
	return tr.BuildOver(others[common], s, class)
}

// trial is a random sequence of changes, and the views that follow them.
type trial struct {
	*testing.T
	seed     uint64
	rand     *rand.Rand
	steps    int // batches of changes
	changes  int
	cfg      mesh.Config
	world    *registrytest.World
	registry *registry.Registry
	made     *translate.Translator
	views    map[translate.Class]*translate.View
	used     map[string]bool // hosts that were ever registered
}

func newTrial(t *testing.T, seed uint64) *trial {
	l := &trial{
		T: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 8)), cfg: settings(seed), world: registrytest.NewWorld(seed), made: translate.NewTranslator(),
		views: map[translate.Class]*translate.View{}, used: map[string]bool{},
	}
	l.registry = l.empty(&l.cfg)
	return l
}

// empty is a registry; with every third seed few matches count for hosts below patterns.
func (l *trial) empty(cfg *mesh.Config) *registry.Registry {
	r := registry.New(cfg)
	if l.seed%3 == 0 {
		r.Bounded(3)
	}
	return r
}

// settings let everything be exported with every other seed.
func settings(seed uint64) mesh.Config {
	cfg := mesh.Default()
	cfg.MutualTLS = true
	if seed%2 == 0 {
		cfg.Exports = mesh.IstioExports()
	}
	return cfg
}

func (l *trial) fail(format string, args ...any) {
	l.Helper()
	l.Fatalf("seed %d, after %d changes: "+format, append([]any{l.seed, l.changes}, args...)...)
}

// run makes so many changes, some at a time. Each step holds that Update names everything that differs and that nothing
// private is in it; every so many steps, and at the end, all views are held against those that are made from nothing.
func (l *trial) run(changes, every int) {
	for l.changes < changes {
		l.steps++
		s := l.change()
		live := map[translate.Class]bool{}
		for _, n := range nodes() {
			class := translate.Classify(s, n)
			for c := class; !live[c]; c = c.Common() {
				live[c] = true
			}
			if l.views[class] == nil {
				l.views[class] = build(l.made, s, class, l.views)
			}
		}
		maps.DeleteFunc(l.views, func(c translate.Class, _ *translate.View) bool { return !live[c] })
		if l.steps%every == 0 || l.changes >= changes {
			l.holdFull(s)
		}
	}
}

// change changes objects, or at times the mesh's settings, and brings the views up to it.
func (l *trial) change() *registry.Snapshot {
	var s *registry.Snapshot
	var changed registry.Changed
	if l.steps%97 == 0 {
		l.cfg.OutboundAllowAny = !l.cfg.OutboundAllowAny
		l.cfg.MutualTLS = l.steps%291 != 0
		if l.steps%194 == 0 {
			l.cfg.Exports = settings(uint64(l.steps / 194)).Exports
		}
		settings := l.cfg
		s, changed = l.registry.SetMesh(&settings)
	} else {
		s, changed = l.registry.Apply(l.some())
	}
	l.made.Forget(changed)
	commons := map[translate.Class][]resource.Ref{}
	classes := slices.SortedFunc(maps.Keys(l.views), func(a, b translate.Class) int { return cmp.Compare(depth(a), depth(b)) })
	for _, class := range classes {
		v := l.views[class]
		var next *translate.View
		var refs []resource.Ref
		if common := class.Common(); common != class {
			next, refs = l.made.UpdateOver(v, l.views[common], commons[common], s, changed)
		} else {
			next, refs = l.made.Update(v, s, changed)
		}
		commons[class] = refs
		l.holdRefs(v, next, refs)
		for _, ref := range refs {
			if r, ok := next.Get(ref.Type, ref.Name); ok {
				l.holdPrivate(class, r)
			}
		}
		l.views[class] = next
		if l.steps%20 == 0 {
			l.holdDigest(next)
		}
	}
	return s
}

// some are one to nine changes, which come at once.
func (l *trial) some() (all []config.Change) {
	for range 1 + l.rand.IntN(9) {
		draw := l.world.Change
		switch l.changes % 18 {
		case 8, 17:
			draw = l.world.Mutual
		case 2, 13:
			draw = l.world.Place
		case 5, 11:
			draw = l.world.Elsewhere
		}
		c := draw()
		l.changes++
		if e, ok := specOf(c.Object); ok {
			for _, h := range e.Hosts {
				l.used[h] = true
			}
		}
		all = slices.DeleteFunc(all, func(old config.Change) bool { return old.Key == c.Key })
		all = append(all, c)
	}
	return all
}

func specOf(o *config.Object) (*networking.ServiceEntry, bool) {
	if o == nil {
		return nil, false
	}
	e, ok := o.Spec.(*networking.ServiceEntry)
	return e, ok
}

// holdRefs walks both views side by side.
func (l *trial) holdRefs(old, now *translate.View, refs []resource.Ref) {
	l.Helper()
	named := make(map[resource.Ref]bool, len(refs))
	for _, ref := range refs {
		named[ref] = true
	}
	for _, t := range resource.Types() {
		was, is := sealedOf(old, t), sealedOf(now, t)
		for len(was)+len(is) > 0 {
			var name string
			switch {
			case len(is) == 0 || (len(was) > 0 && was[0].Name < is[0].Name):
				name, was = was[0].Name, was[1:]
			case len(was) == 0 || is[0].Name < was[0].Name:
				name, is = is[0].Name, is[1:]
			default:
				if was[0].Version != is[0].Version {
					name = is[0].Name
				}
				was, is = was[1:], is[1:]
			}
			if name != "" && !named[resource.Ref{Type: t, Name: name}] {
				l.fail("%s %q changed without being named", t.URL(), name)
			}
		}
	}
}

// sealedOf lists a type in order of names.
func sealedOf(v *translate.View, t resource.Type) []*resource.Resource {
	out := make([]*resource.Resource, 0, v.Len(t))
	v.Walk(t, func(r *resource.Resource) bool { out = append(out, r); return true })
	return out
}

// digest is a hash over all that a view gives.
func digest(v *translate.View) uint64 {
	h := xxhash.New()
	for _, t := range resource.Types() {
		v.Walk(t, func(r *resource.Resource) bool {
			_, _ = h.WriteString(r.Name)
			_, _ = h.WriteString(r.Version)
			return true
		})
	}
	return h.Sum64()
}

// holdFull makes everything anew, from the objects in another order.
func (l *trial) holdFull(s *registry.Snapshot) {
	settings := l.cfg
	fresh, _ := l.empty(&settings).Apply(l.world.Shuffled())
	made, full := translate.NewTranslator(), map[translate.Class]*translate.View{}
	for _, n := range nodes() {
		class, there := translate.Classify(s, n), translate.Classify(fresh, n)
		if class != there {
			l.fail("%s is of class %+v, and %+v from the same objects in another order", n.ID, class, there)
		}
		if full[class] != nil {
			continue
		}
		full[class] = made.Build(fresh, class)
		if now := l.views[class]; digest(full[class]) != digest(now) {
			l.fail("%+v (-full +incremental):\n%s", class, gocmp.Diff(versions(full[class]), versions(now)))
		}
		for _, t := range resource.Types() {
			l.views[class].Walk(t, func(r *resource.Resource) bool { l.holdPrivate(class, r); return true })
		}
	}
	l.holdPacked(s)
}

// holdPacked: what is packed in a view reads as what is kept as it is, byte for byte, whether it is asked for by name, or all of it.
func (l *trial) holdPacked(s *registry.Snapshot) {
	l.Helper()
	whole, full := translate.NewTranslator(), map[translate.Class]*translate.View{}
	whole.KeepWhole()
	for class, v := range l.views {
		if !v.Packs() {
			continue
		}
		eager := build(whole, s, class, full)
		if eager.Packs() {
			l.fail("%+v is packed where nothing is to be", class)
		}
		for _, t := range resource.Types() {
			want, got := sealedOf(eager, t), sealedOf(v, t)
			if len(want) != len(got) || v.Len(t) != len(want) {
				l.fail("%+v has %d of %s, which are %d by their count, and not %d", class, len(got), t.URL(), v.Len(t), len(want))
			}
			for i, r := range want {
				one, ok := v.Get(t, r.Name)
				if !ok || !bytes.Equal(one.Wire(), r.Wire()) || !bytes.Equal(got[i].Wire(), r.Wire()) || one.Version != r.Version || got[i].Name != r.Name {
					l.fail("%+v: %s %q is another one where it is packed", class, t.URL(), r.Name)
				}
			}
			if _, ok := v.Get(t, "80/not.there:80"); ok {
				l.fail("%+v has what is not there", class)
			}
			if t != resource.Digest && v.Alone() == eager.Alone() && !slices.Equal(slices.Collect(v.Own(t)), slices.Collect(eager.Own(t))) {
				l.fail("%+v says that it has %v of %s for itself, and has %v", class, slices.Collect(v.Own(t)), t.URL(), slices.Collect(eager.Own(t)))
			}
		}
	}
}

// holdPrivate holds that a resource of a sidecar is about no host that nobody exports to its namespace. What is
// exported is read from the objects themselves.
func (l *trial) holdPrivate(class translate.Class, r *resource.Resource) {
	if class.Kind != translate.Sidecar {
		return
	}
	host, ok := hostOf(r)
	if !ok || !l.used[host] {
		return
	}
	for _, cluster := range []string{"", "west", "north"} {
		if name, ok := strings.CutSuffix(host, ".default.svc.cluster.local"); ok && l.world.Objects[config.Key{Kind: config.KindService, Namespace: "default", Name: name}.In(cluster)] != nil {
			return // the clusters' own
		}
	}
	for key, o := range l.world.Objects {
		if e, ok := specOf(o); ok && slices.Contains(e.Hosts, host) && exported(e, key.Namespace, class.View) {
			return
		}
	}
	l.fail("%+v has %s %q, which nobody exports to it", class, r.Type.URL(), r.Name)
}

// hostOf is whom a resource is about: "80/HOST", "outbound|80||HOST", "HOST".
func hostOf(r *resource.Resource) (string, bool) {
	switch r.Type {
	case resource.VirtualHost:
		_, host, ok := strings.Cut(r.Name, "/")
		return host, ok
	case resource.Cluster, resource.OnDemandCluster, resource.Endpoints:
		_, host, ok := strings.Cut(r.Name, "||")
		return host, ok
	case resource.Name:
		return r.Name, true
	}
	return "", false
}

// exported reads exportTo as Istio defines it.
func exported(e *networking.ServiceEntry, from, to string) bool {
	if len(e.ExportTo) == 0 {
		return true
	}
	return slices.ContainsFunc(e.ExportTo, func(x string) bool { return x == "*" || x == to || (x == "." && from == to) })
}

// changesEnv lets the test run longer.
const changesEnv = "SALLYPORT_PROPERTY_CHANGES"

// TestIncrementalIsFull: after any sequence of changes, views that followed them equal views made from nothing.
func TestIncrementalIsFull(t *testing.T) {
	t.Parallel()
	changes := 10_000
	if registrytest.Raced {
		changes = 300 // they take about as long
	}
	if text := os.Getenv(changesEnv); text != "" {
		var err error
		if changes, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	newTrial(t, uint64(changes)).run(changes, 50)
}

func FuzzIncrementalIsFull(f *testing.F) {
	f.Add(uint64(11), uint16(50))
	f.Fuzz(func(t *testing.T, seed uint64, changes uint16) { newTrial(t, seed).run(1+int(changes%500), 20) })
}

// TestAnyOrderSameBytes holds law 8: what is made does not depend on the order in which objects came.
func TestAnyOrderSameBytes(t *testing.T) {
	cfg := mesh.Default()
	cfg.MutualTLS = true
	world := registrytest.NewWorld(9)
	for range 400 {
		world.Change()
	}
	for range 60 {
		world.Elsewhere()
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
		if d := gocmp.Diff(first, all); d != "" {
			t.Fatalf("another order gives other bytes:\n%s", d)
		}
	}
}
