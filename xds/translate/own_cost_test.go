package translate_test

import (
	"fmt"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestExportsByNameCostNodesLittle holds that what one namespace exports to many others by name costs a node that has their pods a bounded number of tables,
// however many those are.
func TestExportsByNameCostNodesLittle(t *testing.T) {
	const namespaces, hosts = 60, 40
	cfg, unbound := mesh.Default(), mesh.Default()
	unbound.ExportedTables = namespaces
	serves := make([]string, namespaces)
	for i := range serves {
		serves[i] = fmt.Sprintf("n%02d", i)
	}
	var all []config.Change
	for i := range hosts {
		all = append(all, entryFor("shop", fmt.Sprintf("h%d", i), "*"))
	}
	r := registry.New(&cfg)
	s, _ := r.Apply(all)
	neighbours := entryFor("neighbour", "only", serves...)
	before, bytesBefore := rowsOf(s, serves)
	s, _ = r.Apply([]config.Change{neighbours})
	after, bytesAfter := rowsOf(s, serves)
	s, _ = registry.New(&unbound).Apply(append(all, neighbours))
	otherwise, bytesOtherwise := rowsOf(s, serves)
	t.Logf("a node with pods of %d namespaces at %d hosts: %d rows in %d bytes; after one neighbour's export to all of them by name %d in %d; without a bound %d in %d", namespaces, hosts, before, bytesBefore, after, bytesAfter, otherwise, bytesOtherwise)
	if most := (1 + cfg.ExportedTables) * (before + 2); after > most {
		t.Errorf("%d rows, want %d at most", after, most)
	}
	if after == before {
		t.Error("nobody has tables for it")
	}
}

func entryFor(ns, name string, to ...string) config.Change {
	key := config.Key{Kind: config.KindServiceEntry, Namespace: ns, Name: name}
	return config.Change{Key: key, Object: &config.Object{Key: key, Hash: 1, Revision: strings.Repeat("0", 32), Spec: &networking.ServiceEntry{
		Hosts: []string{name + ".test"}, ExportTo: to, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
		Ports: []*networking.ServicePort{{Number: 443, Name: "https", Protocol: "HTTPS"}},
	}}}
}

func rowsOf(s *registry.Snapshot, serves []string) (rows, bytes int) {
	class := translate.Classify(s, translate.Node{ID: "ztunnel~10.0.0.7~a.n~n.svc.cluster.local", Serves: strings.Join(serves, ","), OwnTables: true})
	v := translate.NewTranslator().Build(s, class)
	v.Walk(resource.VirtualHost, func(r *resource.Resource) bool {
		rows, bytes = rows+1, bytes+r.Size()
		return true
	})
	return rows, bytes
}

// TestRulesBeyondTablesStayClosed holds that where a rule asks for TLS nothing leaves in plain text, also for pods of namespaces that have no tables of
// their own for it: who registered the host exported the rule to more of them than have any.
func TestRulesBeyondTablesStayClosed(t *testing.T) {
	cfg := mesh.Default()
	var all []string
	for i := range cfg.ExportedTables + 1 {
		all = append(all, fmt.Sprintf("n%02d", i))
	}
	names := strings.Join(all, ", ")
	rule := func(namespace, name, to, policy string) string {
		return fmt.Sprintf("---\n{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: %s, namespace: %s}, spec: {host: h.test, exportTo: [%s], trafficPolicy: {%s}}}\n", name, namespace, to, policy)
	}
	const whole, more, first = "tls: {mode: SIMPLE}", "portLevelSettings: [{port: {number: 81}, tls: {mode: SIMPLE}}]", "portLevelSettings: [{port: {number: 80}, tls: {mode: SIMPLE}}]"
	for name, c := range map[string]struct {
		rules   string
		tls, at bool // whether TLS is spoken at port 80, and at 81
	}{
		"by name":                           {rule("shop", "r", names, whole), true, true},
		"by name, for a port":               {rule("shop", "r", names, more), false, true},
		"by name, and another port for all": {rule("shop", "r", names, more) + rule("shop", "s", "'*'", first), true, true},
		"by name to as many as have tables": {rule("shop", "r", "n00", whole), false, false},
		"by a neighbour, who says nothing":  {rule("neighbour", "r", names, whole), false, false},
		"by name, and no TLS is asked for":  {rule("shop", "r", names, "tls: {mode: DISABLE}"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			read := decode.File("a.yaml", []byte("{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: e, namespace: shop, annotations: {egress.sallyport.io/gateway: direct}}, spec: {hosts: [h.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 81, name: more, protocol: HTTP}]}}\n"+c.rules))
			for _, f := range read.Findings {
				t.Fatal(f)
			}
			s := testCase{objects: read.Objects, mesh: cfg}.snapshot()
			v := build(translate.NewTranslator(), s, translate.Classify(s, translate.Node{ID: "ztunnel~10.0.0.7~a.n~n.svc.cluster.local", Serves: all[len(all)-1], OwnTables: true}), map[translate.Class]*translate.View{})
			wraps := map[string]bool{}
			each(t, v, resource.Cluster, func(c *clusterv3.Cluster) { wraps[c.Name] = c.TransportSocket != nil })
			for port, want := range map[int]bool{80: c.tls, 81: c.at} {
				if got, there := wraps[fmt.Sprintf("outbound|%d||h.test", port)]; !there || got != want {
					t.Errorf("port %d: TLS is %v (a cluster: %v), want %v", port, got, there, want)
				}
			}
		})
	}
}
