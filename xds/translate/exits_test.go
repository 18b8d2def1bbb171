package translate_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/serviceentry/policy"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
)

const exitsOfNetworks = `apiVersion: v1
kind: Namespace
metadata: {name: istio-system, labels: {topology.istio.io/network: east}}
---
apiVersion: v1
kind: Service
metadata: {name: eastwest, namespace: istio-system, labels: {topology.istio.io/network: west}}
spec: {clusterIP: 10.96.0.74, externalIPs: [192.0.2.7], selector: {istio: eastwest}, ports: [{name: tls, port: 15443}]}
---
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec: {clusterIP: 10.96.0.1, selector: {istio: egressgateway}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: cross-network, namespace: istio-system}
spec:
  selector: {istio: eastwest}
  servers:
  - {port: {number: 15443, name: tls, protocol: TLS}, tls: {mode: AUTO_PASSTHROUGH}, hosts: ["*.local"]}
  - {port: {number: 15443, name: tls-more, protocol: TLS}, tls: {mode: AUTO_PASSTHROUGH}, hosts: ["istio-system/*.svc.cluster.local"]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: web, namespace: shop}
spec: {hosts: [web.example.com, "*.wild.example.com", db.corp.local], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}, {number: 443, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: db, namespace: shop}
spec: {hosts: [db.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 5432, name: tcp, protocol: TCP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own, namespace: team}
spec: {hosts: [own.example.com], exportTo: [.], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
`

// exitPod is a pod of the egress gateway in a network.
func exitPod(name, address, network string) string {
	return fmt.Sprintf(`---
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: istio-system, labels: {istio: egressgateway, topology.istio.io/network: %s}}
spec: {serviceAccountName: istio-egressgateway-service-account, containers: []}
status: {podIP: %s, phase: Running}
`, name, network, address)
}

