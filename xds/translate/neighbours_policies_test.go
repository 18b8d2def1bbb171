package translate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/translate"
)

// governedHosts are what the policies of this test are about.
var governedHosts = []string{"a.test", "x.b.test", "203.0.113.7"}

const intruder = "intruder"

// TestNeighboursPoliciesChangeNothing holds law 9 of EgressPolicies: whatever policies, pods and WorkloadEntries a namespace has, though
// at addresses that are others' and with labels that others' policies select, the workloads of other namespaces are governed as before,
// and gateways keep the same for them.
func TestNeighboursPoliciesChangeNothing(t *testing.T) {
	for seed := range uint64(60) {
		made := registrytest.NewWorld(seed)
		made.Governed(registrytest.Namespaces, governedHosts)
		theirs := registrytest.NewWorld(seed + 1000)
		theirs.Governed([]string{intruder}, governedHosts)
		cfg := mesh.Default()
		r := registry.New(&cfg)
		s, _ := r.Apply(changesOf(made.Objects, func(config.Key) bool { return true }))
		was := governs(s)
		taken := slices.Collect(maps.Keys(addressesOf(made.Objects)))
		slices.Sort(taken)
		all := changesOf(made.Objects, func(config.Key) bool { return true })
		for i, c := range changesOf(theirs.Objects, func(k config.Key) bool { return k.Namespace == intruder }) {
			if len(taken) > 0 {
				moveTo(c.Object, taken[i%len(taken)])
			}
			s, _ = r.Apply([]config.Change{c})
			if d := cmp.Diff(was, governs(s)); d != "" {
				t.Fatalf("seed %d: after %s %v:\n%s", seed, c.Key, c.Object.Spec, d)
			}
			all = append(all, c)
		}
		cfg = mesh.Default()
		s, _ = registry.New(&cfg).Apply(all)
		if d := cmp.Diff(was, governs(s)); d != "" {
			t.Fatalf("seed %d: all at once:\n%s", seed, d)
		}
	}
}

func changesOf(objects map[config.Key]*config.Object, takes func(config.Key) bool) (out []config.Change) {
	for _, key := range (world{objects: objects}).keys() {
		if takes(key) {
			out = append(out, config.Change{Key: key, Object: objects[key]})
		}
	}
	return out
}

func addressesOf(objects map[config.Key]*config.Object) map[string]bool {
	out := map[string]bool{}
	for _, o := range objects {
		switch spec := o.Spec.(type) {
		case *corev1.Pod:
			out[spec.Status.PodIP] = true
		case *networking.WorkloadEntry:
			out[spec.Address] = true
		}
	}
	return out
}

func moveTo(o *config.Object, address string) {
	switch spec := o.Spec.(type) {
	case *corev1.Pod:
		spec.Status.PodIP, spec.Status.PodIPs = address, nil
	case *networking.WorkloadEntry:
		spec.Address = address
	}
}

// governs is what others than the intruder meet, and what gateways keep for them.
func governs(s *registry.Snapshot) map[string]string {
	out := map[string]string{}
	for _, ns := range registrytest.Namespaces {
		for _, account := range registrytest.Accounts {
			for i, labels := range registrytest.PeopleLabels {
				for _, host := range governedHosts {
					w := policy.Workload{Namespace: ns, Account: account, Labels: labels}
					v := policy.Decide(s, w, policy.Destination{Scheme: policy.HTTP, Host: host, Port: 80, At: registrytest.PolicyTime})
					out[fmt.Sprintf("%s/%s %d %s", ns, account, i, host)] = fmt.Sprint(v.Allowed, v.DecidedBy, v.Reason)
				}
			}
		}
		out["root level of "+ns] = resolve.Root(s).Of[ns]
	}
	for ref, version := range policyVersions(translate.BuildPolicies(s, translate.PolicyClass{Kind: translate.Gateway})) {
		if rest, is := strings.CutPrefix(ref.Name, "own/"); is && rest != intruder {
			out[ref.Name] = version
		}
		if level, is := strings.CutPrefix(ref.Name, "root"); is && level != "/"+intruder {
			out[ref.Name] = version
		}
	}
	return out
}
