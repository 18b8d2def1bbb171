package registry_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

func TestSelectsByLabels(t *testing.T) {
	const policy = "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: p, namespace: NS}\nspec: {SPEC}\n"
	for name, tt := range map[string]struct {
		object string
		want   bool
	}{
		"nothing":                             {"", false},
		"a policy for all":                    {strings.NewReplacer("NS", "shop", "SPEC", "default: Deny").Replace(policy), false},
		"a policy by labels":                  {strings.NewReplacer("NS", "shop", "SPEC", "default: Deny, selector: {matchLabels: {a: b}}").Replace(policy), true},
		"another namespace's":                 {strings.NewReplacer("NS", "other", "SPEC", "default: Deny, selector: {matchLabels: {a: b}}").Replace(policy), false},
		"the root namespace's":                {strings.NewReplacer("NS", "istio-system", "SPEC", "default: Deny, selector: {matchLabels: {a: b}}").Replace(policy), true},
		"the root namespace's, for another":   {strings.NewReplacer("NS", "istio-system", "SPEC", "default: Deny, namespaces: {names: [other]}, selector: {matchLabels: {a: b}}").Replace(policy), false},
		"a Sidecar":                           {"apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: shop}\nspec: {workloadSelector: {labels: {a: b}}, egress: [{hosts: [\"*/*\"]}]}\n", true},
		"a Sidecar for all":                   {"apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: shop}\nspec: {egress: [{hosts: [\"*/*\"]}]}\n", false},
		"a DestinationRule":                   {"apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: r, namespace: shop}\nspec: {host: a.test, workloadSelector: {matchLabels: {a: b}}}\n", true},
		"a route by the labels of its source": {"apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: shop}\nspec: {hosts: [a.test], http: [{match: [{sourceLabels: {a: b}}], route: [{destination: {host: a.test}}]}]}\n", true},
	} {
		cfg := mesh.Default()
		r := registry.New(&cfg)
		result := decode.File("objects.yaml", []byte(tt.object))
		for i := range result.Objects {
			r.Apply([]config.Change{{Key: result.Objects[i].Key, Object: &result.Objects[i]}})
		}
		if got := r.Snapshot().SelectsByLabels("shop"); got != tt.want || len(result.Findings) > 0 {
			t.Errorf("%s: %t, %v", name, got, result.Findings)
		}
	}
}
