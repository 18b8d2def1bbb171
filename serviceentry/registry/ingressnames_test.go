package registry_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// TestHostsLedToChange: a gateway has the hosts that routes lead it to, so one that routes begin to lead to has changed, whichever object
// comes last.
func TestHostsLedToChange(t *testing.T) {
	const service = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.0.0.1, selector: {app: web}, ports: [{name: http, port: 80}]}
`
	for name, objects := range map[string][]string{
		"Istio's": {service, `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: in, namespace: shop}
spec: {selector: {istio: in}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
`, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v, namespace: shop}
spec: {hosts: [a.test], gateways: [in], http: [{route: [{destination: {host: web}}]}]}
`},
		"the Gateway API's": {service + `---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: sallyport}
spec: {controllerName: egress.sallyport.io/gateway-controller}
`, `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: in, namespace: shop}
spec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP}]}
`, `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: v, namespace: shop}
spec: {parentRefs: [{name: in}], rules: [{backendRefs: [{name: web, port: 80}]}]}
`},
	} {
		for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {2, 1, 0}} {
			cfg := mesh.Default()
			r := registry.New(&cfg)
			var changed registry.Changed
			for _, i := range order {
				var changes []config.Change
				read := decode.File("objects.yaml", []byte(objects[i]))
				for j := range read.Objects {
					changes = append(changes, config.Change{Key: read.Objects[j].Key, Object: &read.Objects[j]})
				}
				_, changed = r.Apply(changes)
			}
			if !slices.Contains(changed.Hosts, "web.shop.svc.cluster.local") {
				t.Errorf("%s, in the order %v: what changed last is %+v", name, order, changed)
			}
		}
	}
}
