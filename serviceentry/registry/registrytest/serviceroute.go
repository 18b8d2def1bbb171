package registrytest

import (
	"fmt"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
)

// serviceRoute is a route of the Gateway API in a namespace, for one of some Services, which leads to others.
func (w *World) serviceRoute(ns string, namespaces, names []string, ports []uint32) *config.Object {
	name := fmt.Sprintf("r%d", w.rand.IntN(4))
	parent := gatewayv1.ParentReference{Group: new(gatewayv1.Group("")), Kind: new(gatewayv1.Kind("Service")), Name: gatewayv1.ObjectName(pick(w, names))}
	if w.rand.IntN(3) == 0 {
		parent.Namespace = new(gatewayv1.Namespace(pick(w, namespaces)))
	}
	if w.rand.IntN(2) == 0 {
		parent.Port = new(gatewayv1.PortNumber(pick(w, ports)))
	}
	parents := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{parent}}
	if w.rand.IntN(4) == 0 {
		parent.Name = gatewayv1.ObjectName(pick(w, names))
		parents.ParentRefs = append(parents.ParentRefs, parent)
	}
	backend := func() gatewayv1.BackendRef {
		b := gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(pick(w, names)), Port: new(gatewayv1.PortNumber(pick(w, ports)))}}
		if w.rand.IntN(3) == 0 {
			b.Namespace = new(gatewayv1.Namespace(pick(w, namespaces)))
		} else if w.rand.IntN(4) == 0 {
			b.Group, b.Kind, b.Name = new(gatewayv1.Group("networking.istio.io")), new(gatewayv1.Kind("Hostname")), gatewayv1.ObjectName(pick(w, []string{"r.example.org", "s.example.org", "a.example"}))
		}
		return b
	}
	var o *config.Object
	switch w.rand.IntN(5) {
	case 0:
		o = w.made(config.KindTCPRoute, ns, name, &gatewayv1.TCPRouteSpec{CommonRouteSpec: parents, Rules: []gatewayv1.TCPRouteRule{{BackendRefs: []gatewayv1.BackendRef{backend()}}}}, nil)
	case 1:
		o = w.made(config.KindGRPCRoute, ns, name, &gatewayv1.GRPCRouteSpec{CommonRouteSpec: parents, Rules: []gatewayv1.GRPCRouteRule{{
			Matches:     []gatewayv1.GRPCRouteMatch{{Method: &gatewayv1.GRPCMethodMatch{Service: new("a.B")}}},
			BackendRefs: []gatewayv1.GRPCBackendRef{{BackendRef: backend()}},
		}}}, nil)
	default:
		spec := &gatewayv1.HTTPRouteSpec{CommonRouteSpec: parents}
		for range 1 + w.rand.IntN(3) {
			rule := gatewayv1.HTTPRouteRule{BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: backend()}}}
			switch w.rand.IntN(4) {
			case 0:
				rule.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new(pick(w, []string{"/", "/a", "/a/b", "/v1"}))}}}
			case 1:
				rule.Matches = []gatewayv1.HTTPRouteMatch{{Headers: []gatewayv1.HTTPHeaderMatch{{Name: "x-user", Value: "a"}}}, {Method: new(gatewayv1.HTTPMethodPost)}}
			case 2:
				rule.BackendRefs, rule.Filters = nil, []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: new(gatewayv1.PreciseHostname("else.test"))}}}
			}
			if len(rule.BackendRefs) > 0 && rule.BackendRefs[0].Kind == nil && len(spec.Rules) == 1 {
				rule.SessionPersistence = &gatewayv1.SessionPersistence{SessionName: new("sid")}
				left := backend() // to which sessions lead alone
				left.Weight, left.Group, left.Kind = new(int32(0)), nil, nil
				rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: left})
			}
			spec.Rules = append(spec.Rules, rule)
		}
		o = w.made(config.KindHTTPRoute, ns, name, spec, nil)
	}
	o.Created = time.Unix(1_600_000_000+int64(w.rand.IntN(3)), 0)
	return o
}

// preyServiceRoute is one for Services of others.
func (w *World) preyServiceRoute(ns string, prey Prey) *config.Object {
	namespaces, names := []string{ns}, []string{"web"}
	for _, s := range prey.Services {
		of, name, _ := strings.Cut(s, "/")
		namespaces, names = append(namespaces, of), append(names, name)
	}
	return w.serviceRoute(ns, namespaces, names, append([]uint32{80}, prey.Ports...))
}
