package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// TestExportedBeyondTables: what is said of a pod without a sidecar whose namespace has no tables at nodes for what another one exports to it is what all pods of
// the node have; sidecars have it.
func TestExportedBeyondTables(t *testing.T) {
	var names []string
	text := ""
	for i := range mesh.Default().ExportedTables + 1 {
		names = append(names, fmt.Sprintf("n%02d", i))
		text += fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: n%02d, labels: {istio.io/dataplane-mode: ambient}}\n---\n", i)
	}
	text += "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: b}\nspec: {hosts: [b.test], exportTo: [" + strings.Join(names, ", ") +
		"], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: https, protocol: HTTPS}]}\n"
	s := read(t, true, text)
	for _, c := range []struct {
		from, mode, path string
	}{
		{names[0], "", policy.PathGateway},
		{names[len(names)-1], "", policy.PathPassthrough},
		{names[len(names)-1], "none", policy.PathGateway},
	} {
		d, err := policy.ParseDestination("https://b.test")
		if err != nil {
			t.Fatal(err)
		}
		v := policy.Decide(s, policy.Workload{Namespace: c.from, Name: "app", Labels: map[string]string{"istio.io/dataplane-mode": c.mode}}, d)
		if v.Path != c.path {
			t.Errorf("from %s (%q): %s (%s), want %s", c.from, c.mode, v.Path, v.Reason, c.path)
		}
	}
}