// TestExitsOfOtherNetworks follows what leaves a pod by an egress gateway in another network, through the gateway between: it arrives as it was sent,
// with the client's own identity. While the own network has an egress gateway, that is asked alone.
func TestExitsOfOtherNetworks(t *testing.T) {
	far := netip.MustParseAddrPort("10.9.0.1:8443")
	between := netip.MustParseAddrPort("192.0.2.7:15443")
	for _, c := range []struct {
		name, pods string
		asked      []string
	}{
		{"there alone", exitPod("far", "10.9.0.1", "west"), []string{between.String()}},
		{"in both", exitPod("far", "10.9.0.1", "west") + exitPod("near", "10.4.0.1", "east"), []string{"10.4.0.1:8443", between.String()}},
		{"nowhere", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := snapshotOf(t, c.name, exitsOfNetworks+c.pods)
			e := envoysOf(newDecoder(), s, nil)
			for _, x := range []tried{
				{Destination: policy.Destination{Scheme: policy.HTTP, Host: "web.example.com", Port: 80}},
				{Destination: policy.Destination{Scheme: policy.HTTP, Host: "web.example.com", Port: 80}, upgrade: true},
				{Destination: policy.Destination{Scheme: policy.HTTPS, Host: "web.example.com", Port: 443}},
				{Destination: policy.Destination{Scheme: policy.HTTPS, Host: "a.wild.example.com", Port: 443}},
				{Destination: policy.Destination{Scheme: policy.HTTPS, Host: "db.corp.local", Port: 443}},
				{Destination: policy.Destination{Scheme: policy.TCP, Host: "db.example.com", Port: 5432}},
				{Destination: policy.Destination{Scheme: policy.HTTPS, Host: "own.example.com", Port: 443}, from: policy.Workload{Namespace: "team"}},
			} {
				x.as, x.from.Name = x.Host, "app"
				if x.from.Namespace == "" {
					x.from.Namespace = "shop"
				}
				identity := "spiffe://cluster.local/ns/" + x.from.Namespace + "/sa/app"
				view, sidecar := e.node(translate.Node{ID: "sidecar~10.4.0.9~p.n~n.svc.cluster.local", Namespace: x.from.Namespace, Account: "app"}, identity)
				ip, ok := resolver{view, e, x}.address(x.Host)
				if !ok {
					t.Fatalf("%v: no address", x)
				}
				out := connected(t, sidecar, interpret.Connection{To: netip.AddrPortFrom(ip, uint16(x.Port)), Through: 15001, Redirected: true, From: podAddress, Bytes: x.bytes()})
				if !slices.Equal(out.Upstream.Addresses, c.asked) {
					t.Fatalf("%v: the sidecar connects to %v, not %v", x, out.Upstream.Addresses, c.asked)
				}
				if len(c.asked) == 0 {
					continue
				}
				_, eastwest := e.node(translate.Node{ID: "router~192.0.2.7~ew.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "eastwest", "topology.istio.io/network": "west"}}, "")
				passed := connected(t, eastwest, out.Upstream.Arrives(between, podAddress))
				if !slices.Equal(passed.Upstream.Addresses, []string{far.String()}) {
					t.Fatalf("%v: the gateway between connects to %v\n%s", x, passed.Upstream.Addresses, strings.Join(passed.Steps, "\n"))
				}
				_, gateway := e.class(translate.Class{Kind: translate.Gateway, Gateway: exitOfTests, Port: uint32(far.Port())}, translate.GatewayPoliced(s.AuthorizingExit(exitOfTests), nil), "")
				there := connected(t, gateway, passed.Upstream.Arrives(far, between))
				if there.Upstream.Cluster == "BlackHoleCluster" || !strings.Contains(there.Upstream.Cluster, strings.TrimPrefix(x.Host, "a.")) {
					t.Errorf("%v: the egress gateway leads to %q\n%s", x, there.Upstream.Cluster, strings.Join(there.Steps, "\n"))
				}
			}
		})
	}
}

var exitOfTests = registry.Ref{Namespace: "istio-system", Name: "istio-egressgateway"}

// connected is what becomes of a connection that leads somewhere.
func connected(t *testing.T, p *interpret.Proxy, c interpret.Connection) interpret.Outcome {
	t.Helper()
	out, err := p.Connect(c)
	if err != nil {
		t.Fatal(err)
	}
	if out.Upstream == nil {
		t.Fatalf("%+v leads nowhere:\n%s", c.Bytes, strings.Join(out.Steps, "\n"))
	}
	return out
}

// TestExitsBetweenNetworksAreShared: a gateway between networks has chains for egress gateways that stand for everybody, each match once, and for none that a
// namespace has for itself.
func TestExitsBetweenNetworksAreShared(t *testing.T) {
	s := snapshotOf(t, "", exitsOfNetworks+exitPod("far", "10.9.0.1", "west")+`---
apiVersion: v1
kind: Service
metadata: {name: exit, namespace: team}
spec: {clusterIP: 10.96.0.2, selector: {istio: mine}, ports: [{name: https, port: 443, targetPort: 8443}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: by-own, namespace: team, annotations: {egress.sallyport.io/gateway: team/exit}}
spec: {hosts: [by-own.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mine, namespace: team, labels: {istio: mine, topology.istio.io/network: west}}
spec: {serviceAccountName: exit, containers: []}
status: {podIP: 10.9.0.2, phase: Running}
`)
	v := translate.NewTranslator().Build(s, translate.Classify(s, translate.Node{ID: "router~192.0.2.7~ew.istio-system~istio-system.svc.cluster.local", Namespace: "istio-system", Labels: map[string]string{"istio": "eastwest", "topology.istio.io/network": "west"}}))
	var chains []string
	for _, m := range newDecoder().decoded(v) {
		if l, is := m.Message.(*listenerv3.Listener); is && m.Name == "0.0.0.0_15443" {
			seen := map[string]bool{}
			for _, c := range l.FilterChains {
				if match := c.FilterChainMatch.String(); seen[match] {
					t.Errorf("two chains for %s", match)
				} else {
					seen[match] = true
				}
				if strings.Contains(c.Name, "exit") {
					chains = append(chains, c.Name)
				}
			}
		}
	}
	if len(chains) != 4 || slices.ContainsFunc(chains, func(name string) bool { return !strings.HasSuffix(name, exitOfTests.String()) }) {
		t.Errorf("chains for egress gateways: %q", chains)
	}
}
