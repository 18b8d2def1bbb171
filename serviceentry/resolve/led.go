package resolve

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// SidecarRoutes is what a VirtualService makes of the way from a workload to a host.
type SidecarRoutes struct {
	By        *registry.VirtualService
	Namespace string                        // the workload's
	Selected  registry.SelectorKey          // and what selects it
	Ends      map[string]ReachedDestination // the destinations, by their names
}

// ReachedDestination is a destination of a route as a proxy reaches it.
type ReachedDestination struct {
	// Service is the registration, which is reached by the gateway in its Exit, or straight; nil: nobody registered it for whoever
	// wrote the route. Where a route leads to an egress gateway, it is the host that the route is for, by that gateway.
	Service      *registry.Service
	Picked       bool // it is that
	Rule         *registry.DestinationRule
	Restrictions registry.UpstreamRestrictions
	// Wrapped is the far end of requests to its ports of TLS, where the proxy speaks that for them.
	Wrapped             registry.UpstreamRestrictions
	RegisteredBySeveral bool
	Gateway             bool // it is an egress gateway's Service, by which the host does not leave
	Fronted             bool // it is reached through a waypoint
	// Rows are its own at an exit, by port.
	Rows map[uint32]*ExitRow
}

// WeightedDestination is where a share of what takes a route goes.
type WeightedDestination struct {
	*ReachedDestination
	Weight uint32        // its part of the sum
	Subset string        // of the destination's endpoints; "" for all
	Port   registry.Port // at which it is reached
	// TLS is what requests to a port of TLS are wrapped in, by the one who connects.
	TLS *registry.TLSSettings
	Row *ExitRow // at an exit: the destination's own
	// Untouched says that TLS which comes goes on as it is, though a BackendTLSPolicy, or a DestinationRule, wraps what else goes there.
	Untouched bool
	// Closed is why nothing goes there.
	Closed *registry.ClosedPort
}

// led gathers what counts of the VirtualService that leads a workload to a service; nil without one.
func (a Sidecar) led(svc *registry.Service) *SidecarRoutes {
	v := a.snap.Routes(svc, a.Namespace, a.selected)
	if v == nil {
		return nil
	}
	l := &SidecarRoutes{By: v, Namespace: a.Namespace, Selected: a.selected, Ends: map[string]ReachedDestination{}}
	for host := range v.Ends() {
		l.Ends[host] = a.reach(v, svc, host)
	}
	return l
}

// reach finds a destination of a VirtualService as the workload's proxy reaches it.
func (a Sidecar) reach(v *registry.VirtualService, svc *registry.Service, host string) ReachedDestination {
	to, r := a.Visible(host), ReachedDestination{}
	if ref, ok := kubeOf(host); ok && svc.External && to != nil && a.snap.LeadsBy(v, ref) {
		to, r.Picked, r.RegisteredBySeveral = a.snap.Via(svc, ref), true, true
	}
	if to == nil {
		return r
	}
	r.Service, r.Rule = to, a.rule(to)
	place := a.connector()
	r.Restrictions = a.snap.UpstreamRestrictions(to, r.Rule, place)
	if to.Exit.IsZero() {
		r.Wrapped = a.snap.UpstreamRestrictions(to.Read(), r.Rule, place)
	}
	r.RegisteredBySeveral = r.RegisteredBySeveral || a.Means(to) != ""
	r.Gateway = to.Source.Kind == config.KindService && a.snap.IsExit(kubeRef(to))
	return r
}

// kubeOf reads the name of a Kubernetes Service.
func kubeOf(host string) (registry.Ref, bool) { return registry.RefOf(host) }

// requests adds the routes of requests to a port that reads them: the user's, or the host's own.
func (h *SidecarHost) requests(out []Route, p registry.Port) []Route {
	if h.Led == nil {
		return append(out, Route{For: Requests})
	}
	list := h.Led.By.HTTPAt(route.At(p.Number, h.Led.Namespace, h.Led.Selected))
	return append(out, userRequests(list, h.Led.By, func(_ string, d route.Destination) WeightedDestination { return h.to(d, p, Requests) })...)
}

// l4 are the user's routes of connections to a port, as far as they count here.
func (h *SidecarHost) l4(p registry.Port) []route.L4 {
	if h.Led == nil {
		return nil
	}
	at := route.At(p.Number, h.Led.Namespace, h.Led.Selected)
	if p.Protocol == registry.TLS {
		return h.Led.By.TLSAt(at)
	}
	return h.Led.By.TCPAt(at)
}

