package translate_test

import (
	"fmt"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
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
