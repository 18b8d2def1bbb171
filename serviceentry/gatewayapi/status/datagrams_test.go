package status_test

import (
	"fmt"
	"slices"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const datagrams = `
apiVersion: v1
kind: Service
metadata: {name: dns, namespace: infra}
spec: {clusterIP: 10.0.0.2, ports: [{name: tcp, port: 53}, {name: udp, port: 53, protocol: UDP}, {name: web, port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: names, namespace: infra}
spec:
  gatewayClassName: sallyport
  listeners:
  - {name: udp, port: 53, protocol: UDP}
  - {name: tcp, port: 53, protocol: TCP}
  - {name: again, port: 99, protocol: UDP}
  - {name: twice, port: 99, protocol: UDP}
`

const datagramRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: %s, namespace: infra, creationTimestamp: '2026-01-0%dT00:00:00Z'}
spec: {parentRefs: [{name: names%s}], rules: [{backendRefs: [{name: dns, port: %d}]}]}
`

func listenersSaid(t *testing.T, s *registry.Snapshot) map[string]string {
	t.Helper()
	got, ok := status.Gateway(s, config.Key{Kind: config.KindKubeGateway, Namespace: "infra", Name: "names"})
	if !ok {
		t.Fatal("no Gateway")
	}
	out := map[string]string{}
	for _, l := range got.Listeners {
		out[string(l.Name)] = fmt.Sprint(said(l.Conditions[:2]), " ", l.AttachedRoutes)
	}
	return out
}

// TestDatagrams: what is told of listeners and routes for UDP: they share a port's number with TCP, and nothing comes in where an
// AuthorizationPolicy is for the gateway.
func TestDatagrams(t *testing.T) {
	r := registry.New(settings())
	s, _ := apply(t, r, datagrams, fmt.Sprintf(datagramRoute, "a", 1, ", sectionName: udp", 53), fmt.Sprintf(datagramRoute, "b", 2, ", port: 53", 80), fmt.Sprintf(datagramRoute, "c", 3, ", sectionName: tcp", 53))
	for name, want := range map[string]string{
		"a": "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs", "b": "Accepted=True/Accepted ResolvedRefs=False/BackendNotFound",
		"c": "Accepted=False/NotAllowedByListeners ResolvedRefs=True/ResolvedRefs",
	} {
		got, _ := status.Route(s, config.Key{Kind: config.KindUDPRoute, Namespace: "infra", Name: name})
		if len(got.Parents) != 1 || said(got.Parents[0].Conditions) != want {
			t.Errorf("%s: %+v, want %s", name, got.Parents, want)
		}
	}
	open := "Accepted=True/Accepted Programmed=True/Programmed"
	for name, want := range map[string]string{"udp": open + " 2", "tcp": open + " 0", "again": "Accepted=False/HostnameConflict Programmed=False/Invalid 0"} {
		if got := listenersSaid(t, s)[name]; got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for _, c := range []struct{ what, policy, want string }{
		{"for the Gateway", "metadata: {name: p, namespace: infra}\nspec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: names}], action: DENY, rules: [{}]}\n", "Programmed=False/Invalid 2"},
		{"of the mesh", "metadata: {name: p, namespace: istio-system}\nspec: {}\n", "Programmed=False/Invalid 2"},
		{"of another namespace", "metadata: {name: p, namespace: shop}\nspec: {}\n", "Programmed=True/Programmed 2"},
		{"for another Gateway", "metadata: {name: p, namespace: infra}\nspec: {targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: other}]}\n", "Programmed=True/Programmed 2"},
		{"a dry run", "metadata: {name: p, namespace: infra, annotations: {istio.io/dry-run: 'true'}}\nspec: {}\n", "Programmed=True/Programmed 2"},
	} {
		before := listenersSaid(t, s)["udp"]
		s, changed := apply(t, r, "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"+c.policy)
		got := listenersSaid(t, s)["udp"]
		if got != "Accepted=True/Accepted "+c.want || listenersSaid(t, s)["tcp"] != open+" 0" {
			t.Errorf("a policy %s: %s, want %s", c.what, got, c.want)
		}
		told := slices.Contains(changed.GatewayAPI, config.Key{Kind: config.KindKubeGateway, Namespace: "infra", Name: "names"})
		if got != before && !told {
			t.Errorf("a policy %s: %s after %s, and nobody is told", c.what, got, before)
		}
		for _, ns := range []string{"infra", "istio-system", "shop"} {
			s, _ = r.Apply([]config.Change{{Key: config.Key{Kind: config.KindAuthorizationPolicy, Namespace: ns, Name: "p"}}})
		}
		if got := listenersSaid(t, s)["udp"]; got != before {
			t.Errorf("without the policy %s: %s", c.what, got)
		}
	}
}

const closedGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: names, namespace: infra}
spec:
  gatewayClassName: sallyport
  infrastructure: {labels: {team: names}}
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: udp, port: 53, protocol: UDP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: more, namespace: infra}
spec: {parentRef: {name: names}, listeners: [{name: more, port: 54, protocol: UDP}]}
`

