package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkCrowdedRule warns of a DestinationRule for a pattern of which the subsets, or the names of certificates, are too many for what a namespace registers below it. The
// registry says so, which is asked where it may be.
func (w *world) checkCrowdedRule(r *report, d *networking.DestinationRule) {
	n := w.fullName(d.Host, r.of.Namespace)
	if !n.IsWildcard() || host.Partial(d.Host) {
		return
	}
	times := w.multiplied(n)
	if times == 0 || times*w.portsInAll() <= route.MostRows || times*w.portsBelow(n) <= route.MostRows {
		return
	}
	r.findings = append(r.findings, CrowdedRule(r.of, w.applied())...)
}

// CrowdedRule is what is said of a DestinationRule of which not all counts for what namespaces register below its host.
func CrowdedRule(rule config.Object, s *registry.Snapshot) []Finding {
	r := &report{of: rule}
	found := slices.SortedFunc(s.CrowdedRule(rule.Key), registry.CrowdedPart.Compare)
	for _, c := range slices.Compact(found) {
		if c.Names {
			r.warn("spec.trafficPolicy.tls", nil, c.Why+", and nothing is sent there", registry.FewerNames)
		} else {
			r.warn("spec.subsets", len(rule.Spec.(*networking.DestinationRule).Subsets), c.Why+", and nothing that leads to one is sent", registry.FewerSubsetsBelow)
		}
	}
	return r.findings
}

// multiplied is how much of the rules for a host is told for each port of what is below it, at most.
func (w *world) multiplied(n host.Name) int {
	subsets, names := 1, 1
	more := func(t *networking.ClientTLSSettings) { names = max(names, len(t.GetSubjectAltNames())) }
	for _, o := range w.rules[n] {
		d := o.Spec.(*networking.DestinationRule)
		subsets += len(d.Subsets)
		more(d.GetTrafficPolicy().GetTls())
		for _, s := range d.GetTrafficPolicy().GetPortLevelSettings() {
			more(s.GetTls())
		}
	}
	if subsets == 1 && names == 1 {
		return 0 // what is told once for each host costs what the host does
	}
	return subsets * names
}

// portsInAll are no less than the ports of the hosts below any pattern, so that these are counted where there are many only.
func (w *world) portsInAll() int {
	if w.ports == 0 {
		for _, e := range w.entries {
			w.ports += len(e.names) * w.portsOfEach(e)
		}
		for _, svc := range w.specs {
			w.ports += len(svc.Spec.Ports)
		}
	}
	return w.ports
}

// portsOfEach are the ports of each host of an entry, and what counts as one.
func (w *world) portsOfEach(e *entry) int {
	endpoints := len(e.spec.Endpoints)
	if e.spec.WorkloadSelector != nil {
		endpoints += len(w.workloads[e.object.Namespace])
	}
	return len(e.spec.Ports) * (1 + endpoints/registry.EndpointsAsPort)
}

// portsBelow are the ports of the hosts below a pattern, and what counts as one, of the namespace that registers most, at most.
func (w *world) portsBelow(n host.Name) int {
	of := map[string]int{}
	for _, e := range w.entries {
		for _, name := range e.names {
			if name == n || host.Matches(n, name) {
				of[e.object.Namespace] += w.portsOfEach(e)
			}
		}
	}
	for name, svc := range w.specs {
		if ref, is := registry.RefOf(string(name)); is && host.Matches(n, name) {
			of[ref.Namespace] += len(svc.Spec.Ports)
		}
	}
	most := 0
	for _, ports := range of {
		most = max(most, ports)
	}
	return most
}

// applied is what the registry makes of the objects that Validate does not refuse.
func (w *world) applied() *registry.Snapshot {
	if w.snapshot == nil {
		var changes []config.Change
		for i := range w.objects {
			if o := &w.objects[i]; !Refused(Validate(*o)) {
				changes = append(changes, config.Change{Key: o.Key, Object: o})
			}
		}
		w.snapshot, _ = registry.New(&w.cfg).Apply(changes)
	}
	return w.snapshot
}
