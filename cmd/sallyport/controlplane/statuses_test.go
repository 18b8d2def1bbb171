package controlplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/identity/ca"
)

// What is closed stands in the status of the entry and of the rule that closes it, until it is mended.
func TestStatusSaysWhatIsClosed(t *testing.T) {
	const objects = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: partner, namespace: shop}
spec: {hosts: [partner.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: partner, namespace: shop}
spec: {host: "*.test", trafficPolicy: {tls: {mode: SIMPLE, credentialName: partner}}}
`
	cfg := mesh.Default()
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	apply := func(text string) map[config.Key]string {
		read := decode.File("a.yaml", []byte(text))
		if len(read.Findings) > 0 {
			t.Fatal(read.Findings)
		}
		var changes []config.Change
		for i := range read.Objects {
			changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
		}
		p.known.apply(changes)
		s, changed := p.registry.Apply(changes)
		out := map[config.Key]string{}
		for key, d := range p.details(s, changes, changed) {
			out[key] = fmt.Sprint(d.Warnings)
		}
		return out
	}
	entry := config.Key{Kind: config.KindServiceEntry, Namespace: "shop", Name: "partner"}
	rule := config.Key{Kind: config.KindDestinationRule, Namespace: "shop", Name: "partner"}
	got := apply(objects)
	for _, key := range []config.Key{entry, rule} {
		if !strings.Contains(got[key], "nothing is sent to partner.test on port 80") || !strings.Contains(got[key], "there is no Secret shop/partner") {
			t.Errorf("%s: %q", key, got[key])
		}
	}
	got = apply("apiVersion: v1\nkind: Secret\nmetadata: {name: partner, namespace: shop}\nstringData:\n  ca.crt: |\n    " + strings.ReplaceAll(testRoot(t), "\n", "\n    "))
	for _, key := range []config.Key{entry, rule} {
		if text, told := got[key]; !told || text != "[]" {
			t.Errorf("mended, %s: %q, %v", key, text, told)
		}
	}
}

func testRoot(t *testing.T) string {
	t.Helper()
	authority, err := ca.Open(ca.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return string(authority.BundlePEM())
}
