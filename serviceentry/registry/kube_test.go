package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

const (
	gatewayService = `
apiVersion: v1
kind: Service
metadata: {name: istio-egressgateway, namespace: istio-system}
spec:
  selector: {istio: egressgateway}
  ports: [{name: https, port: 443, targetPort: https}, {name: http2-status, port: 15021}]
---
`
	gatewayPod = `
apiVersion: v1
kind: Pod
metadata: {name: egress-1, namespace: istio-system, labels: {istio: egressgateway, app: x}}
spec:
  serviceAccountName: egress
  containers: [{name: proxy, ports: [{name: https, containerPort: 8443}]}]
status: {podIP: 10.0.0.2, phase: Running}
---
`
	otherPod = `
apiVersion: v1
kind: Pod
metadata: {name: egress-2, namespace: istio-system, labels: {istio: egressgateway}}
spec: {containers: []}
status: {podIP: 10.0.0.3, phase: %s}
---
`
	gatewaySlice = `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: s1, namespace: istio-system, labels: {kubernetes.io/service-name: istio-egressgateway}}
addressType: IPv4
ports: [{name: https, port: 9443, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.2], conditions: {ready: true}}
- {addresses: [10.0.0.4], conditions: {ready: false}}
- {addresses: [10.0.0.5]}
---
`
)

var gatewayRef = registry.Ref{Namespace: "istio-system", Name: "istio-egressgateway"}

// TestEndpoints: a service's are those of its slices; without any, the running pods that it selects.
func TestEndpoints(t *testing.T) {
	w := newWorld(t, gatewayService, gatewayPod)
	endpoints := func() []registry.Endpoint {
		return w.Snapshot().EndpointsOf(w.Snapshot().Services(gatewayRef.Host())[0])
	}
	labels := map[string]string{"app": "x", "istio": "egressgateway"}
	byPod := []registry.Endpoint{{Address: "10.0.0.2", Ports: map[string]uint32{"https": 8443}, ServiceAccount: "egress", Labels: labels}}
	if d := cmp.Diff(byPod, endpoints()); d != "" {
		t.Errorf("by pods:\n%s", d)
	}
	changed := w.apply(gatewaySlice)
	bySlice := []registry.Endpoint{
		{Address: "10.0.0.2", Ports: map[string]uint32{"https": 9443, "http2-status": 0}, ServiceAccount: "egress", Labels: labels},
		{Address: "10.0.0.5", Ports: map[string]uint32{"https": 9443, "http2-status": 0}, Written: true}, // no pod has it; the slice names no port for the status
	}
	if d := cmp.Diff(bySlice, endpoints()); d != "" || !slices.Equal(changed.Endpoints, []string{gatewayRef.Host()}) || len(changed.Hosts) > 0 {
		t.Errorf("by slices: %+v\n%s", changed, d)
	}
	w.remove(gatewaySlice)
	if d := cmp.Diff(byPod, endpoints()); d != "" {
		t.Errorf("by pods again:\n%s", d)
	}
	w.remove(gatewayPod)
	if got := endpoints(); len(got) != 0 {
		t.Errorf("without pods: %+v", got)
	}
	for phase, want := range map[string]int{"Pending": 0, "Running": 1, "Succeeded": 0} {
		w.apply(fmt.Sprintf(otherPod, phase))
		if got := endpoints(); len(got) != want || (want > 0 && got[0].ServiceAccount != "default") {
			t.Errorf("%s: %+v", phase, got)
		}
	}
}

// TestGatewaysOf: the services that select a pod.
func TestGatewaysOf(t *testing.T) {
	s := newWorld(t, gatewayService, "apiVersion: v1\nkind: Service\nmetadata: {name: all, namespace: istio-system}\nspec: {ports: [{port: 80}]}\n").Snapshot()
	for labels, want := range map[string]int{"egressgateway": 1, "other": 0} {
		if got := s.GatewaysOf("istio-system", map[string]string{"istio": labels}); len(got) != want {
			t.Errorf("%s: %+v", labels, got)
		}
	}
	if got := s.GatewaysOf("istio", map[string]string{"istio": "egressgateway"}); len(got) != 0 {
		t.Errorf("a namespace whose name begins alike: %+v", got)
	}
	if k, ok := s.KubeService(gatewayRef); !ok || k.Ports[0].Number != 443 {
		t.Errorf("%+v", k)
	}
	svc := s.Services(gatewayRef.Host())[0]
	if p, _ := svc.Port(15021); svc.External || p.Protocol != registry.HTTP2 || svc.Resolution != registry.Static {
		t.Errorf("%+v", svc)
	}
}