// TestNothingComesIn: where nothing comes in at any listener, the Gateway is accepted and not programmed, by the labels that its pods get, and so
// is a ListenerSet; both are told again when that changes.
func TestNothingComesIn(t *testing.T) {
	r := registry.New(settings())
	s, _ := apply(t, r, closedGateway)
	keys := []config.Key{{Kind: config.KindKubeGateway, Namespace: "infra", Name: "names"}, {Kind: config.KindListenerSet, Namespace: "infra", Name: "more"}}
	is := func(what, programmed string, changed []config.Key) {
		t.Helper()
		gateway, _ := status.Gateway(s, keys[0])
		set, _ := status.ListenerSet(s, keys[1])
		for kind, got := range map[string]string{"Gateway": said(gateway.Conditions[:2]), "ListenerSet": said(set.Conditions[:2])} {
			if got != "Accepted=True/Accepted "+programmed {
				t.Errorf("%s: %s: %s, want %s", what, kind, got, programmed)
			}
		}
		for _, key := range keys {
			if !slices.Contains(changed, key) {
				t.Errorf("%s: nobody is told of %s", what, key)
			}
		}
	}
	const open, closed = "Programmed=True/Programmed", "Programmed=False/Invalid"
	is("open", open, keys)
	for _, selector := range []string{"team: names", "gateway.networking.k8s.io/gateway-class-name: sallyport"} {
		var changed registry.Changed
		s, changed = apply(t, r, "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: p, namespace: infra}\nspec: {selector: {matchLabels: {"+selector+"}}}\n")
		is("a policy for "+selector, closed, changed.GatewayAPI)
		s, changed = r.Apply([]config.Change{{Key: config.Key{Kind: config.KindAuthorizationPolicy, Namespace: "infra", Name: "p"}}})
		is("without it", open, changed.GatewayAPI)
	}
	denying := *settings()
	denying.Audit.WhenFull = mesh.Deny
	s, changed := r.SetMesh(&denying)
	is("whenFull: deny", closed, changed.GatewayAPI)
	s, changed = r.SetMesh(settings())
	is("whenFull: drop", open, changed.GatewayAPI)
}

// TestClassFeatures: a GatewayClass of ours says what it does, others' say nothing of ours.
func TestClassFeatures(t *testing.T) {
	const class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: sallyport}\nspec: {controllerName: %s}\n"
	key := config.Key{Kind: config.KindGatewayClass, Name: "sallyport"}
	s, _ := apply(t, registry.New(settings()), fmt.Sprintf(class, "egress.sallyport.io/gateway-controller"))
	got, ours := status.Class(s, key)
	if !ours || !slices.Contains(got.SupportedFeatures, gatewayv1.SupportedFeature{Name: "UDPRoute"}) {
		t.Errorf("%+v", got)
	}
	s, _ = apply(t, registry.New(settings()), fmt.Sprintf(class, "example.com/theirs"))
	if _, ours := status.Class(s, key); ours {
		t.Error("another's class is ours")
	}
}
