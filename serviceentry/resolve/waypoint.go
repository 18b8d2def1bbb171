package resolve

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// WaypointHop is the waypoint before a Service, or a host outside, as the proxies of its clients reach it.
type WaypointHop struct {
	Gateway   registry.Ref
	Endpoints []registry.Endpoint
	Accounts  []string // of its pods, whom they have to be
}

// Fronted is the host as it is reached through its waypoint, where it has one: nothing of what routes and rules say of the host counts before that.
// One that is missing, or has no pod, closes the host.
func (a Sidecar) Fronted(h SidecarHost) SidecarHost {
	front, why := a.front(h.Service)
	if front == nil {
		h.Led = a.pastFronts(h.Led)
		h.FrontedPods = a.frontedPodsOf(h.Service)
		return h
	}
	h.Led, h.Rule, h.Restrictions, h.Waypoint = nil, nil, registry.UpstreamRestrictions{}, front
	if why != nil {
		h.Restrictions.Closed = closed(h.Service, *why)
	}
	return h
}

// front is the waypoint of a service, nil without one, and why nothing goes there, where nothing does.
func (a Sidecar) front(svc *registry.Service) (*WaypointHop, *registry.ClosedPort) {
	use, has := a.snap.Waypoint(svc)
	if !has {
		return nil, nil
	}
	return frontBy(a.snap, a.near, svc, use)
}

// frontBy is a service's waypoint as it is reached from somewhere, and why nothing goes there, where nothing does.
func frontBy(s *registry.Snapshot, near registry.ClientLocation, svc *registry.Service, use registry.WaypointUse) (*WaypointHop, *registry.ClosedPort) {
	front := waypointHop(s, near, use)
	why, fix := use.Missing, "see the status of the Gateway, or remove the label from the "+string(svc.Source.Kind)+" or its namespace"
	if meant, other := unseen(s, svc, use.Gateway); why == "" && meant != "" {
		why, fix = meant, other
	}
	if most, long := longFront(svc); why == "" && long {
		why, fix = fmt.Sprintf("hosts: the name has %d bytes, and the waypoint can be told of %d at most for namespace %s", len(svc.Host), most, svc.Namespace), "remove the label, or use a shorter name that the server has"
	}
	if why == "" && len(front.Endpoints) == 0 {
		why = "the waypoint has no pod that is ready"
	}
	if why == "" {
		return front, nil
	}
	return front, &registry.ClosedPort{By: svc.Source, Revision: svc.Revision, Why: "label istio.io/use-waypoint: " + use.Gateway.String() + ": " + why, Fix: fix}
}

// waypointHop is a waypoint as it is reached, with whom its pods have to be.
func waypointHop(s *registry.Snapshot, near registry.ClientLocation, use registry.WaypointUse) *WaypointHop {
	f := &WaypointHop{Gateway: use.Gateway}
	if pods := s.GatewayService(use.Gateway); pods != nil && use.Missing == "" {
		f.Endpoints = near.Here(s.EndpointsOf(pods))
	}
	for _, e := range f.Endpoints {
		if e.ServiceAccount != "" && !slices.Contains(f.Accounts, e.ServiceAccount) {
			f.Accounts = append(f.Accounts, e.ServiceAccount)
		}
	}
	if slices.Sort(f.Accounts); len(f.Accounts) == 0 {
		f.Accounts = []string{f.Gateway.Name} // as the controller names it
	}
	return f
}

// longFront says that a host does not fit into the TLS name by which a waypoint is told of it, and how long it may be.
func longFront(svc *registry.Service) (most int, long bool) {
	for _, p := range svc.Ports {
		if most, long = registry.TunnelNameTooLong(svc.Host, p.Number, FrontedIn(svc), false); long {
			return most, true
		}
	}
	return most, false
}

