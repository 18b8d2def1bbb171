package admission

import (
	"slices"

	typev1beta1 "istio.io/api/type/v1beta1"
	corev1 "k8s.io/api/core/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// Whom policies of requests are for, as far as others tell: targets that are not there, or that nobody stands before, and waypoints, which are not chosen by labels.

// targeting is a policy that may name targets.
type targeting interface {
	GetTargetRef() *typev1beta1.PolicyTargetReference
	GetTargetRefs() []*typev1beta1.PolicyTargetReference
}

// judgeTargets warns of each target that is nothing, where others of its kind are known. What is refused as a whole is not told again.
func (w *world) judgeTargets(r *report, spec targeting, p selection.Workloads) {
	if Refused(r.findings) {
		return
	}
	targets := slices.Clone(spec.GetTargetRefs())
	if one := spec.GetTargetRef(); one != nil {
		targets = append(targets, one)
	}
	for i, t := range targets {
		field := at("spec.targetRefs", i, "name")
		switch {
		case selection.IsGateway(t):
			if _, there := w.kubeGateways[config.Key{Kind: config.KindKubeGateway, Namespace: p.Namespace, Name: t.Name}]; !there && len(w.kubeGateways) > 0 {
				r.warn(field, t.Name, "there is no Gateway "+p.Namespace+"/"+t.Name+", so the policy is for nobody there", "create the Gateway, or mend the name; a policy has targets in its own namespace")
			}
		case selection.IsService(t):
			w.judgeTargetService(r, field, p.Namespace, t.Name)
		}
	}
}

// judgeTargetService warns of a Service that is not there, or has no waypoint and is no gateway's.
func (w *world) judgeTargetService(r *report, field, ns, name string) {
	svc := w.specs[host.Name(name+"."+ns+"."+clusterDomain)]
	one := selection.Workloads{Namespace: ns, Targeted: true, Services: []string{name}}
	switch {
	case svc == nil && len(w.specs) > 0:
		r.warn(field, name, "there is no Service "+ns+"/"+name+", so the policy is for nobody there", "create the Service, or mend the name; a policy has targets in its own namespace")
	case svc == nil || len(w.kubeGateways) == 0 || w.fronted(one) || w.ofGateway(ns, name, svc):
	default:
		r.warn(field, name, "no waypoint stands before the Service, and it is no gateway's, so the policy is for nobody there", "add the label "+gatewayapi.UseWaypointLabel+" to the Service, with a waypoint that is for Services, or select its pods by labels")
	}
}

// ofGateway says whether a Service is of an egress or an ingress gateway, or a waypoint.
func (w *world) ofGateway(ns, name string, svc *corev1.Service) bool {
	if _, deployed := svc.Spec.Selector[gatewayapi.GatewayLabel]; deployed {
		return true
	}
	for _, o := range w.kubeGateways {
		spec := o.Spec.(*gatewayv1.GatewaySpec)
		if stands, named := gatewayapi.EgressService(spec); gatewayapi.IsEgress(spec.GatewayClassName) && named && stands.Namespace == ns && stands.Name == name {
			return true
		}
	}
	return slices.ContainsFunc(slices.Concat(w.exits(), w.ingresses()), func(g serviceOfGateway) bool { return g.namespace == ns && g.name == name })
}

// judgeWaypointsSelected refuses a policy that chooses waypoints' pods by their label: they keep what targets them alone, as in Istio.
func (w *world) judgeWaypointsSelected(r *report, p selection.Workloads, open string) {
	name := p.Selector[selection.GatewayName]
	if name == "" {
		return
	}
	found := false
	for key, o := range w.kubeGateways {
		if key.Name != name || key.Namespace != p.Namespace && p.Namespace != w.cfg.RootNamespace {
			continue
		}
		if !gatewayapi.IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
			return
		}
		found = true
	}
	if found {
		r.reject(at("spec.selector", "matchLabels"), name, "the Gateway is a waypoint, and waypoints keep what targets them, not what selects their pods, as in Istio: "+open,
			"write targetRefs: [{group: "+selection.GatewayGroup+", kind: Gateway, name: "+name+"}] in the waypoint's namespace, or, in the root namespace, name its GatewayClass")
	}
}
