package admission

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// judgeDestination warns of rules that ask for the address that something came to where a policy is kept by proxies that do not see it: what comes to an egress gateway, or a
// waypoint, is known by its name. They close there.
func (w *world) judgeDestination(r *report, p *authz.Policy) {
	if p.Action == authz.Audit {
		return
	}
	place := ""
	switch {
	case w.fronted(p.Workloads) || w.targetsWaypoint(p):
		place = "waypoints"
	case w.selectsOne(p.Workloads, w.exits()):
		place = "egress gateways"
	default:
		return
	}
	does := map[authz.Action]string{authz.Allow: "allows nothing", authz.Deny: "denies whatever the address", authz.Custom: "has the provider asked whatever the address"}[p.Action]
	for i := range p.Rules {
		if p.Rules[i].AsksDestination() {
			r.warn(at("spec", p.Rules[i].Name, "when"), "destination.ip", place+" know what comes by its name, and not the address that it was for, so that the rule "+does+" there",
				"ask for hosts or destination.port, or select pods that are no "+place)
		}
	}
}

// targetsWaypoint says whether a policy is for a waypoint as a whole.
func (w *world) targetsWaypoint(p *authz.Policy) bool {
	for _, name := range p.Gateways {
		if o, there := w.kubeGateways[config.Key{Kind: config.KindKubeGateway, Namespace: p.Key.Namespace, Name: name}]; there && gatewayapi.IsWaypoint(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
			return true
		}
	}
	return false
}