// connections are the user's routes of connections that are asked for in a way; nil where there are none for the port.
func (h *SidecarHost) connections(p registry.Port, asked FoundBy) []Route {
	list := h.l4(p)
	if len(list) == 0 {
		return nil
	}
	return userConnections(list, h.Led.By, asked, func(_ string, d route.Destination) WeightedDestination { return h.to(d, p, Connections) })
}

// opaque adds the routes of connections, the user's or the host's own.
func (h *SidecarHost) opaque(out []Route, p registry.Port, asked FoundBy) []Route {
	if user := h.connections(p, asked); user != nil {
		return append(out, user...)
	}
	return append(out, Route{For: Connections, FoundBy: asked})
}

// opaqueRequests adds those of requests to a port of TCP: they go where its connections do.
func (h *SidecarHost) opaqueRequests(out []Route, p registry.Port) []Route {
	routes := h.connections(p, Anyhow)
	if routes == nil || p.Protocol == registry.TLS {
		return append(out, Route{For: Requests})
	}
	return append(out, asRequests(routes)...)
}

// asRequests are routes of requests that go where those of connections do.
func asRequests(routes []Route) []Route {
	out := slices.Clone(routes)
	for i := range out {
		r := &out[i]
		r.For = Requests
		if r.L4 != nil {
			r.HTTP, r.Match = &route.HTTP{From: r.By, Revision: r.Revision, Field: r.Field}, &route.HTTPMatch{}
			for _, t := range r.To {
				r.HTTP.Destinations = append(r.HTTP.Destinations, route.HTTPDestination{Weight: t.Weight})
			}
		}
	}
	return out
}

// userRequests makes the routes of a list; to finds a destination that an object of a namespace names. What none of them means is answered so; without any, the host is reached as it is
// registered.
func userRequests(list []route.HTTP, by *registry.VirtualService, to func(ns string, d route.Destination) WeightedDestination) []Route {
	if len(list) == 0 {
		return []Route{{For: Requests}}
	}
	var out []Route
	for i := range list {
		h := &list[i]
		r := Route{For: Requests, HTTP: h, By: h.From, Revision: h.Revision, Field: h.Field}
		for _, d := range h.Destinations {
			end := to(h.From.Namespace, d.Destination).writtenBy(by.Key, r)
			end.Weight = d.Weight
			r.To = append(r.To, end)
		}
		for _, m := range h.Mirrors {
			r.Mirrors = append(r.Mirrors, to(h.From.Namespace, m.Destination).writtenBy(by.Key, r))
		}
		switch {
		case h.Closed != nil:
			r.closeFor(*h.Closed)
		case len(h.Destinations) == 0:
			r.Action = Answer
		}
		r.closeIfAll()
		if h.Held() && r.Action == Close {
			continue // a session with what is gone begins anew, by the rule's route, which follows
		}
		if h.Asks != nil {
			r.ask(to(h.From.Namespace, h.Asks.Destination).writtenBy(by.Key, r))
		}
		for j := range h.Matches {
			r.Match = &h.Matches[j]
			out = append(out, r)
		}
	}
	if last := out[len(out)-1]; !last.Match.Any() {
		out = append(out, Route{For: Requests, Action: Unrouted, By: by.Key, Revision: by.Revision})
	}
	return out
}

// userConnections is the same for connections.
func userConnections(list []route.L4, by *registry.VirtualService, asked FoundBy, to func(ns string, d route.Destination) WeightedDestination) []Route {
	var out []Route
	for _, l := range list {
		r := Route{For: Connections, FoundBy: asked, By: l.From, Revision: l.Revision, Field: l.Field}
		for _, d := range l.Destinations {
			end := to(l.From.Namespace, d.Destination).writtenBy(by.Key, r)
			end.Weight = d.Weight
			r.To = append(r.To, end)
		}
		if l.Closed != nil {
			r.closeFor(*l.Closed)
		}
		r.closeIfAll()
		for j := range l.Matches {
			r.L4 = &l.Matches[j]
			out = append(out, r)
		}
	}
	if last := out[len(out)-1]; !last.L4.Any() {
		out = append(out, Route{For: Connections, FoundBy: asked, Action: Unrouted, By: by.Key, Revision: by.Revision})
	}
	return out
}

