package controlplane

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const twoGateways = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {selector: {istio: egressgateway}, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: egress-1, namespace: istio-system, labels: {istio: egressgateway}}
status: {phase: Running, podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}, {ip: "2001:db8::2"}]}
---
apiVersion: v1
kind: Service
metadata: {name: gw, namespace: cart}
spec: {selector: {app: gw}, ports: [{name: https, port: 443}]}
---
apiVersion: v1
kind: Pod
metadata: {name: gw-1, namespace: cart, labels: {app: gw}}
status: {phase: Running, podIP: 10.0.1.2}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: cart, annotations: {egress.sallyport.io/gateway: cart/gw}}
spec: {hosts: [out.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`

// TestExits: a gateway's pod that takes traffic is missed until it is connected, by any of its addresses; one of a namespace's own by that namespace
// alone, so that a neighbour's holds up nobody.
func TestExits(t *testing.T) {
	cfg := mesh.Default()
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	r := decode.File("gateways.yaml", []byte(twoGateways))
	if len(r.Findings) > 0 {
		t.Fatal(r.Findings)
	}
	var changes []config.Change
	for i := range r.Objects {
		changes = append(changes, config.Change{Key: r.Objects[i].Key, Object: &r.Objects[i]})
	}
	p.known.apply(changes)
	s, _ := p.registry.Apply(changes)
	for _, c := range []struct {
		connected  []string
		shop, cart string
	}{
		{nil, "10.0.0.2 of istio-system/istio-egressgateway", "10.0.0.2 of istio-system/istio-egressgateway"},
		{[]string{"10.0.0.2"}, "", "10.0.1.2 of cart/gw"},
		{[]string{"2001:db8::2"}, "", "10.0.1.2 of cart/gw"},
		{[]string{"10.0.0.2", "10.0.1.2", "nonsense"}, "", ""},
	} {
		e := p.newExits(s, c.connected)
		if shop, cart := e.absent("shop"), e.absent("cart"); shop != c.shop || cart != c.cart {
			t.Errorf("connected %s: missed of shop %q, of cart %q", strings.Join(c.connected, ", "), shop, cart)
		}
	}
}
