package registry_test

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestNetworkOfTwo: of networks that both name a cluster the first by name counts, each time.
func TestNetworkOfTwo(t *testing.T) {
	cfg := mesh.Default()
	cfg.Topology.Cluster = "west"
	cfg.Topology.Networks = map[string]mesh.Network{"a": {Clusters: []string{"west"}}, "b": {Clusters: []string{"west"}}}
	for range 50 {
		key := config.Key{Kind: config.KindNamespace, Name: cfg.RootNamespace}
		s, _ := registry.New(&cfg).Apply([]config.Change{{Key: key, Object: &config.Object{Key: key, Spec: &corev1.Namespace{}}}})
		if got := s.Topology().Network(nil); got != "a" {
			t.Fatalf("it is in %q", got)
		}
	}
}

// TestHeadlessElsewhere: a headless Service has the addresses of pods that are reached straight, also when it changes which these are.
func TestHeadlessElsewhere(t *testing.T) {
	cfg := mesh.Default()
	gateway := mesh.NetworkGateway{Address: netip.MustParseAddr("192.0.2.1"), Port: 15443}
	cfg.Topology.Networks = map[string]mesh.Network{"west": {Gateways: []mesh.NetworkGateway{gateway}}}
	w := world{t, registry.New(&cfg)}
	w.apply("apiVersion: v1\nkind: Service\nmetadata: {name: db, namespace: default}\nspec: {clusterIP: None, selector: {app: db}, ports: [{port: 5432}]}\n")
	for address, network := range map[string]string{"10.0.0.3": "west", "10.0.0.4": "north"} {
		w.apply("apiVersion: v1\nkind: Pod\nmetadata: {name: db-" + address + ", namespace: default, labels: {app: db, topology.istio.io/network: " + network + "}}\nspec: {containers: []}\nstatus: {podIP: " + address + ", phase: Running}\n")
	}
	for _, in := range [][2]string{{"", "[10.0.0.3/32 10.0.0.4/32]"}, {"north", "[10.0.0.4/32]"}, {"west", "[10.0.0.3/32 10.0.0.4/32]"}} {
		w.apply("apiVersion: v1\nkind: Namespace\nmetadata: {name: istio-system, labels: {topology.istio.io/network: '" + in[0] + "'}}\n")
		if got := fmt.Sprint(w.Snapshot().Services("db.default.svc.cluster.local")[0].Addresses); got != in[1] {
			t.Errorf("in network %q it has %s, want %s", in[0], got, in[1])
		}
	}
}
