package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// boundPlace is a Gateway that a VirtualService is bound to, as far as matches are about it.
type boundPlace struct {
	ports   []uint32 // of the servers that let one of the hosts in, where a match asks for one; nil where the Gateway is not known, or lets none in
	proxies gatewayProxies
}

// boundPlaces are the places where a VirtualService counts, by their names; route.Mesh is one without anything.
func (w *world) boundPlaces(namespace string, v *networking.VirtualService, routes []portedRoute) map[string]boundPlace {
	out := map[string]boundPlace{}
	asked := slices.ContainsFunc(routes, func(x portedRoute) bool {
		return slices.ContainsFunc(x.places, func(m routePlace) bool { return m.port != 0 })
	})
	for _, name := range route.Gateways(v.Gateways, namespace) {
		p := boundPlace{proxies: w.openedBy(name)}
		if asked {
			p.ports = w.portsLetting(name, namespace, v.Hosts)
		}
		out[name] = p
	}
	return out
}

// portsLetting are those of a Gateway's servers that let VirtualServices of a namespace lead one of some hosts.
func (w *world) portsLetting(gateway, namespace string, hosts []string) (out []uint32) {
	servers, _ := w.serversOf(gateway)
	for i := range servers {
		s := &servers[i]
		if !slices.Contains(out, s.Port) && slices.ContainsFunc(hosts, func(h string) bool { return s.Lets(namespace, route.FullName(h, namespace)) }) {
			out = append(out, s.Port)
		}
	}
	return out
}

// judgeBoundPlaces warns of matches that count at none of the Gateways that a VirtualService is bound to. Those that count in the mesh are judged by what its hosts are registered with.
func (w *world) judgeBoundPlaces(r *report, bound map[string]boundPlace, v *networking.VirtualService, x *portedRoute) {
	if len(v.Hosts) == 0 { // a delegate counts where others do
		return
	}
	for j, m := range x.places {
		field, named := at(x.field, "match", j), v.Gateways
		if len(m.gateways) > 0 {
			named = m.gateways
		}
		var gateways []string
		for _, g := range route.Gateways(named, r.of.Namespace) {
			if _, is := bound[g]; is {
				gateways = append(gateways, g)
			}
		}
		if len(gateways) == 0 {
			r.warn(at(field, "gateways"), strings.Join(m.gateways, ", "), "none of them is one of spec.gateways, so nothing is meant by the match", "name one of spec.gateways, or add them there")
			continue
		}
		if slices.Contains(gateways, route.Mesh) {
			continue
		}
		places := make([]boundPlace, len(gateways))
		for i, g := range gateways {
			places[i] = bound[g]
		}
		boundMatch{r, field, places}.judge(m, v)
	}
}

// boundMatch is a match that counts at Gateways only.
type boundMatch struct {
	*report
	field  string
	places []boundPlace
}

func (b boundMatch) judge(m routePlace, v *networking.VirtualService) {
	const nothing = ", so nothing is meant by the match"
	if m.port != 0 && b.everywhere(func(p boundPlace) bool { return len(p.ports) > 0 && !slices.Contains(p.ports, m.port) }) {
		b.warn(at(b.field, "port"), m.port, "none of the Gateways' servers that let the hosts in has this port"+nothing, "write one of "+b.ports()+", or remove it")
	}
	if len(m.subnets) > 0 {
		b.warn(at(b.field, "destinationSubnets"), strings.Join(m.subnets, ", "), "where a client connected to is what its own proxy knows, and no gateway"+nothing, "remove it")
	}
	if text := m.authority.GetExact(); text != "" && !hasAuthority(v, b.of.Namespace, text) {
		b.warn(at(b.field, "authority.exact"), text, "none of spec.hosts is called so, and requests for others do not come to these routes"+nothing, "name the host in spec.hosts, or remove it")
	}
	if len(m.gateways) > 0 {
		return // then it is about workloads of the mesh, and gateways do not ask
	}
	if m.namespace != "" && b.everywhere(func(p boundPlace) bool {
		return p.proxies.known() && !slices.Contains(p.proxies.namespaces(), m.namespace)
	}) {
		b.warn(at(b.field, "sourceNamespace"), m.namespace, fmt.Sprintf("at Gateways it is about the gateway's own pods, which are in namespace %s", strings.Join(b.namespaces(), ", "))+nothing, "remove it; who the client is, an AuthorizationPolicy for the gateway asks")
	}
	if len(m.labels) > 0 && b.everywhere(func(p boundPlace) bool { return p.proxies.known() && p.proxies.lack(m.labels) }) {
		b.warn(at(b.field, "sourceLabels"), labelsText(m.labels), "at Gateways it is about the gateway's own pods, which have others"+nothing, "remove it; who the client is, an AuthorizationPolicy for the gateway asks")
	}
}

func (b boundMatch) everywhere(is func(boundPlace) bool) bool {
	return !slices.ContainsFunc(b.places, func(p boundPlace) bool { return !is(p) })
}

func (b boundMatch) ports() string {
	var all registration
	for _, p := range b.places {
		for _, number := range p.ports {
			all.add(number, registry.HTTP)
		}
	}
	slices.SortFunc(all.ports, func(a, b registeredPort) int { return int(a.number) - int(b.number) })
	return all.numbers()
}

func (b boundMatch) namespaces() (out []string) {
	for _, p := range b.places {
		out = append(out, p.proxies.namespaces()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// hasAuthority says whether requests to a Gateway that name an authority may be for one of a VirtualService's hosts.
func hasAuthority(v *networking.VirtualService, namespace, authority string) bool {
	name := strings.ToLower(authority)
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	return slices.ContainsFunc(v.Hosts, func(h string) bool {
		full := route.FullName(h, namespace)
		return h == "*" || full == name || strings.EqualFold(h, name) || host.Matches(host.Name(full), host.Name(name))
	})
}

func labelsText(labels map[string]string) string {
	var out []string
	for _, k := range sortedKeys(labels) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ", ")
}
