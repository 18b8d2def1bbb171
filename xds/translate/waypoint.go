package translate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/outbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/translate/waypoint"
)

// ledTo begins, among a waypoint's hosts, those that only routes lead to: which they are follows from the others.
const ledTo = "->"

// IsWaypoint says whether the node id is a waypoint's.
func (n Node) IsWaypoint() bool { return strings.HasPrefix(n.ID, "waypoint~") }

func (c Class) waypoint(s *registry.Snapshot) resolve.WaypointProxy {
	return resolve.WaypointOf(s, c.Gateway).At(c.near(s))
}

// waypointInputsOf are those of a Service that a waypoint stands before, or leads to.
func waypointInputsOf(s *registry.Snapshot, c Class, host string) hostInputs {
	w, trust := c.waypoint(s), envoy.TrustsOf(s.Mesh)
	if led, is := strings.CutPrefix(host, ledTo); is {
		if h, there := w.Behind(led); there {
			return &waypoint.Host{Host: outbound.Host{SidecarHost: h, Trust: trust}, Refused: w.Refused()}
		}
		return nil
	}
	var all waypoint.Fronted
	for _, h := range w.Before(host) {
		policies := s.AuthorizingFront(c.Gateway, h.Service)
		all = append(all, &waypoint.Host{
			Host: outbound.Host{SidecarHost: h.SidecarHost, Trust: trust}, Before: true, Named: h.Named, Leads: w.Leads(h.SidecarHost), Refused: w.Refused(), Policies: policies, Asked: askedAtFront(s, c, policies),
		})
	}
	if len(all) == 0 {
		return nil
	}
	return all
}

// setLed sets the shares of the hosts that routes of a waypoint's Services lead to.
func (e *edit) setLed(s *registry.Snapshot, t *Translator) {
	if e.next.Class.Kind != Waypoint {
		return
	}
	var gone []string
	e.hosts.Walk(func(host string, _ *part.Part) bool {
		if led, is := strings.CutPrefix(host, ledTo); is && !e.leads(led) {
			gone = append(gone, host)
		}
		return true
	})
	for _, host := range gone {
		e.setHost(host, nil)
	}
	for host := range e.uses.leads {
		if e.leads(host) {
			e.setHost(ledTo+host, t.host(s, e.next.Class, ledTo+host))
		}
	}
}

// setFronts looks again at what a waypoint stands before: which policies count there changes nothing for other hosts.
func (e *edit) setFronts(s *registry.Snapshot, t *Translator) {
	var hosts []string
	e.hosts.Walk(func(host string, _ *part.Part) bool {
		if !strings.HasPrefix(host, ledTo) {
			hosts = append(hosts, host)
		}
		return true
	})
	for _, host := range hosts {
		e.setHost(host, t.host(s, e.next.Class, host))
	}
}

// leads says whether routes lead to a host, which the waypoint does not stand before: of those it has the clusters anyway.
func (e *edit) leads(host string) bool {
	_, before := e.hosts.Get(host)
	return e.uses.leads[host] > 0 && !before
}

// waypointBase is what it is, and who may be asked.
type waypointBase struct {
	waypoint.Inputs
	Asked []askedFrom
}

// Resources are all of it.
func (in waypointBase) Resources() []*resource.Resource {
	out := in.Inputs.Resources()
	for _, a := range in.Asked {
		out = append(out, a.resources()...)
	}
	return out
}

// setAuthorizers finds all of the mesh's that can be asked. Two at one port that are asked in different ways have a cluster each.
func (in *waypointBase) setAuthorizers(s *registry.Snapshot, c Class) {
	ways := map[string]bool{} // by cluster: whether it is asked by gRPC
	for _, a := range s.Mesh.Authorizers {
		asked := askedBy(s, c, a.Name)
		if asked.By == nil {
			continue
		}
		byGRPC, there := ways[asked.As]
		if there && byGRPC != a.GRPC {
			asked.As += "|" + a.Name
			there = false
		}
		if ways[asked.As] = a.GRPC; !there {
			in.Asked = append(in.Asked, asked)
		}
		in.Authorizers = append(in.Authorizers, envoy.Authorizer{Authorizer: asked.By.Authorizer, Cluster: asked.As})
	}
}

// waypointInputs is what a waypoint's base is made from.
func waypointInputs(s *registry.Snapshot, c Class, u uses, hosts envoy.InlineHosts) waypointBase {
	in := waypointBase{Inputs: waypoint.Inputs{
		Trust: envoy.TrustsOf(s.Mesh), IPv6: c.IPv6, Log: c.records(s), Hosts: hosts,
		DNSDefaults: agentDefaults(s), Gateways: gatewaysUsed(s, c, u), Connect: s.Mesh.ConnectTimeout, Ends: c.Ends, Tunnels: c.Tunnels,
	}}
	in.setAuthorizers(s, c)
	in.Pods.Namespaces = []string{c.Gateway.Namespace}
	for of := range u.pods {
		in.Pods.Namespaces = append(in.Pods.Namespaces, of.Namespace)
	}
	slices.Sort(in.Pods.Namespaces)
	in.Pods.Namespaces = slices.Compact(in.Pods.Namespaces)
	in.Pods.Set = s.AuthorizingPods(c.Gateway)
	in.Pods.Asked = askedAtFront(s, c, in.Pods.Set)
	for _, f := range slices.SortedFunc(maps.Keys(u.fronts), func(a, b part.Front) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.In, b.In), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Policies, b.Policies))
	}) {
		front := waypoint.Front{Front: f}
		if f.Policies != "" && !f.HTTP { // those of requests are in their tables
			front.Set = authorizedBy(s, PolicyClass{Authz: f.Policies})
			front.Asked = askedAtFront(s, c, front.Set)
		}
		in.Fronts = append(in.Fronts, front)
	}
	return in
}

// askedAtFront is whom policies before a Service have asked.
func askedAtFront(s *registry.Snapshot, c Class, set authz.Set) (out waypoint.Asked) {
	by, why := resolve.AuthorizerOf(s, set, c.near(s), c.secretsAt())
	if by != nil {
		out.By = by.Authorizer
	}
	out.Why = why
	return out
}

// Keep has who goes to hosts by their waypoints, nodes and ingress gateways, have one as an earlier snapshot says it, until it is let go. It changes no view by itself.
func (t *Translator) Keep(host string, as *registry.Snapshot) { t.kept[host] = as }

// LetGo ends that.
func (t *Translator) LetGo(host string) { delete(t.kept, host) }

// asOf is the snapshot by which proxies of a class have a host.
func (t *Translator) asOf(s *registry.Snapshot, c Class, host string) *registry.Snapshot {
	if earlier := t.kept[host]; earlier != nil && c.GoesByWaypoints() {
		return earlier
	}
	return s
}

// GoesByWaypoints says whether proxies of the class send what is for a host to its waypoint.
func (c Class) GoesByWaypoints() bool { return c.Kind == Ambient || c.Kind == Ingress }

// waypointTurned says whether a change is about all that a waypoint, or one who sends to it, does.
func waypointTurned(changed registry.Changed, c Class) bool {
	switch {
	case c.Kind == Waypoint:
		return changed.Waypoints || changed.ReservedAddresses
	default:
		return changed.Waypoints && c.GoesByWaypoints()
	}
}