// TestProtocols: what is spoken on a port, by Istio's words.
func TestProtocols(t *testing.T) {
	for word, want := range map[string]registry.Protocol{
		"HTTP": registry.HTTP, "http": registry.HTTP, "HTTP2": registry.HTTP2, "GRPC": registry.HTTP2, "grpc-web": registry.HTTP2, "HTTPS": registry.TLS, "TLS": registry.TLS,
		"TCP": registry.TCP, "MONGO": registry.TCP, "MySQL": registry.TCP, "UDP": registry.UDP, "": registry.TCP, "quic": registry.TCP,
	} {
		if got := registry.ParseProtocol(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

// TestChanged: a change names what it touches and nothing else.
func TestChanged(t *testing.T) {
	a, b := entryYAML("default/a", "a.test", ""), entryYAML("shop/b", "b.test", "")
	w := newWorld(t, a, b, gatewayService, gatewayPod)
	for _, tt := range []struct {
		name   string
		do     func(string) registry.Changed
		text   string
		want   []string
		scopes bool
	}{
		{"the same again", w.apply, a, nil, false},
		{"another port", w.apply, entryYAML("default/a", "a.test", "ports: [{number: 80, name: http, protocol: HTTP}]"), []string{"a.test"}, false},
		{"another host", w.apply, entryYAML("default/a", "c.test", ""), []string{"a.test", "c.test"}, false},
		{"a rule", w.apply, ruleYAML("shop/r", "b.test", ""), []string{"b.test"}, false},
		{"a rule of nobody", w.apply, ruleYAML("shop/r2", "none.test", ""), nil, false},
		{"a Sidecar", w.apply, sidecarYAML("default/s", "", `"./*"`), nil, true},
		{"no Sidecar", w.remove, sidecarYAML("default/s", "", `"./*"`), nil, true},
		{"a pod of nobody", w.apply, "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: default}\nspec: {containers: []}\nstatus: {podIP: 10.9.9.9}\n", nil, false},
		{"the gateway's pod", w.remove, gatewayPod, []string{gatewayRef.Host()}, false},
		{"gone", w.remove, b, []string{"b.test"}, false},
		{"gone twice", w.remove, b, nil, false},
	} {
		before := w.Snapshot()
		changed := tt.do(tt.text)
		if !slices.Equal(slices.Concat(changed.Hosts, changed.Endpoints), tt.want) || (len(changed.Scopes) > 0) != tt.scopes || changed.Mesh {
			t.Errorf("%s: %+v", tt.name, changed)
		}
		if !changed.Empty() && w.Snapshot() == before {
			t.Errorf("%s: a change without a new snapshot", tt.name)
		}
	}
}

// TestAccountIsOfTheServicesOwnPod: on a host's network pods of several namespaces share an address.
func TestAccountIsOfTheServicesOwnPod(t *testing.T) {
	w := newWorld(t, `
apiVersion: v1
kind: Service
metadata: {name: gw, namespace: edge}
spec: {clusterIP: 10.96.0.5, ports: [{name: https, port: 443}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: gw-1, namespace: edge, labels: {kubernetes.io/service-name: gw}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.2]}]
ports: [{name: https, port: 8443}]
---
apiVersion: v1
kind: Pod
metadata: {name: gw-1, namespace: edge}
spec: {serviceAccountName: gw, containers: [{name: a, image: a}]}
status: {podIP: 10.0.0.2, phase: Running}
---
apiVersion: v1
kind: Pod
metadata: {name: a, namespace: aaa}
spec: {serviceAccountName: other, containers: [{name: a, image: a}]}
status: {podIP: 10.0.0.2, phase: Running}
`)
	if e := w.Snapshot().EndpointsOf(w.Snapshot().GatewayService(registry.Ref{Namespace: "edge", Name: "gw"})); len(e) != 1 || e[0].ServiceAccount != "gw" {
		t.Errorf("the endpoints are %+v", e)
	}
	w.apply(strings.Replace(entryYAML("aaa/fake", "gw.edge.svc.cluster.local", "ports: [{number: 443, name: tls, protocol: TLS}]"), "MESH_EXTERNAL", "MESH_INTERNAL", 1))
	if svc := w.Snapshot().GatewayService(registry.Ref{Namespace: "edge", Name: "gw"}); svc.Namespace != "edge" {
		t.Errorf("the gateway's Service is %s", svc.Source)
	}
}
