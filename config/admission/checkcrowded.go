package admission

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkCrowded warns of a VirtualService by which nothing goes to what a namespace registers below its patterns, since there are too many of these for its matches.
func (w *world) checkCrowded(r *report, v *networking.VirtualService) {
	patterns := slices.DeleteFunc(slices.Clone(v.Hosts), func(h string) bool { return !strings.HasPrefix(h, "*") || host.Partial(h) })
	if len(patterns) == 0 {
		return
	}
	routes := route.Parse(&r.of, v).Resolve(len(v.Hosts), w.delegated(r.of.Namespace))
	rows := routes.Rows()
	if rows*(len(w.hosts)+len(w.services)) <= route.MostRows {
		return
	}
	below := w.registeredBelow(patterns)
	for _, ns := range sortedKeys(below) {
		if below[ns]*rows > route.MostRows {
			r.warn("spec.hosts", patterns[0], registry.Crowded(rows, ns, route.MostRows)+", and nothing goes to them by it", registry.FewerMatches)
		}
	}
}

// checkCrowdedGateways warns of a VirtualService by which nothing goes at Gateways of a namespace, since it comes to too many matches at their ports. The registry says so, which is
// asked where it may be.
func (w *world) checkCrowdedGateways(r *report, v *networking.VirtualService) {
	names := 0
	for _, g := range route.Gateways(v.Gateways, r.of.Namespace) {
		servers, _ := w.serversOf(g)
		for _, s := range servers {
			names += len(v.Hosts) + len(s.Hosts)
		}
	}
	if names == 0 {
		return
	}
	routes := route.Parse(&r.of, v).Resolve(len(v.Hosts), w.delegated(r.of.Namespace))
	if routes.Rows()*names <= route.MostRows {
		return
	}
	for _, why := range w.applied().CrowdedAt(r.of.Key) {
		r.warn("spec.gateways", nil, why+", and nothing goes by it there", registry.FewerPorts)
	}
}

// registeredBelow counts the hosts below patterns by the namespaces that register them.
func (w *world) registeredBelow(patterns []string) map[string]int {
	out := map[string]int{}
	below := func(n host.Name) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { return host.Matches(lowered(p), n) })
	}
	for n, entries := range w.hosts {
		if !below(n) {
			continue
		}
		of := map[string]bool{}
		for _, e := range entries {
			of[e.object.Namespace] = true
		}
		for ns := range of {
			out[ns]++
		}
	}
	for n := range w.services {
		if ref, is := registry.RefOf(string(n)); is && below(n) {
			out[ref.Namespace]++
		}
	}
	return out
}

// CrowdedSubsets is what is said of an entry for one of whose hosts no subset of a DestinationRule counts, since there is too much below the rule's host.
func CrowdedSubsets(entry config.Object, by config.Key, host, why string) Finding {
	r := &report{of: entry}
	r.warn("spec.hosts", host, "no subset of "+by.String()+" counts: "+why+", and nothing that leads to one is sent", registry.FewerSubsetsBelow)
	return r.findings[0]
}

// TooCrowded is what is said of an entry to whose host nothing goes by a VirtualService, since there are too many like it.
func TooCrowded(entry config.Object, by config.Key, host, why string) Finding {
	r := &report{of: entry}
	r.warn("spec.hosts", host, "nothing goes there by "+by.String()+": "+why, registry.FewerMatches)
	return r.findings[0]
}
