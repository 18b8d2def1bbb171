package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkRouteHosts warns of hosts that nobody registers, so that nobody is led by the routes. Names by which others come in at a gateway need no registration.
func (w *world) checkRouteHosts(r *report, v *networking.VirtualService) {
	if !slices.Contains(route.Gateways(v.Gateways, r.of.Namespace), route.Mesh) {
		return
	}
	for i, h := range v.Hosts {
		if isAddress(h) {
			r.warn(at("spec.hosts", i), h, "hosts are led by the names that they are registered with, and this is an address, so nobody is led by the routes", "register a host with the address (spec.addresses of a ServiceEntry), and name that host")
		}
		n := w.fullName(h, r.of.Namespace)
		switch {
		case h == "*" || isAddress(h) || serviceSNI(h) || host.Partial(h):
		case !w.registered(n) && !strings.HasSuffix(string(n), "."+clusterDomain) && w.comesIn(r.of.Namespace, v, h):
			r.note(at("spec.hosts", i), h, "no ServiceEntry and no Service has this host, so the routes are for what comes in at the Gateways alone, and no workload of the mesh is led by them",
				"register the host with a ServiceEntry, if workloads are to be led, or remove mesh from spec.gateways")
		default:
			w.checkRegistered(r, at("spec.hosts", i), h, "nobody is led by the routes")
		}
	}
}

// comesIn says whether a Gateway of a VirtualService lets one of its hosts in, from outside.
func (w *world) comesIn(ns string, v *networking.VirtualService, h string) bool {
	return slices.ContainsFunc(route.Gateways(v.Gateways, ns), func(name string) bool {
		servers, _ := w.serversOf(name)
		if !slices.ContainsFunc(servers, func(s registry.GatewayServer) bool { return s.Lets(ns, route.FullName(h, ns)) }) {
			return false
		}
		p := w.openedBy(name)
		return !p.leaving || len(p.ingresses) > 0
	})
}

// checkDestinations warns of destinations that nobody registers: nothing is sent there.
func (w *world) checkDestinations(r *report, v *networking.VirtualService) {
	inMesh := slices.Contains(route.Gateways(v.Gateways, r.of.Namespace), route.Mesh)
	check := func(field string, d *networking.Destination) {
		if pattern := w.onlyPattern(d.GetHost(), r.of.Namespace); inMesh && pattern != "" {
			r.warn(at(field, "host"), d.Host, fmt.Sprintf("only the pattern %s covers it, and destinations are what is registered itself, so nothing is sent there", pattern),
				"register the name with a ServiceEntry")
		} else if d.GetHost() != "" {
			w.checkRegistered(r, at(field, "host"), d.Host, "what is led there gets 503")
		}
	}
	for i, h := range v.Http {
		for j, d := range h.Route {
			check(at("spec.http", i, "route", j, "destination"), d.Destination)
		}
		check(at("spec.http", i, "mirror"), h.Mirror)
		for j, m := range h.Mirrors {
			check(at("spec.http", i, "mirrors", j, "destination"), m.Destination)
		}
	}
	eachTCPDestination(v, check)
}

// onlyPattern gives the pattern that covers a name that is not registered itself; "" where there is none, or the name is.
func (w *world) onlyPattern(name, namespace string) host.Name {
	n := w.fullName(name, namespace)
	if name == "" || n.IsWildcard() || w.hosts[n] != nil || w.services[n] || strings.HasSuffix(string(n), "."+clusterDomain) {
		return ""
	}
	if i := slices.IndexFunc(w.wildcards, func(p host.Name) bool { return host.Matches(p, n) }); i >= 0 {
		return w.wildcards[i]
	}
	return ""
}

// eachTCPDestination goes through the destinations of routes of connections.
func eachTCPDestination(v *networking.VirtualService, check func(field string, d *networking.Destination)) {
	for i, t := range v.Tls {
		for j, d := range t.Route {
			check(at("spec.tls", i, "route", j, "destination"), d.Destination)
		}
	}
	for i, t := range v.Tcp {
		for j, d := range t.Route {
			check(at("spec.tcp", i, "route", j, "destination"), d.Destination)
		}
	}
}

// checkRegistered warns of a host that no entry and no Service has. Of Services it says so only where the input has any.
func (w *world) checkRegistered(r *report, field, name, so string) {
	n := w.fullName(name, r.of.Namespace)
	if of := w.anotherName(n); of != "" {
		r.warn(field, name, alias(of)+"so "+so, "write "+string(of))
		return
	}
	if inCluster := strings.HasSuffix(string(n), "."+clusterDomain); w.registered(n) || (inCluster && len(w.services) == 0) {
		return
	}
	fix := "register the host with a ServiceEntry, or mend the name"
	if meant := w.closestHost(n); meant != "" {
		fix = fmt.Sprintf("did you mean %q?", meant)
	}
	r.warn(field, name, "no ServiceEntry and no Service has this host, so "+so, fix)
}

// secondRoutes warns of VirtualServices that lead nobody to a host, since an older one of the namespace does.
func (w *world) secondRoutes() []Finding {
	type led struct {
		ns   string
		host host.Name
	}
	by := map[led][]*config.Object{}
	for i := range w.objects {
		o := &w.objects[i]
		v, ok := o.Spec.(*networking.VirtualService)
		if !ok || !slices.Contains(route.Gateways(v.Gateways, o.Namespace), route.Mesh) {
			continue
		}
		for _, h := range v.Hosts {
			key := led{o.Namespace, w.fullName(h, o.Namespace)}
			if list := by[key]; len(list) == 0 || list[len(list)-1] != o { // which may name it twice, short and in full
				by[key] = append(list, o)
			}
		}
	}
	var findings []Finding
	for key, list := range by {
		slices.SortStableFunc(list, func(a, b *config.Object) int {
			if c := a.Created.Compare(b.Created); c != 0 {
				return c
			}
			return a.Key.Compare(b.Key)
		})
		for _, o := range list[1:] {
			r := &report{of: *o}
			r.warn("spec.hosts", string(key.host), fmt.Sprintf("%s is older and leads workloads to this host, so this one leads nobody there", list[0].Key), "write all routes of a host into one VirtualService, or delegate")
			findings = append(findings, r.findings...)
		}
	}
	return findings
}
