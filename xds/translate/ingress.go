package translate

import (
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/translate/ingress"
)

// asked begins, among a view's hosts, the names that an ingress gateway is asked for: they are no hosts of the registry, which it
// leads to.
const asked = "/"

// there says whether there is such a host, or name.
func there(s *registry.Snapshot, host string) bool {
	if name, of := strings.CutPrefix(host, asked); of {
		return s.HasName(name)
	}
	if a, of := strings.CutPrefix(host, podAt); of {
		_, is := s.PodAt(addressAt(a))
		return is
	}
	return len(s.Services(strings.TrimPrefix(host, ledTo))) > 0
}

// ingress is what a class of ingress gateways is.
func (c Class) ingress(s *registry.Snapshot) resolve.Ingress {
	return resolve.IngressOf(s, c.Ingress, c.secretsAt()).At(c.near(s))
}

// ingressInputsOf are those of a name that an ingress gateway is asked for, or of a host of the mesh that it leads to.
func ingressInputsOf(s *registry.Snapshot, c Class, host string) hostInputs {
	if name, of := strings.CutPrefix(host, asked); of {
		if n, there := c.ingress(s).Name(name); there {
			return &ingress.Name{IngressName: n, IPv6: c.IPv6 && n.HasUDP()}
		}
		return nil
	}
	t, led := c.ingress(s).Target(host)
	p, passed := c.ingress(s).Passed(host)
	switch {
	case led && passed:
		return &ingress.BackendAndPassthrough{Target: ingress.Backend{IngressTarget: t, Trust: envoy.TrustsOf(s.Mesh)}, Passed: ingress.SNIPassthrough{IngressPassthrough: p}}
	case led:
		return &ingress.Backend{IngressTarget: t, Trust: envoy.TrustsOf(s.Mesh)}
	case passed:
		return &ingress.SNIPassthrough{IngressPassthrough: p}
	}
	return nil
}

// ingressInputs is what an ingress gateway's base is made from.
func ingressInputs(s *registry.Snapshot, c Class, u uses, hosts envoy.InlineHosts, shown *certificates) ingress.Inputs {
	in := ingress.Inputs{
		Servers: c.ingress(s).Chains(), Mesh: s.IngressSettings(c.Ingress), IPv6: c.IPv6, Hosts: hosts, Connect: s.Mesh.ConnectTimeout,
		DNSDefaults: agentDefaults(s),
	}
	u = u.clone()
	for _, server := range in.Servers {
		for _, g := range server.Given {
			u.secrets[g]++
		}
		if server.Roots != nil {
			u.secrets[*server.Roots]++
		}
	}
	maps.DeleteFunc(u.secrets, func(g registry.ServedCredential, _ int) bool { return g.Pair && !g.Roots && shown.used[g.Ref] }) // which are there already
	in.Secrets = materials(s, u)
	return in
}

// loggedElsewhereBy are the names, and hosts, of a class that a change is about.
func loggedElsewhereBy(changed registry.Changed, c Class) [][]string {
	if c.frontsPods() && len(changed.Pods) > 0 {
		return [][]string{changed.Hosts, changed.Endpoints, podsAt(changed.Pods)}
	}
	if c.Kind != Ingress {
		return [][]string{changed.Hosts, changed.Endpoints}
	}
	names := make([]string, len(changed.Names))
	for i, n := range changed.Names {
		names[i] = asked + n
	}
	return [][]string{changed.Hosts, changed.Endpoints, names}
}

// turnsIngress says whether a change is about all that an ingress gateway leads to: which Services are its own, or what it passes on.
func turnsIngress(changed registry.Changed, c Class) bool {
	return c.Kind == Ingress && (changed.Passing || slices.ContainsFunc(c.Ingress.Services(), func(own registry.Ref) bool {
		return slices.Contains(changed.Hosts, own.Host())
	}))
}

// setRefused notes what an ingress gateway does not connect to, and says whether that is otherwise: it is about all that it leads to. Other
// endpoints of a Service that selects its pods, too, are not.
func (e *edit) setRefused(s *registry.Snapshot) bool {
	if e.next.Class.Kind != Ingress {
		return false
	}
	was := e.next.refused
	e.next.refused = e.next.Class.ingress(s).Refused()
	return !slices.Equal(was, e.next.refused)
}
