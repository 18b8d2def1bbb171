package registrytest

import (
	"fmt"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// LeavingHosts are names that routes at egress Gateways let out, and patterns over them; of some there are entries, too.
var LeavingHosts = []string{"out.example.org", "in.out.example.org", "*.out.example.org", "r.example.org", "a.test", "x.wild.test", "*.wild.test"}

// Leaving adds egress Gateways of the Gateway API to a mesh, of its own gateway and of a team's, and routes at them.
func (w *World) Leaving() {
	all := gatewayv1.NamespacesFromAll
	for i, address := range []string{"", "own-gateway.team-a.svc.cluster.local"}[:1+w.rand.IntN(2)] {
		g := &gatewayv1.GatewaySpec{GatewayClassName: "sallyport-egress"}
		if address != "" {
			g.Addresses = []gatewayv1.GatewaySpecAddress{{Type: new(gatewayv1.HostnameAddressType), Value: address}}
		}
		for n, l := range []gatewayv1.Listener{
			{Port: 80, Protocol: gatewayv1.HTTPProtocolType}, {Port: 8080, Protocol: gatewayv1.HTTPProtocolType, Hostname: new(gatewayv1.Hostname("*.out.example.org"))},
			{Port: 443, Protocol: gatewayv1.TLSProtocolType, TLS: &gatewayv1.ListenerTLSConfig{Mode: new(gatewayv1.TLSModePassthrough)}},
		} {
			if w.rand.IntN(6) == 0 {
				continue
			}
			if l.Name = gatewayv1.SectionName(fmt.Sprintf("l%d", n)); w.rand.IntN(6) > 0 {
				l.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}}
			}
			g.Listeners = append(g.Listeners, l)
		}
		if len(g.Listeners) > 0 {
			w.put(w.aged(w.made(config.KindKubeGateway, []string{"istio-system", "team-a"}[i], "out", g, nil)))
		}
	}
	for i := range 1 + w.rand.IntN(6) {
		w.put(w.aged(w.leavingRoute(pick(w, meshNamespaces), fmt.Sprintf("out%d", i))))
	}
}

func (w *World) leavingRoute(ns, name string) *config.Object {
	parent := gatewayv1.ParentReference{Name: "out", Namespace: new(gatewayv1.Namespace(pick(w, []string{"istio-system", "istio-system", "team-a"})))}
	if w.rand.IntN(3) == 0 {
		parent.SectionName = new(gatewayv1.SectionName(fmt.Sprintf("l%d", w.rand.IntN(3))))
	}
	parents := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}}
	hosts := []gatewayv1.Hostname{gatewayv1.Hostname(pick(w, LeavingHosts))}
	if w.rand.IntN(3) == 0 {
		hosts = append(hosts, gatewayv1.Hostname(pick(w, LeavingHosts)))
	}
	backend := func(ports ...int32) gatewayv1.BackendRef {
		host := gatewayv1.ObjectName(hosts[0])
		if w.rand.IntN(3) == 0 {
			host = gatewayv1.ObjectName(pick(w, append([]string{"nobody.example.org"}, LeavingHosts...)))
		}
		return gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
			Group: new(gatewayv1.Group("networking.istio.io")), Kind: new(gatewayv1.Kind("Hostname")), Name: host, Port: new(pick(w, ports)),
		}}
	}
	annotations := map[string]string{}
	if w.rand.IntN(4) == 0 {
		annotations["networking.istio.io/exportTo"] = pick(w, []string{".", "*", "team-a"})
	}
	if w.rand.IntN(3) == 0 {
		return w.made(config.KindTLSRoute, ns, name, &gatewayv1.TLSRouteSpec{CommonRouteSpec: parents, Hostnames: hosts, Rules: []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{backend(443, 443, 8443)}}}}, annotations)
	}
	spec := &gatewayv1.HTTPRouteSpec{CommonRouteSpec: parents, Hostnames: hosts}
	for range 1 + w.rand.IntN(3) {
		rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backend(80, 443, 8080)}}}
		if w.rand.IntN(2) == 0 {
			rule.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(pick(w, []string{"/", "/api", "/b"}))}}}
		}
		switch w.rand.IntN(6) {
		case 0:
			rule.BackendRefs, rule.Filters = nil, []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: new(gatewayv1.PreciseHostname("else.test"))}}}
		case 1:
			rule.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: &gatewayv1.HTTPURLRewriteFilter{Path: &gatewayv1.HTTPPathModifier{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: new("/new")}}}}
		}
		spec.Rules = append(spec.Rules, rule)
	}
	return w.made(config.KindHTTPRoute, ns, name, spec, annotations)
}
