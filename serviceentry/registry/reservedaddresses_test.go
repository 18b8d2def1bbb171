package registry_test

import "testing"

// TestOthersReserveNothing: what somebody registers by the name of a gateway or the control plane is no address of the mesh, but for the gateway's own namespace and the root namespace.
func TestOthersReserveNothing(t *testing.T) {
	for _, host := range []string{"sallyport.istio-system.svc.cluster.local", "istio-egressgateway.istio-system.svc.cluster.local"} {
		for _, ns := range []string{"team-b", "istio-system"} {
			w := newWorld(t, yamlOf("networking.istio.io/v1", "ServiceEntry", "{name: x, namespace: "+ns+"}", "{hosts: ["+host+"], location: MESH_INTERNAL, exportTo: ['.'], addresses: [203.0.113.5], ports: [{number: 443, name: tcp, protocol: TCP}], resolution: STATIC, endpoints: [{address: 203.0.113.6}]}"))
			if got, want := len(w.Snapshot().ReservedAddresses()) > 0, ns == "istio-system"; got != want {
				t.Errorf("%s by %s: %v", host, ns, w.Snapshot().ReservedAddresses())
			}
		}
	}
}
