package translate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// policyVersions are a view's resources, by their versions.
func policyVersions(v *translate.View) map[resource.Ref]string {
	out := map[resource.Ref]string{}
	for _, kind := range resource.Types() {
		v.Walk(kind, func(r *resource.Resource) bool {
			out[resource.Ref{Type: kind, Name: r.Name}] = fmt.Sprint(r.Version)
			return true
		})
	}
	return out
}

// TestPolicyUpdates holds that what a gateway is given of policies after random edits is what it would be given if it came now, and
// that the references name what differs.
func TestPolicyUpdates(t *testing.T) {
	t.Parallel()
	for seed := range uint64(registrytest.Times(20)) {
		holdPolicyUpdates(t, seed, nil)
	}
	for seed := range uint64(max(1, registrytest.Times(3))) {
		holdPolicyUpdates(t, seed, &translate.Node{ID: "sidecar~10.0.0.1~app.team-a~team-a.svc.cluster.local", Namespace: "team-a", Labels: map[string]string{"istio": "other"}})
	}
}

// holdPolicyUpdates holds it of a gateway, or of a sidecar, which is among others whenever another policy is for it.
func holdPolicyUpdates(t *testing.T, seed uint64, sidecar *translate.Node) {
	t.Helper()
	settings, of := mesh.Default(), translate.PolicyClass{Kind: translate.Gateway}
	settings.MutualTLS = true
	r := registry.New(&settings)
	s, _ := r.Apply(nil)
	if sidecar != nil {
		of = translate.PolicedBy(s, *sidecar)
	}
	view := translate.BuildPolicies(s, of)
	for step, changes := range policyEdits(seed) {
		if sidecar != nil {
			if now := translate.PolicedBy(s, *sidecar); now != of {
				of, view = now, translate.BuildPolicies(s, now)
			}
		}
		was := policyVersions(view)
		next, changed := r.Apply(changes)
		var refs []resource.Ref
		view, refs = translate.UpdatePolicies(view, next, of, changed)
		s = next
		now, fresh := policyVersions(view), policyVersions(translate.BuildPolicies(next, of))
		for _, ref := range differing(now, fresh) {
			t.Errorf("seed %d, step %d, after %v: %v is %q, and made from nothing %q (changed: %v)", seed, step, changes[0].Key, ref, now[ref], fresh[ref], changed.Policies)
		}
		for _, ref := range differing(was, now) {
			if !slices.Contains(refs, ref) {
				t.Errorf("seed %d, step %d, after %v: %v differs, and is not named", seed, step, changes[0].Key, ref)
			}
		}
		if t.Failed() {
			return
		}
	}
}

// policyEdits are random policies, people and namespaces that come, change and go.
func policyEdits(seed uint64) (steps [][]config.Change) {
	r := rand.New(rand.NewPCG(seed, 3))
	var keys []config.Key
	for i := range uint64(12) {
		made := registrytest.NewWorld(seed*100 + i)
		made.Governed(registrytest.Namespaces, []string{"a.test", "*.b.test", "203.0.113.7"})
		made.Authorized([]string{"a.test", "b.test"})
		w := world{objects: made.Objects}
		for _, key := range w.keys() {
			if r.IntN(3) > 0 {
				o := *w.objects[key]
				o.Revision, o.Hash = fmt.Sprintf("%032x", i), 1000*i+o.Hash
				steps = append(steps, []config.Change{{Key: key, Object: &o}})
				keys = append(keys, key)
			}
		}
		if gone := one(r, append(keys, config.Key{Kind: config.KindPod, Namespace: "default", Name: "p0"})); r.IntN(2) == 0 {
			steps = append(steps, []config.Change{{Key: gone}})
		}
	}
	return steps
}

func differing(a, b map[resource.Ref]string) (out []resource.Ref) {
	for ref := range a {
		if a[ref] != b[ref] {
			out = append(out, ref)
		}
	}
	for ref := range b {
		if _, there := a[ref]; !there {
			out = append(out, ref)
		}
	}
	return out
}

// The mesh of BenchmarkPolicyEdit.
const (
	policyCount     = 1000
	policyRules     = 10
	policySpaces    = 500
	policyHostCount = 10_000
)

// BenchmarkPolicyEdit measures what one edited policy costs the controller, and how many bytes a gateway is sent for it.
func BenchmarkPolicyEdit(b *testing.B) {
	settings := mesh.Default()
	r := registry.New(&settings)
	var list []config.Change
	for i := range policyHostCount {
		list = append(list, entry(i, 0))
	}
	for i := range policySpaces {
		ns := fmt.Sprintf("ns-%d", i)
		list = append(list, config.Change{Key: config.Key{Kind: config.KindNamespace, Name: ns}, Object: &config.Object{
			Key: config.Key{Kind: config.KindNamespace, Name: ns}, Labels: map[string]string{"team": fmt.Sprint(i % 10)}, Spec: &corev1.Namespace{}}})
	}
	for i := range policyCount {
		list = append(list, policyAt(fmt.Sprintf("ns-%d", i%policySpaces), i, 0))
	}
	list = append(list, policyAt("istio-system", 0, 0))
	s, _ := r.Apply(list)
	for _, ns := range []string{"ns-7", "istio-system"} {
		b.Run(ns, func(b *testing.B) {
			of := translate.PolicyClass{Kind: translate.Gateway}
			view := translate.BuildPolicies(s, of)
			bytes := 0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				next, changed := r.Apply([]config.Change{policyAt(ns, 7, i+1)})
				var refs []resource.Ref
				view, refs = translate.UpdatePolicies(view, next, of, changed)
				bytes = 0
				for _, ref := range refs {
					if res, ok := view.Get(ref.Type, ref.Name); ok {
						bytes += len(res.Value())
					}
				}
			}
			b.ReportMetric(float64(bytes), "bytes/edit")
		})
	}
}

func policyAt(ns string, i, edition int) config.Change {
	p := &v1alpha1.EgressPolicy{}
	for j := range policyRules {
		p.Rules = append(p.Rules, &v1alpha1.Rule{Name: fmt.Sprintf("r%d", j), Hosts: []string{fmt.Sprintf("host-%d.test", (i*policyRules+j+edition)%policyHostCount)}, Action: v1alpha1.Action_Allow})
	}
	key := config.Key{Kind: config.KindEgressPolicy, Namespace: ns, Name: fmt.Sprintf("p%d", i)}
	return config.Change{Key: key, Object: &config.Object{Key: key, Spec: p, Revision: fmt.Sprintf("%032x", edition), Hash: uint64(edition)}}
}
