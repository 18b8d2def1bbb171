package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestNodePoliciesFollowPods holds that an edit of a policy is sent to the nodes that have pods of its namespace, and what is sent follows how many
// namespaces a node has pods of, not how many there are.
func TestNodePoliciesFollowPods(t *testing.T) {
	const namespaces = 500
	cfg := mesh.Default()
	r := registry.New(&cfg)
	var all []config.Change
	for i := range 2 * namespaces {
		all = append(all, policyAt(fmt.Sprintf("n%d", i%namespaces), i/namespaces, 1))
	}
	s, _ := r.Apply(all)
	of := func(serves string) translate.PolicyClass {
		return translate.PolicedBy(s, translate.Node{ID: "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local", Serves: serves})
	}
	few := translate.BuildPolicies(s, of("n1,n2,n3"))
	every := make([]string, namespaces)
	for i := range every {
		every[i] = fmt.Sprintf("n%d", i)
	}
	whole := translate.BuildPolicies(s, of(strings.Join(every, ",")))

	next, changed := r.Apply([]config.Change{policyAt("n400", 0, 2)})
	if _, refs := translate.UpdatePolicies(few, next, of("n1,n2,n3"), changed); len(refs) > 0 {
		t.Errorf("an edit in a namespace without pods there is sent: %v", refs)
	}
	next, changed = r.Apply([]config.Change{policyAt("n2", 0, 2)})
	now, refs := translate.UpdatePolicies(few, next, of("n1,n2,n3"), changed)
	all2, _ := translate.UpdatePolicies(whole, next, of(strings.Join(every, ",")), changed)
	sent, before := sizeOf(now, refs), sizeOf(all2, refs)
	t.Logf("an edit sends a node with pods of 3 namespaces %d bytes, and would send %d if it had all %d", sent, before, namespaces)
	if len(refs) != 1 || sent == 0 || sent*50 > before {
		t.Errorf("%v: %d bytes, and %d for all namespaces", refs, sent, before)
	}
	next, changed = r.Apply([]config.Change{policyAt(cfg.RootNamespace, 0, 1)})
	if _, refs := translate.UpdatePolicies(now, next, of("n1,n2,n3"), changed); len(refs) == 0 {
		t.Error("an edit in the root namespace is not sent")
	}
}

func sizeOf(v *translate.View, refs []resource.Ref) (bytes int) {
	for _, ref := range refs {
		if r, there := v.Get(ref.Type, ref.Name); there {
			bytes += r.Size()
		}
	}
	return bytes
}
