package controlplane

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
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
		changes := written(t, text)
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

// An entry is told that its export does not count where it exports to others.
func TestStatusSaysWhichExportsDoNotCount(t *testing.T) {
	const entry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: machines, namespace: shop}
spec: {hosts: [machines.test], exportTo: [%s], resolution: STATIC, endpoints: [{address: 203.0.113.70}], ports: [{number: 80, name: http, protocol: HTTP}]}
`
	cfg := mesh.Default()
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	for exportTo, warn := range map[string]bool{"": true, "'*'": true, "bank": true, "., bank": true, ".": false, "shop": false} {
		changes := written(t, fmt.Sprintf(entry, exportTo))
		p.known.apply(changes)
		s, changed := p.registry.Apply(changes)
		got := fmt.Sprint(p.details(s, changes, changed)[config.Key{Kind: config.KindServiceEntry, Namespace: "shop", Name: "machines"}].Warnings)
		if told := strings.Contains(got, "counts in namespace shop only"); told != warn {
			t.Errorf("exportTo: [%s]: %s", exportTo, got)
		}
	}
}

// What a WorkloadEntry does for its own namespace only stands in its status, and follows the Service, its own labels and the mesh's settings.
func TestStatusSaysWhatLeadsOthersNowhere(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: shop}\nspec: {clusterIP: %s, selector: {app: db}, ports: [{name: tcp, port: 5432}]}\n"
	const machine = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: machine, namespace: shop}\nspec: {address: 203.0.113.70, labels: {app: %s}}\n"
	cfg := mesh.Default()
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	key := config.Key{Kind: config.KindWorkloadEntry, Namespace: "shop", Name: "machine"}
	for _, step := range []struct {
		text string
		warn bool
	}{
		{fmt.Sprintf(machine, "db"), false},
		{fmt.Sprintf(service, "None"), true},
		{fmt.Sprintf(machine, "other"), false},
		{fmt.Sprintf(machine, "db"), true},
		{fmt.Sprintf(service, "10.96.0.7"), false},
		{fmt.Sprintf(service, "None"), true},
	} {
		changes := written(t, step.text)
		p.known.apply(changes)
		s, changed := p.registry.Apply(changes)
		d, told := p.details(s, changes, changed)[key]
		if got := fmt.Sprint(d.Warnings); !told || strings.Contains(got, "headless Service db in this namespace only") != step.warn {
			t.Errorf("after\n%s%s, %t", step.text, got, told)
		}
	}
	cfg.Exports = mesh.IstioExports()
	s, changed := p.registry.SetMesh(&cfg)
	if d, told := p.details(s, nil, changed)[key]; !told || len(d.Warnings) > 0 {
		t.Errorf("with settings that let it: %v, %t", d.Warnings, told)
	}
}

// Whom an entry selects, and what selects a workload, stands in their statuses, and follows either, pods that are not ready among them.
func TestStatusSaysWhoIsSelected(t *testing.T) {
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: vm, namespace: shop}\nspec: {hosts: [vm.test], exportTo: [\".\"], location: MESH_INTERNAL, resolution: %s, workloadSelector: {labels: {app: vm}}, ports: [{number: 80, name: http, protocol: HTTP}]}\n"
	const machine = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: vm, namespace: shop}\nspec: {address: vm.example, labels: {app: %s}}\n"
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: vm, namespace: shop, labels: {app: vm}}\nspec: {containers: [{name: a, image: a}]}\n"
	cfg := mesh.Default()
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	now := map[config.Key]string{}
	for _, step := range []struct{ text, entry, machine string }{
		{fmt.Sprintf(entry, "STATIC"), "no Pod and no WorkloadEntry of namespace shop", ""},
		{fmt.Sprintf(machine, "vm"), "", "whose resolution STATIC needs IP addresses"},
		{fmt.Sprintf(entry, "DNS"), "", ""},
		{fmt.Sprintf(machine, "other"), "no Pod and no WorkloadEntry of namespace shop", "no ServiceEntry and no Service of namespace shop selects these labels"},
		{pod, "", "no ServiceEntry and no Service of namespace shop selects these labels"},
		{fmt.Sprintf(machine, "vm"), "", ""},
	} {
		changes := written(t, step.text)
		p.known.apply(changes)
		s, changed := p.registry.Apply(changes)
		for key, d := range p.details(s, changes, changed) {
			now[key] = fmt.Sprint(d.Warnings)
		}
		for kind, want := range map[config.Kind]string{config.KindServiceEntry: step.entry, config.KindWorkloadEntry: step.machine} {
			got := now[config.Key{Kind: kind, Namespace: "shop", Name: "vm"}]
			said := strings.Contains(got, "labels") || strings.Contains(got, "STATIC needs")
			if said != (want != "") || !strings.Contains(got, want) {
				t.Errorf("after\n%s%s: %s, want %q", step.text, kind, got, want)
			}
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