// ask has somebody asked first; where nobody can be, the route is closed.
func (r *Route) ask(t WeightedDestination) {
	if t.Closed == nil && r.HTTP.Asks.GRPC && t.Port.Protocol != registry.HTTP2 {
		t = t.close(*r, r.HTTP.Asks.Destination, "is asked by gRPC at a port that is not named so", "name the port grpc, or set appProtocol: kubernetes.io/h2c")
	}
	if r.ExternalAuth = &t; t.Closed != nil {
		r.Action, r.Closed = Close, t.Closed
	}
}

// closeFor closes a route that stands for all of its object.
func (r *Route) closeFor(c route.Closed) {
	r.Action, r.Closed = Close, &registry.ClosedPort{By: r.By, Revision: r.Revision, Why: c.Why, Fix: c.Fix}
}

// closeIfAll makes a route whose destinations are all closed say so.
func (r *Route) closeIfAll() {
	if len(r.To) == 0 || slices.ContainsFunc(r.To, func(t WeightedDestination) bool { return t.Closed == nil }) {
		return
	}
	r.Action, r.Closed = Close, r.To[0].Closed
}

// to is a destination of what came for a port.
func (h *SidecarHost) to(d route.Destination, asked registry.Port, kind Kind) WeightedDestination {
	r := h.Led.Ends[d.Host]
	by := Route{By: h.Led.By.Key, Revision: h.Led.By.Revision}
	t := WeightedDestination{ReachedDestination: &r, Subset: d.Subset}
	svc := r.Service
	switch {
	case svc == nil && h.Led.By.Joined && isBackend(d.Host):
		return t.close(by, d, noBackend, fixBackend)
	case svc == nil:
		return t.close(by, d, Unregistered, "write a ServiceEntry for it, or name another host")
	case r.Picked:
		t.Port, t.Subset = asked, "" // the wire to a gateway is our own, whatever the route says of it
	case r.Gateway:
		return t.close(by, d, "is an egress gateway, by which the host does not leave", "bind the VirtualService to a Gateway that selects it, or name another host")
	case r.Fronted && svc.External:
		return t.close(by, d, "has a waypoint, which what is for another host does not pass", "name a host without one")
	case r.Fronted && d.Subset != "":
		return t.close(by, d, "has a waypoint, which tells its subsets apart, and nobody before it", "remove the subset, and let a route for the destination itself say it")
	default:
		number := d.PortOf(numbersOf(svc), asked.Number)
		port, ok := svc.Port(number)
		if !ok || port.Protocol == registry.UDP {
			return t.close(by, d, fmt.Sprintf("has no port %d for this", number), "name one that it is registered with")
		}
		t.Port = port
		if why, fix := t.subsetProblem(); why != "" {
			return t.close(by, d, why, fix)
		}
	}
	if kind == Connections && !svc.Exit.IsZero() {
		if why := unlikeTunnel(t.Port, asked, svc, h.Service); why != "" {
			return t.close(by, d, why, "name the host itself, or let the destination leave straight from the pod")
		}
	}
	if kind == Requests && t.Port.Protocol == registry.TLS {
		if closed := t.wrap(by, d); closed {
			return t
		}
	}
	far := r.Restrictions
	if t.TLS != nil {
		far = r.Wrapped
	}
	if c, closed := far.Closed[t.Port.Number]; closed {
		t.Closed = &c
		return t
	}
	return t.reached(by, d, h.Service)
}

// Unregistered is said of a destination that the workload does not see.
const Unregistered = "nobody registered it for workloads here"

// subsetProblem says why the destination has no such subset.
func (t WeightedDestination) subsetProblem() (why, fix string) {
	if t.Subset == "" {
		return "", ""
	}
	if !t.Service.Exit.IsZero() {
		return "leaves by an egress gateway, which goes to all of its endpoints, and not to subset " + t.Subset, "remove the subset, or let the destination leave straight from the pod"
	}
	if t.Rule != nil && t.Rule.Uncounted > 0 {
		return fmt.Sprintf("has a DestinationRule (%s) whose subsets come to %d clusters and endpoints with all that its ServiceEntry registers, so that none counts", t.Rule.Key, t.Rule.Uncounted),
			registry.FewerSubsets
	}
	if t.Rule != nil && t.Rule.Crowded != "" {
		return fmt.Sprintf("has a DestinationRule (%s) of which no subset counts: %s", t.Rule.Key, t.Rule.Crowded), registry.FewerSubsetsBelow
	}
	if _, ok := t.Rule.Subset(t.Subset); !ok {
		return "has no subset " + t.Subset, "add it to the DestinationRule that counts for the host here, or name another"
	}
	return "", ""
}

