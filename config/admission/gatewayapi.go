package admission

import (
	"cmp"
	"fmt"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// gatewayAPI says what of an object of the Gateway API is left undone. Nothing is refused: what does not count is closed, and the object's
// status says so in the API's own words.
func (r *report) gatewayAPI() {
	o := r.of
	switch spec := o.Spec.(type) {
	case *gatewayv1.GatewaySpec:
		r.kubeGateway(spec)
	case *gatewayv1.ListenerSetSpec:
		if _, gateway := gatewayapi.SetParent(&o); !gateway {
			r.warn("spec.parentRef.kind", *spec.ParentRef.Kind, "only Gateways get listeners of ListenerSets", "name a Gateway")
		}
		for i, l := range spec.Listeners {
			r.kubeListener(fmt.Sprintf("spec.listeners[%d]", i), l.TLS)
		}
	case *gatewayv1.BackendTLSPolicySpec:
		r.backendTLSPolicy(&o, spec)
	}
	route, is := gatewayapi.RouteOf(&o)
	if !is {
		return
	}
	for i, p := range route.Parents {
		_, gateway := route.GatewayOf(p)
		_, service := route.ServiceOf(p)
		_, set := route.SetOf(p)
		if !gateway && !service && !set && p.Kind != nil {
			r.warn(fmt.Sprintf("spec.parentRefs[%d].kind", i), *p.Kind, "the route counts at Gateways, ListenerSets and for Services only", "name one of them")
		}
		if service && o.Kind == config.KindUDPRoute {
			r.warn(fmt.Sprintf("spec.parentRefs[%d].kind", i), *p.Kind, "what pods send to a Service by UDP is led by no route, and the route is not accepted there", "name a Gateway or a ListenerSet")
		}
		if service && len(route.Hostnames) > 0 {
			r.warn("spec.hostnames", route.Hostnames[0], "what a Service is asked for by is the Service's own, so hostnames count at Gateways only", "remove them")
		}
	}
	for i, p := range route.Parents {
		if _, service := route.ServiceOf(p); service && gatewayapi.HasAsked(&o) {
			field, why, _ := strings.Cut(gatewayapi.AsksElsewhere, ": ")
			r.warn("spec."+field, nil, why+fmt.Sprintf("; the route is not accepted for spec.parentRefs[%d]", i), "give Gateways a route of their own")
		}
	}
	if p := route.Unsupported(); p.Is() {
		field, why, _ := strings.Cut(p.Message, ": ")
		r.warn("spec."+field, nil, why+"; the whole route is not accepted", "remove it")
	}
}

// backendTLSPolicy says what of one is not kept, and that nothing is sent by it then.
func (r *report) backendTLSPolicy(o *config.Object, spec *gatewayv1.BackendTLSPolicySpec) {
	for i, t := range spec.TargetRefs {
		if t.Group != "" || t.Kind != "Service" {
			r.warn(fmt.Sprintf("spec.targetRefs[%d].kind", i), t.Kind, "only Services are backends, and nothing is wrapped in TLS by it", "name a Service")
			continue
		}
		for _, p := range gatewayapi.BackendTLSOf(o, string(t.Name))[:1] {
			if wrong := cmp.Or(p.Unaccepted.Message, p.Refs.Message); wrong != "" {
				field, why, _ := strings.Cut(wrong, ": ")
				r.warn("spec."+field, nil, why+"; what leads to the Service is answered with 500", "name ConfigMaps or Secrets with ca.crt, or System")
				return
			}
		}
	}
}

func (r *report) kubeGateway(spec *gatewayv1.GatewaySpec) {
	if gatewayapi.IsWaypoint(spec.GatewayClassName) {
		r.waypointFor()
	}
	if p := gatewayapi.Unacceptable(spec); p.Is() {
		field, why, _ := strings.Cut(p.Message, ": ")
		r.warn("spec."+field, nil, why+"; the Gateway is not accepted", "remove it")
	}
	if p := gatewayapi.Parameters(spec); p.Is() {
		field, why, _ := strings.Cut(p.Message, ": ")
		why, fix, _ := strings.Cut(why, ": ")
		r.warn("spec."+field, spec.Infrastructure.ParametersRef.Kind, why+", and the Gateway is not accepted", fix)
	}
	r.proxyConfig(spec)
	if kind := r.of.Annotations["networking.istio.io/service-type"]; len(gatewayapi.Addresses(spec)) > 0 && (kind == "ClusterIP" || kind == "NodePort") {
		r.warn("spec.addresses[0]", gatewayapi.Addresses(spec)[0], "a Service of type "+kind+" asks no load balancer for it", "remove it, or the annotation networking.istio.io/service-type")
	}
	for i, l := range spec.Listeners {
		at := fmt.Sprintf("spec.listeners[%d]", i)
		if gatewayapi.IsEgress(spec.GatewayClassName) {
			if p := gatewayapi.EgressListener(spec, &l); p.Is() {
				field, why, _ := strings.Cut(p.Message, ": ")
				r.warn(at+"."+strings.TrimPrefix(field, "spec."), nil, why+"; the listener is not accepted", "write what an egress gateway serves")
			}
			continue
		}
		r.kubeListener(at, l.TLS)
	}
	if gatewayapi.Unverified(spec) {
		r.warn("spec.tls.frontend", gatewayv1.AllowInsecureFallback, "clients come in whatever certificate they show, and backends are not told of it", "write AllowValidOnly")
	}
}

// proxyConfig says what of the ProxyConfig that a Gateway gives its pods does not count.
func (r *report) proxyConfig(spec *gatewayv1.GatewaySpec) {
	text, field := gatewayapi.ProxyConfig(r.of.Annotations, spec)
	_, err := mesh.TopologyOf(text)
	switch {
	case text == "":
		return
	case gatewayapi.IsWaypoint(spec.GatewayClassName) || gatewayapi.IsEgress(spec.GatewayClassName):
		r.warn(field, text, "gatewayTopology counts at gateways by which others come into the mesh; here nothing of it does", "remove it")
		return
	case err != nil:
		r.warn(field, text, err.Error()+"; nothing is deployed for the Gateway", "write Istio's ProxyConfig as YAML, as in 'gatewayTopology: {numTrustedProxies: 1}'")
		return
	}
	for _, other := range mesh.BesideTopology(text) {
		r.warn(field, other, "of a Gateway's ProxyConfig gatewayTopology counts, and nothing else", "remove it; spec.infrastructure.parametersRef says more of how pods are deployed")
	}
}

// kubeListener says what of a listener is not done, of a Gateway or a ListenerSet.
func (r *report) kubeListener(at string, tls *gatewayv1.ListenerTLSConfig) {
	if tls != nil && len(tls.Options) > 0 {
		r.warn(at+".tls.options", nil, "no option is known, and the listener is not opened", "remove them")
	}
}
