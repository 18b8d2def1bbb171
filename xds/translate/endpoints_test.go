package translate_test

import (
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestClustersEndpointsAreFoundByTheirNames holds that the endpoints that a cluster asks for, by whatever name, are among those that the view knows for its own: what changes
// one sends the other again (View.EndpointsOf). Those of ports for UDP are shared by several clusters (wire.DatagramEndpoints).
func TestClustersEndpointsAreFoundByTheirNames(t *testing.T) {
	seen := 0
	for name, c := range cases(t) {
		v := c.view()
		for _, kind := range []resource.Type{resource.Cluster, resource.OnDemandCluster} {
			v.Walk(kind, func(r *resource.Resource) bool {
				cluster := &clusterv3.Cluster{}
				must(proto.Unmarshal(r.Value(), cluster))
				asks := cluster.GetEdsClusterConfig().GetServiceName()
				if _, there := v.Get(resource.Endpoints, asks); !there {
					return true // it has none, and waits for none
				}
				seen++
				if !slices.ContainsFunc(v.EndpointsOf(r.Name), func(load *resource.Resource) bool { return load.Name == asks }) && !strings.Contains(asks, "|udp.|") {
					t.Errorf("%s: the endpoints %s of cluster %s are not known for its own", name, asks, r.Name)
				}
				return true
			})
		}
	}
	if seen == 0 {
		t.Error("no cluster asks for endpoints: this shows nothing")
	}
}

// TestWrappedEndpointsHaveANameOfTheirOwn: where plain text goes and where TLS goes are not the same, and what comes by one name must not reach who waits for the other.
func TestWrappedEndpointsHaveANameOfTheirOwn(t *testing.T) {
	const entry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: a, namespace: default}
spec:
  hosts: [a.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  endpoints: [{address: 93.184.216.34}]
  ports:
  - {number: 80, name: http, protocol: HTTP}
`
	names := map[string]bool{}
	cfg := mesh.Default()
	forward := translate.Node{ID: "router~127.0.0.1~up.default~default.svc.cluster.local", Namespace: "default", Forward: "127.0.0.1:3128", OnDemand: true}
	for _, text := range []string{entry, entry + "  - {number: 443, name: https, protocol: HTTPS}\n"} {
		objects := decode.File("a.yaml", []byte(text)).Objects
		s, _ := registry.New(&cfg).Apply([]config.Change{{Key: objects[0].Key, Object: &objects[0]}})
		v := translate.NewTranslator().Build(s, translate.Classify(s, forward))
		r, there := v.Get(resource.OnDemandCluster, "outbound|80||a.test")
		if !there {
			t.Fatal("there is no cluster")
		}
		cluster := &clusterv3.Cluster{}
		must(proto.Unmarshal(r.Value(), cluster))
		asks := cluster.GetEdsClusterConfig().GetServiceName()
		names[asks] = true
		if _, there := v.Get(resource.Endpoints, asks); !there {
			t.Errorf("nobody sends %s", asks)
		}
	}
	if len(names) != 2 {
		t.Errorf("the endpoints are asked for as %v, want a name for plain text and one for TLS", names)
	}
}