// unseen says why a waypoint would take what is for a host as for another registration of it, whose routes and policies count there, and what to do;
// "" where it means the same one. It follows from the host's own registrations: who changes those changes the host.
func unseen(s *registry.Snapshot, svc *registry.Service, gateway registry.Ref) (why, fix string) {
	if svc.External {
		if slices.ContainsFunc(s.FrontedAt(gateway, svc.Host), func(o *registry.Service) bool { return o.Covers(svc) }) {
			return "", ""
		}
		return "the waypoint stands before another registration of the host in namespace " + svc.Namespace + ", which is exported to all, or before none", "register the host once there"
	}
	there := WaypointOf(s, gateway).Visible(svc.Host)
	if there != nil && there.Covers(svc) {
		return "", ""
	}
	by := "none"
	if there != nil {
		by = there.Source.String()
	}
	return "the waypoint does not see this registration of the host, but what counts in namespace " + gateway.Namespace + ": " + by,
		"use a waypoint of namespace " + svc.Namespace + ", or register the host once"
}

// FrontSNI is the TLS name by which a waypoint is told what a connection is for: a port of a Service, or of a host outside as a namespace registered it. The
// namespace is said whether or not others registered the host: what they do changes nothing.
func FrontSNI(svc *registry.Service, port uint32) string {
	return SNI(port, FrontedIn(svc), svc.Host)
}

// FrontedIn is the namespace whose registration of a host outside it is; "" of a Service, of which there is one.
func FrontedIn(svc *registry.Service) string {
	if svc.External {
		return svc.Namespace
	}
	return ""
}

// pastFronts are routes of a host as far as they do not lead around the waypoints of their destinations.
func (a Sidecar) pastFronts(led *SidecarRoutes) *SidecarRoutes {
	if led == nil {
		return nil
	}
	out := led
	for name, r := range led.Ends {
		if r.Service == nil {
			continue
		}
		front, why := a.front(r.Service)
		if front == nil {
			continue
		}
		if r.Fronted = true; why != nil {
			r.Restrictions = registry.UpstreamRestrictions{Closed: closed(r.Service, *why)}
		}
		if out == led {
			out = &SidecarRoutes{By: led.By, Namespace: led.Namespace, Selected: led.Selected, Ends: maps.Clone(led.Ends)}
		}
		out.Ends[name] = r
	}
	return out
}

// close closes all ports of a host.
func (h *SidecarHost) close(by config.Key, revision, why, fix string) {
	h.Restrictions.Closed = closed(h.Service, registry.ClosedPort{By: by, Revision: revision, Why: why, Fix: fix})
}

// closed are all ports of a service, closed alike.
func closed(svc *registry.Service, why registry.ClosedPort) map[uint32]registry.ClosedPort {
	out := map[uint32]registry.ClosedPort{}
	for _, p := range svc.Ports {
		out[p.Number] = why
	}
	return out
}

// WaypointProxy is the proxy that a waypoint's pods are. It sees the mesh as a workload of its namespace does.
type WaypointProxy struct {
	Sidecar
	gateway registry.Ref
}

// WaypointOf is that of a Gateway.
func WaypointOf(s *registry.Snapshot, gateway registry.Ref) WaypointProxy {
	w := WaypointProxy{SidecarIn(s, gateway.Namespace, config.Key{}, "", registry.NoSecrets), gateway}
	w.stands = true
	return w
}

// At is the waypoint where that is.
func (w WaypointProxy) At(near registry.ClientLocation) WaypointProxy {
	w.Sidecar = w.Sidecar.At(near)
	return w
}

// WaypointHost is a Service, or a host outside as one namespace registered it, that a waypoint stands before.
type WaypointHost struct {
	SidecarHost
	// Named says that it is what is meant where no more is said than the host's name, or an address, as by HBONE.
	Named bool
}

// Before gathers what counts for a Service, or for the registrations of a host outside, that the waypoint stands before; nothing for all else.
func (w WaypointProxy) Before(host string) (out []WaypointHost) {
	visible := w.Visible(host)
	list := w.snap.FrontedAt(w.gateway, host)
	if visible != nil && visible.Source.Kind == config.KindService {
		list = []*registry.Service{visible}
	}
	for _, svc := range list {
		named := visible != nil && visible.Source == svc.Source
		if named {
			svc = visible
		}
		if use, has := w.snap.Waypoint(svc); has && use.Gateway == w.gateway && use.Missing == "" {
			out = append(out, WaypointHost{w.before(svc), named})
		}
	}
	return out
}