// unlikeTunnel says why a gateway, which holds what it reads against what it was asked for, would not take a connection to a host
// as one to another; "" where it would.
func unlikeTunnel(port, asked registry.Port, to, host *registry.Service) string {
	switch {
	case port.Protocol.IsHTTP():
		return fmt.Sprintf("takes requests at port %d, and the egress gateway no others", port.Number)
	case asked.Protocol == registry.TLS && to.Host != host.Host:
		return "leaves by the egress gateway, which takes TLS that names the host only"
	default:
		return ""
	}
}

// reached closes destinations that are known by where the client goes, or by the name that it says, for all but the host itself.
func (t WeightedDestination) reached(by Route, d route.Destination, host *registry.Service) WeightedDestination {
	svc := t.Service
	unlike := svc.Host != host.Host && !t.Picked
	switch {
	case t.TLS != nil && t.Subset != "":
		return t.close(by, d, fmt.Sprintf("takes TLS at port %d, which is spoken for requests to all of its endpoints only", t.Port.Number), "remove the subset, or name a port of plain HTTP")
	case unlike && svc.Wildcard():
		return t.close(by, d, "is a pattern, which leads to the name that a client says", "name one host")
	case unlike && svc.Headless():
		return t.close(by, d, "is reached at the address that a client chose, which is another host's", "name a Service that has an address of its own (clusterIP)")
	case unlike && svc.Exit.IsZero() && svc.Resolution == registry.None:
		return t.close(by, d, "is reached at the address that a client chose, which is another host's", "give it resolution DNS or STATIC")
	default:
		return t
	}
}

// wrap makes requests to a port of TLS speak it. A gateway does so by the port of plain HTTP that the entry has for that.
func (t *WeightedDestination) wrap(by Route, d route.Destination) (closed bool) {
	svc := t.Service
	if svc.Tabled() {
		*t = t.close(by, d, fmt.Sprintf("takes TLS at port %d, and requests to Services of the mesh are sent as they are", t.Port.Number), "name a port of plain HTTP")
		return true
	}
	if svc.Exit.IsZero() {
		t.speakTLS()
		return false
	}
	for _, p := range svc.Ports {
		if _, secure := registry.Origination(svc, p, t.Rule); p.Protocol.IsHTTP() && secure == t.Port.TargetPort {
			t.Port = p
			return false
		}
	}
	*t = t.close(by, d, fmt.Sprintf("takes TLS only at port %d, and requests go there by the egress gateway", t.Port.Number), "register a port of plain HTTP beside it, which the gateway wraps in TLS")
	return true
}

// speakTLS is for requests to a port of TLS, where it is this proxy that connects.
func (t *WeightedDestination) speakTLS() {
	t.TLS = t.Rule.TLSFor(t.Port.Number)
	if t.TLS == nil {
		t.TLS = &registry.TLSSettings{Mode: registry.TLSSimple}
	}
	t.Port.Protocol = registry.HTTP // inside of it
}

// writtenBy has what closes a destination be about the object that wrote its route: the delegate of a VirtualService, where it was one, or another one for the same host.
func (t WeightedDestination) writtenBy(led config.Key, r Route) WeightedDestination {
	if t.Closed != nil && t.Closed.By == led && r.By != led {
		c := *t.Closed
		c.By, c.Revision = r.By, r.Revision
		t.Closed = &c
	}
	return t
}

func (t WeightedDestination) close(by Route, d route.Destination, why, fix string) WeightedDestination {
	t.Closed = &registry.ClosedPort{By: by.By, Revision: by.Revision, Why: "destination.host: " + d.Host + " " + why, Fix: fix}
	return t
}

// What is said of a backend of a route of the Gateway API that is not there.
const (
	noBackend  = "is no Service, or one that no ReferenceGrant lets be named"
	fixBackend = "see the route's status"
)

// isBackend says whether a destination is a Service that a route of the Gateway API names, or ("") one that it may not name. Other backends are named by their hosts.
func isBackend(host string) bool {
	_, is := kubeOf(host)
	return is || host == ""
}

func numbersOf(svc *registry.Service) []uint32 {
	out := make([]uint32, len(svc.Ports))
	for i, p := range svc.Ports {
		out[i] = p.Number
	}
	return out
}

// Given is what of a Secret the way to it needs.
func (t WeightedDestination) Given() registry.ServedCredential {
	if t.TLS != nil {
		return t.Wrapped.Given[t.Port.Number]
	}
	return t.Restrictions.Given[t.Port.Number]
}
