package translate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestCrowdedPatternsAreToldLittle: hosts below a pattern, and matches for them, that are too many together come to a row each, at pods and at the gateway that they leave by.
func TestCrowdedPatternsAreToldLittle(t *testing.T) {
	const hosts, matches = 400, 700
	written := func(n int, format string) string {
		list := make([]string, n)
		for i := range list {
			list[i] = strings.ReplaceAll(format, "N", fmt.Sprint(i))
		}
		return strings.Join(list, ", ")
	}
	for _, c := range []struct {
		name, gateway, bound string
		node                 translate.Node
	}{
		{"at a pod", "direct", "mesh", teamA},
		{"at the gateway", "istio-system/istio-egressgateway", "istio-system/out", gateway},
	} {
		text := ours + fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: many, namespace: team-a, annotations: {egress.sallyport.io/gateway: %s}}
spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: out, namespace: istio-system}
spec: {selector: {istio: egressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: many, namespace: team-a}
spec: {hosts: ["*.many.test"], gateways: [%s], http: [{match: [%s], route: [{destination: {host: h0.many.test}}]}]}
`, c.gateway, written(hosts, "hN.many.test"), c.bound, written(matches, "{uri: {prefix: /N}}"))
		read := decode.File("objects.yaml", []byte(text))
		if len(read.Findings) > 0 {
			t.Fatal(read.Findings)
		}
		var changes []config.Change
		for i := range read.Objects {
			changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
		}
		cfg := mesh.Default()
		s, _ := registry.New(&cfg).Apply(changes)
		told, rows := 0, 0
		translate.NewTranslator().Build(s, translate.Classify(s, c.node)).Walk(resource.VirtualHost, func(r *resource.Resource) bool {
			if strings.Contains(r.Name, ".many.test") {
				told, rows = told+len(r.Value()), rows+1
			}
			return true
		})
		if rows < hosts || told > hosts*2048 {
			t.Errorf("%s: %d rows of %d bytes for %d hosts", c.name, rows, told, hosts)
		}
	}
}
