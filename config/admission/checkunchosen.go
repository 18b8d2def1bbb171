package admission

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
)

// checkUnchosen warns of how a rule has endpoints chosen, or left out, where no proxy chooses one: the client did, or said a name that is looked up.
func (w *world) checkUnchosen(r *report, d *networking.DestinationRule) {
	n := w.fullName(d.Host, r.of.Namespace)
	why, fix := w.unchosen(n)
	if fix == "" {
		return
	}
	say := func(field string) {
		r.warn(field, nil, why, fix)
	}
	choice := func(field string, l *networking.LoadBalancerSettings, o *networking.OutlierDetection) {
		if l != nil && l.GetSimple() != networking.LoadBalancerSettings_PASSTHROUGH {
			say(at(field, "loadBalancer"))
		}
		if o != nil {
			say(at(field, "outlierDetection"))
		}
	}
	const policy = "spec.trafficPolicy"
	choice(policy, d.GetTrafficPolicy().GetLoadBalancer(), d.GetTrafficPolicy().GetOutlierDetection())
	for i, p := range d.GetTrafficPolicy().GetPortLevelSettings() {
		choice(at(policy, "portLevelSettings", i), p.LoadBalancer, p.OutlierDetection)
	}
	for i, s := range d.Subsets {
		choice(at("spec.subsets", i, "trafficPolicy"), s.GetTrafficPolicy().GetLoadBalancer(), s.GetTrafficPolicy().GetOutlierDetection())
		if len(s.Labels) > 0 && w.specs[n] != nil { // of an entry nothing is sent to one that has no endpoints
			say(at("spec.subsets", i, "labels"))
		}
	}
}

// unchosen says of a registered host why no proxy chooses among endpoints of it, and what to do; no fix where one may.
func (w *world) unchosen(n host.Name) (why, fix string) {
	if spec := w.specs[n]; spec != nil {
		name, rest, _ := strings.Cut(string(n), ".")
		if w.headless[strings.TrimSuffix(rest, "."+clusterDomain)][name] == nil || len(w.hosts[n]) > 0 {
			return "", ""
		}
		return "counts at ingress gateways alone: the Service is headless, and pods that connect to it choose one of its pods themselves", "remove it if no gateway leads there, or give the Service an address (clusterIP)"
	}
	if n.IsWildcard() && (host.Matches(n, "a.b."+clusterDomain) || len(w.names().below(n)) > 0) {
		return "", "" // it is for these, too
	}
	for _, e := range w.hosts[n] {
		if len(e.spec.Endpoints) > 0 || e.spec.WorkloadSelector != nil || e.spec.Resolution == networking.ServiceEntry_STATIC {
			return "", ""
		}
		switch direct := !e.external() || w.leavesDirectly(e); {
		case direct && e.spec.Resolution == networking.ServiceEntry_NONE:
			why = fmt.Sprintf("has no effect: %s has resolution NONE, so that connections go to the address that the client chose", e.object.Key)
		case n.IsWildcard():
			why = "has no effect: of a pattern's hosts the name that the client says is looked up"
		default:
			return "", ""
		}
		fix = "remove it"
	}
	return why, fix
}
