package admission

import "github.com/sallyport/sallyport/serviceentry/authz"

// judgeDestination warns of rules that ask for the address that something came to where a policy is kept by proxies that do not see it: what comes to an egress gateway, or a
// waypoint, is known by its name. They close there.
func (w *world) judgeDestination(r *report, p *authz.Policy) {
	if p.Action == authz.Audit {
		return
	}
	place := ""
	switch {
	case w.fronted(p.Workloads) || w.hasWaypointOf(p.Workloads) || p.Key.Namespace == w.cfg.RootNamespace && len(p.Classes) > 0:
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
