package mesh

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestTopology: networks are read as Istio writes them, from the settings and from its ConfigMap.
func TestTopology(t *testing.T) {
	const networks = `west: {endpoints: [{fromRegistry: west}, {fromCidr: 10.5.0.0/16}], gateways: [{address: 192.0.2.1, port: 443}, {registryServiceName: ew.istio-system.svc.cluster.local}]}`
	want := map[string]Network{"west": {
		Clusters: []string{"west"}, Ranges: []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16")},
		Gateways: []NetworkGateway{{Address: netip.MustParseAddr("192.0.2.1"), Port: 443}, {Service: Gateway{Namespace: "istio-system", Name: "ew"}, Port: EastWestPort}},
	}}
	for name, text := range map[string]string{
		"settings":  "sallyport: {networks: {" + networks + "}}",
		"ConfigMap": "kind: ConfigMap\ndata:\n  mesh: '{}'\n  meshNetworks: |\n    networks: {" + networks + "}\n",
	} {
		c, err := Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, c.Topology.Networks, cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	for text, field := range map[string]string{
		"sallyport: {networks: {a: {gateways: [{address: gw.example}]}}}":   "sallyport.networks.a.gateways[0].address",
		"sallyport: {networks: {a: {endpoints: [{fromCidr: x}]}}}":          "sallyport.networks.a.endpoints[0].fromCidr",
		"sallyport: {networks: {a: {gates: []}}}":                           "sallyport.networks.a.gates",
		"serviceSettings: [{settings: {clusterLocal: true}, hosts: [a_b]}]": "serviceSettings[0].hosts[0]",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v names no %s", text, err, field)
		}
	}
}
