package admission

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkDeadEnds warns of destinations that are registered, and to which proxies send nothing of what the routes lead there: they cannot, or must not. It asks the model that proxies are
// programmed from, at each place where the object counts. Of what was said of a destination already nothing is repeated, so it comes last.
func (w *world) checkDeadEnds(r *report, v *networking.VirtualService) {
	if len(v.Hosts) == 0 {
		return
	}
	var places []deadEndPlace
	for _, g := range route.Gateways(v.Gateways, r.of.Namespace) {
		if p := w.deadEndsAt(r.of.Key, v, g); !p.ways.Whole() {
			return
		} else if len(p.ways.Why) > 0 {
			places = append(places, p)
		}
	}
	several := len(places) > 1
	said := saidOfDestinations(r.findings)
	for n := range namedDestinations(v, r.of.Namespace) {
		if said[n.field] || !w.surelyRegistered(n.To) {
			continue
		}
		for i, p := range places {
			c := p.ways.Why[n.NamedDestination]
			if c == nil || slices.ContainsFunc(places[:i], func(before deadEndPlace) bool { return before.says(n.NamedDestination, c) }) {
				continue
			}
			so := n.so
			if several {
				so += w.wherever(places[i:], n.NamedDestination, c)
			}
			_, why, _ := strings.Cut(c.Why, ": ")
			if strings.HasSuffix(why, resolve.Unregistered) {
				why = n.To.Host + " is registered, and not for workloads of namespace " + r.of.Namespace
			}
			r.warn(at(n.field, "host"), n.written, why+", so "+so, c.Fix)
		}
	}
}

// deadEndPlace is a place where a VirtualService counts, and what becomes of its destinations there.
type deadEndPlace struct {
	name string
	ways *resolve.DestinationWays
}

func (p deadEndPlace) says(n resolve.NamedDestination, c *registry.ClosedPort) bool {
	own := p.ways.Why[n]
	return own != nil && own.Why == c.Why && own.Fix == c.Fix
}

// wherever lists the places where the same is said of a destination.
func (w *world) wherever(places []deadEndPlace, n resolve.NamedDestination, c *registry.ClosedPort) string {
	var names []string
	for _, p := range places {
		if p.says(n, c) {
			names = append(names, p.name)
		}
	}
	return " " + strings.Join(names, " and ")
}

// deadEndsAt asks at one place: route.Mesh, where a proxy of the object's namespace is asked that nothing selects, or a Gateway.
func (w *world) deadEndsAt(key config.Key, v *networking.VirtualService, gateway string) deadEndPlace {
	s, ways := w.led(), resolve.WaysOf(key)
	if gateway == route.Mesh {
		proxy := resolve.SidecarIn(s, key.Namespace, config.Key{}, "", registry.SecretsUnseen)
		for _, h := range v.Hosts {
			proxy.Ask(ways, route.FullName(h, key.Namespace))
		}
		return deadEndPlace{"in the mesh", ways}
	}
	for _, exit := range w.openedBy(gateway).exits {
		for _, h := range v.Hosts {
			exit.Ask(ways, route.FullName(h, key.Namespace))
		}
	}
	for _, ingress := range w.openedBy(gateway).ingresses {
		for _, h := range v.Hosts {
			ingress.Ask(ways, w.gateways[gateway].Key, key.Namespace, route.FullName(h, key.Namespace))
		}
	}
	return deadEndPlace{"at Gateway " + gateway, ways}
}

// saidOfDestinations are the fields of destinations of which something is said.
func saidOfDestinations(findings []Finding) map[string]bool {
	out := map[string]bool{}
	for _, f := range findings {
		for _, field := range []string{f.Field, cutLast(f.Field), cutLast(cutLast(f.Field))} { // "….destination.port.number"
			out[field] = true
		}
	}
	return out
}

func cutLast(field string) string {
	if i := strings.LastIndexByte(field, '.'); i >= 0 {
		return field[:i]
	}
	return ""
}

// writtenDestination is one where a VirtualService writes it.
type writtenDestination struct {
	resolve.NamedDestination
	field, written string
	so             string // what becomes of what is led there, where nothing is sent
}

// namedDestinations goes through the destinations of a VirtualService, in order.
func namedDestinations(v *networking.VirtualService, ns string) func(yield func(writtenDestination) bool) {
	return func(yield func(writtenDestination) bool) {
		for _, x := range portedRoutes(v) {
			for _, d := range x.destinations {
				if d.to == nil {
					continue
				}
				n := resolve.NamedDestination{
					Field: strings.TrimPrefix(x.field, "spec."), Mirror: d.so == noCopy,
					To: route.Destination{Host: route.FullName(d.to.Host, ns), Subset: d.to.Subset, Port: d.to.GetPort().GetNumber()},
				}
				if !yield(writtenDestination{n, d.field, d.to.Host, d.so}) {
					return
				}
			}
		}
	}
}

// surelyRegistered says whether somebody registers a destination itself, and no rule is for some of its clients only: those may have a way there.
func (w *world) surelyRegistered(d route.Destination) bool {
	n := host.Name(d.Host)
	if w.hosts[n] == nil && !w.services[n] {
		return false
	}
	for rule := range w.rulesFor(n) {
		if rule.WorkloadSelector != nil {
			return false
		}
	}
	return true
}