// As finds, among the registrations of a host that the waypoint stands before, the one that is another's, or counts as one with it.
func (w WaypointProxy) As(svc *registry.Service) (SidecarHost, bool) {
	for _, h := range w.Before(svc.Host) {
		if h.Service.Covers(svc) {
			return h.SidecarHost, true
		}
	}
	return SidecarHost{}, false
}

func (w WaypointProxy) before(svc *registry.Service) SidecarHost {
	h := w.reachedByMutual(svc)
	h.RegisteredBySeveral, h.Asked = w.Means(svc) != "", svc.External
	h.LostAddresses = w.snap.LostAddresses(svc, w.Namespace, w.scope) // an address is one host's, a Service's before an entry's
	if v := w.snap.RoutesBySource(svc, w.Namespace); v != nil {
		h.Led = nil
		h.close(v.Key, v.Revision, "sourceNamespace and sourceLabels are not told at a waypoint, which all clients of the Service come by", "remove them, and write an AuthorizationPolicy for the Service where they are to keep others out")
	}
	if h.Led != nil {
		led := *h.Led
		led.Ends = maps.Clone(led.Ends)
		for name, end := range led.Ends {
			led.Ends[name] = w.end(led.By, svc, end)
		}
		h.Led = &led
	}
	return h
}

// asAsked closes the destinations of a route for what is asked for at a port where the egress gateway would be asked for something else: policies
// were asked about the client for this alone, and there they are asked about the waypoint.
func (r *Route) asAsked(svc *registry.Service, port registry.Port) {
	if r.HTTP == nil {
		return
	}
	shut := func(list []WeightedDestination) {
		for i := range list {
			t := &list[i]
			why, fix := "", "remove the rewrite, or send it from the app"
			switch rw := r.HTTP.Rewrite; {
			case t.Closed != nil:
			case rw != nil && (rw.URI != "" || rw.Regex != nil):
				why = "a rewrite of the path"
			case rw != nil && rw.Authority != "" && rw.Authority != svc.Host:
				why = "a rewrite of the authority to " + rw.Authority
			case t.Service != nil && t.Port.Number != port.Number:
				why, fix = fmt.Sprintf("port %d of %s", t.Port.Number, t.Service.Host), fmt.Sprintf("name port %d", port.Number)
			}
			if why != "" {
				t.Closed = &registry.ClosedPort{By: r.By, Revision: r.Revision, Why: r.Field + ": " + why + " leads to what EgressPolicies were not asked about for the client at the waypoint", Fix: fix}
			}
		}
	}
	shut(r.To)
	shut(r.Mirrors)
	if r.Action == Forward {
		r.closeIfAll()
	}
}

// end is where a route of a Service leads, as far as waypoints lead there: to Services of the mesh that are no gateways, and whom it is the route's to reach. A
// host outside leads to itself, too, by its gateway or another one.
func (w WaypointProxy) end(v *registry.VirtualService, of *registry.Service, r ReachedDestination) ReachedDestination {
	if r.Service == nil {
		return r
	}
	why, fix := w.unled(v, of, r.Service)
	if why == "" {
		return r
	}
	r.Picked = false
	r.Restrictions.Closed = closed(r.Service, registry.ClosedPort{By: v.Key, Revision: v.Revision, Why: why, Fix: fix})
	r.Wrapped = r.Restrictions
	return r
}

