package translate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// sharedFront are gateways of team-a's that others use, too: a Gateway with all hosts, from which namespace store leads its names, and one of the Gateway API that lets in team-a's routes alone.
const sharedFront = `---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: shared, namespace: team-a}
spec: {selector: {istio: ingressgateway}, servers: [{hosts: ["*"], port: {number: 80, name: http, protocol: HTTP}}, {hosts: ["*"], port: {number: 443, name: tls, protocol: TLS}, tls: {mode: PASSTHROUGH}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: pay, namespace: store}
spec:
  hosts: [pay.test, "*.w.test"]
  gateways: [team-a/shared]
  http: [{route: [{destination: {host: checkout.store.svc.cluster.local, port: {number: 80}}}]}]
  tls: [{match: [{sniHosts: [pay.test, "*.w.test"]}], route: [{destination: {host: checkout.store.svc.cluster.local, port: {number: 443}}}]}]
---
apiVersion: v1
kind: Service
metadata: {name: kgw-sallyport, namespace: team-a}
spec: {clusterIP: 10.96.0.31, selector: {gateway.networking.k8s.io/gateway-name: kgw}, ports: [{name: http, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: kgw, namespace: team-a}
spec: {gatewayClassName: sallyport, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: team-a}
spec: {parentRefs: [{name: kgw}], hostnames: [pay.test], rules: [{backendRefs: [{name: a, port: 8080}]}]}
`

var kgwPod = translate.Node{ID: "router~10.244.0.41~kgw-1.team-a~team-a.svc.cluster.local", Namespace: "team-a", Labels: map[string]string{"gateway.networking.k8s.io/gateway-name": "kgw"}}

// sharedNeighbour makes an object about the names of others, which is younger than what they wrote.
func sharedNeighbour(p picker) string {
	host := p.of("pay.test", "pay.test", "*.test", "*.w.test", "x.w.test", "*.x.w.test")
	if p.IntN(2) == 0 {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: %s, namespace: team-b}\nspec: {selector: %s, servers: [{hosts: [%q], port: {number: %s, name: x, protocol: %s}, tls: {mode: %s}}]}\n",
			p.of("g", "h"), p.of("{istio: ingressgateway}", "{gateway.networking.k8s.io/gateway-name: kgw}", "{}"), p.of(host, "*", "./"+host), p.of("80", "443"), p.of("HTTP", "TLS"), p.of("PASSTHROUGH", "SIMPLE"))
	}
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: %s, namespace: team-b, annotations: {%s}}\nspec: {hosts: [%q], gateways: [%q], http: [{match: [{uri: {prefix: /x}, gateways: [%q]}, {uri: {prefix: /}}], route: [{destination: {host: evil}}]}], tls: [{match: [{sniHosts: [%q]}], route: [{destination: {host: evil}}]}]}\n",
		p.of("v", "w"), p.of("'internal.istio.io/route-semantics': gateway", "a: b"), host, p.of("g", "h", "team-a/shared", "team-a/kgw", "team-a/kgw/http", "team-a/kgw/team-a/set/http"), p.of("g", "team-a/kgw/http"), host)
}

// TestNeighboursAtSharedGateways holds law 9 at gateways that several namespaces use.
func TestNeighboursAtSharedGateways(t *testing.T) {
	t.Parallel()
	trials := max(*worlds/2, 5)
	if registrytest.Raced || testing.Short() {
		trials = 2
	}
	for seed := range trials {
		cfg := mesh.Default()
		r := registry.New(&cfg)
		apply := func(text string, created int64) *registry.Snapshot {
			read := decode.File("objects.yaml", []byte(text))
			for _, f := range read.Findings {
				t.Fatal(f)
			}
			var changes []config.Change
			for i := range read.Objects {
				read.Objects[i].Created = time.Unix(created, 0)
				changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
			}
			s, _ := r.Apply(changes)
			return s
		}
		all := func(s *registry.Snapshot) map[string]string {
			out := map[string]string{}
			for _, n := range []translate.Node{frontPod, kgwPod} {
				v := see(s, n)
				for _, kind := range resource.Types() {
					v.Walk(kind, func(r *resource.Resource) bool {
						out[n.ID+" "+kind.URL()+" "+r.Name] = fmt.Sprint(r.Version)
						return true
					})
				}
			}
			return out
		}
		was := all(apply(ours+shop+sharedFront, 1_600_000_000))
		p := picker{rand.New(rand.NewPCG(seed, 12))}
		for range 8 {
			text := sharedNeighbour(p)
			is := all(apply(text, 1_700_000_000))
			for key := range is {
				if _, there := was[key]; !there {
					delete(is, key) // names that nobody led
				}
			}
			if d := cmp.Diff(was, is); d != "" {
				t.Errorf("seed %d: after\n%s\n%.3000s", seed, text, d)
				break
			}
		}
	}
}