// unled says why routes that a VirtualService has for a Service do not lead to another, or itself, by the waypoint, and what to do. What goes there has
// the waypoint's identity, which many namespaces may share, and passes no other waypoint: so nobody is led where the route's author could not go as
// well, nor around policies of somebody else.
func (w WaypointProxy) unled(v *registry.VirtualService, of, to *registry.Service) (why, fix string) {
	if of.External && to.Host == of.Host {
		return "", ""
	}
	if why := w.unfit(to); why != "" {
		return to.Host + " " + why + ", and waypoints lead to Services of the mesh", "name a Service of an app"
	}
	if to.Host == of.Host {
		return "", ""
	}
	use, fronted := w.snap.Waypoint(to)
	theirs := w.snap.Visible(to.Host, v.Key.Namespace, nil)
	switch own := to.Namespace == v.Key.Namespace; {
	case theirs == nil || theirs.Source != to.Source:
		return to.Host + " is nothing that namespace " + v.Key.Namespace + " sees", "name a Service that is exported to it"
	case fronted && use.Gateway != w.gateway:
		return to.Host + " has a waypoint of its own, " + use.Gateway.String() + ", which the route would go around", "name a Service without one, or with this one"
	case fronted && !own:
		return to.Host + " of another namespace has policies at the waypoint, which the route would go around", "name a Service of the route's namespace"
	case !own && v.Key.Namespace != w.gateway.Namespace:
		return to.Host + " is of another namespace than the route, and the waypoint is namespace " + w.gateway.Namespace + "'s, whose identity is not the route's to use", "name a Service of the route's namespace, or give that a waypoint of its own"
	}
	return "", ""
}

func (w WaypointProxy) unfit(svc *registry.Service) string {
	ref, _ := kubeOf(svc.Host)
	switch {
	case svc.External || !svc.Exit.IsZero():
		return "is outside of the mesh"
	case !svc.Tabled() || svc.Headless():
		return "is no Service with an address of its own"
	case w.snap.IsGateway(ref) || w.snap.IsWaypoint(ref):
		return "is a gateway itself"
	case w.snap.HasReservedAddress(svc):
		return "is a gateway of the mesh, or its control plane"
	}
	return ""
}

// Leads gives the hosts that a Service's routes lead to, beside itself, in order.
func (w WaypointProxy) Leads(h SidecarHost) (out []string) {
	if h.Led == nil {
		return nil
	}
	for _, r := range h.Led.Ends {
		if r.Service != nil && r.Service.Host != h.Service.Host && w.leads(h, r.Service) && !slices.Contains(out, r.Service.Host) {
			out = append(out, r.Service.Host)
		}
	}
	slices.Sort(out)
	return out
}

func (w WaypointProxy) leads(h SidecarHost, to *registry.Service) bool {
	why, _ := w.unled(h.Led.By, h.Service, to)
	return why == ""
}

// Behind gathers what counts for a Service that routes lead to; false where the waypoint does not lead there.
func (w WaypointProxy) Behind(host string) (SidecarHost, bool) {
	svc := w.Visible(host)
	if svc == nil || w.unfit(svc) != "" {
		return SidecarHost{}, false
	}
	h := w.reachedByMutual(svc)
	h.Led = nil
	return h, true
}

// Reaching gathers what counts for the pods of a Service that the waypoint leads to.
func (w WaypointProxy) Reaching(svc *registry.Service) SidecarHost { return w.reachedByMutual(svc) }

// reachedByMutual counts pods without sidecars that a waypoint stands before among those that take mutual TLS.
func (w WaypointProxy) reachedByMutual(svc *registry.Service) SidecarHost {
	h := w.reached(svc)
	h.MeshTLS = h.confined(w.snap, svc, h.Rule, w.Namespace)
	set := w.snap.EndpointSet(svc.Host)
	if !h.Meshed || set == nil {
		return h
	}
	h.Accounts = registry.AccountsOf(registry.WaypointEndpoints(set.List))
	return h
}

// Refused are the addresses that a waypoint does not connect to, whoever writes them into an EndpointSlice: the mesh's reserved addresses, and its own pods.
func (w WaypointProxy) Refused() []netip.Addr {
	out := slices.Clone(w.snap.ReservedAddresses())
	if set := w.snap.EndpointSet(w.gateway.Host()); set != nil {
		for _, e := range set.List {
			if addr, err := netip.ParseAddr(e.Address); err == nil {
				out = append(out, addr.Unmap())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}
