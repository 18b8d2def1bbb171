package policy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

// ambient says whether the workload is in the mesh without a sidecar: its node sends what it sends.
func (a asking) ambient() bool { return a.snap.ByNode(a.workload.Namespace, a.workload.Labels) }

// waypointOf is the waypoint that what a route of the workload's node leads to has; zero where it has none.
func (a asking) waypointOf(r *resolve.Route) registry.Ref {
	if len(r.To) == 0 || !a.ambient() || r.To[most(r.To)].Service == nil {
		return registry.Ref{}
	}
	use, _ := a.snap.Waypoint(r.To[most(r.To)].Service)
	return use.Gateway
}

// fronted says what becomes of what a workload without a sidecar sends to what has a waypoint: AuthorizationPolicies and routes count there. About what leaves
// EgressPolicies are asked first, at the node and at the waypoint.
func (a asking) fronted(host resolve.SidecarHost, port registry.Port, r *resolve.Route, shown resolve.Attempt) Verdict {
	svc, front := host.Service, host.Waypoint
	v := Verdict{Service: svc, Path: PathDirect, Cluster: wire.ClusterName(port.Number, svc.Host), Waypoint: front.Gateway, DecidedBy: Object{svc.SourceOf(port), "hosts: " + svc.Host}}
	if svc.External {
		v.Path = PathGateway
		if !port.Protocol.IsHTTP() && port.Protocol != registry.TLS { // of which the waypoint reads nothing, whatever it is
			shown.Kind = resolve.Connections
		}
		if !a.permitted(&v, about{svc.Host, port.Number, spokenAs(shown.Kind), shown.Request, a.at, a.snap.Closed(svc)}) {
			v.Path, v.Cluster = PathBlackhole, wire.BlackHoleCluster
			return v
		}
	}
	w := resolve.WaypointOf(a.snap, front.Gateway)
	there, before := w.As(svc)
	if !before { // a host that has no waypoint there is closed before it is asked about
		return v.endAtWaypoint(v.DecidedBy, "the host is not registered as here")
	}
	v.Allowed, v.Reason = true, "a service of the mesh, by the waypoint "+front.Gateway.String()
	if v = a.authorizedAtWaypoint(v, port, shown); !v.Allowed {
		return v
	}
	v.end = &end{asking: a.asWaypoint(w, front), front: &w, service: svc, port: port, shown: shown}
	said := len(v.Reason)
	if v = v.pastWaypoint(there, port, shown); v.Allowed && !v.end.service.Exit.IsZero() {
		return v.leavesByWaypoint(r, v.Reason[said:])
	}
	return v
}

// leavesByWaypoint asks the egress gateway, which has the waypoint for its client. led is what was said of the waypoint's own routes.
func (v Verdict) leavesByWaypoint(r *resolve.Route, led string) Verdict {
	there := v.end
	onwards := *r
	onwards.By = there.service.SourceOf(there.port)
	then := there.asking.byGateway(there.service, there.port, &onwards, there.shown, there.Means(there.service))
	v.Allowed, v.Gateway, v.DecidedBy, v.end = then.Allowed, then.Gateway, then.DecidedBy, nil
	v.Reason = fmt.Sprintf("by the waypoint %s, which the egress gateway has for its client: %s", v.Waypoint, then.Reason) + led
	if !then.Allowed {
		v.Asked, v.Policies, v.Ruling, v.Authorization = then.Asked, then.Policies, then.Ruling, then.Authorization
	}
	return v
}

// authorizedAtWaypoint asks the AuthorizationPolicies that count at the waypoint for the Service, or the host. It knows the client by its certificate and its address.
func (a asking) authorizedAtWaypoint(v Verdict, port registry.Port, shown resolve.Attempt) Verdict {
	set := a.snap.AuthorizingFront(v.Waypoint, v.Service)
	if len(set) == 0 {
		return v
	}
	what := &authz.Attempt{
		Domains: a.snap.Mesh.TrustDomains(),
		Client:  ClientOf(a.snap, a.workload.Namespace, a.account()), From: a.workload.Address, Remote: a.workload.Address,
		Authority: shown.Request.Authority, Port: port.Number, SNI: resolve.FrontSNI(v.Service, port.Number),
	}
	if port.Protocol.IsHTTP() {
		what.Request = requestAsked(egresspolicy.HTTP, shown.Request)
	}
	cluster := v.Cluster
	v = v.judge(a.snap, set, what)
	v.Cluster = cluster // which the client's node has, whatever is said there
	return v
}

// asWaypoint is the waypoint as it asks its Services' pods, and the egress gateway: with its own certificate, and from its own address, where it has one only.
func (a asking) asWaypoint(w resolve.WaypointProxy, front *resolve.WaypointHop) asking {
	who := Workload{Namespace: front.Gateway.Namespace, Name: front.Gateway.Name, Account: front.Accounts[0], Labels: map[string]string{gatewayapi.GatewayLabel: front.Gateway.Name}}
	if len(front.Endpoints) == 1 {
		who.Address, _ = netip.ParseAddr(front.Endpoints[0].Address)
	}
	return asking{snap: a.snap, Sidecar: w.Sidecar, workload: who, at: a.at}
}

// pastWaypoint follows the waypoint's routes.
func (v Verdict) pastWaypoint(there resolve.SidecarHost, port registry.Port, shown resolve.Attempt) Verdict {
	svc := there.Service
	r := resolve.FirstMatch(there.Routes(port), shown, svc.Host)
	if !port.Protocol.IsHTTP() {
		r = bytesThere(there, port)
	}
	switch {
	case r == nil:
		return v.endAtWaypoint(v.DecidedBy, "nothing goes there: routes of connections are not kept by waypoints")
	case r.Action == resolve.Answer || r.Action == resolve.Unrouted:
		said := answered(svc, port, r)
		return v.endAtWaypoint(said.DecidedBy, said.Reason)
	case r.Action != resolve.Forward:
		said := ended(svc, port, r, shown)
		return v.endAtWaypoint(said.DecidedBy, said.Reason)
	}
	if fault, refuses := aborted(svc, r); refuses {
		return v.endAtWaypoint(fault.DecidedBy, fault.Reason)
	}
	if len(r.To) == 0 {
		return v
	}
	which := most(r.To)
	to := r.To[which]
	if to.Closed != nil {
		return v.endAtWaypoint(Object{Key: to.Closed.By}, to.Closed.String())
	}
	v.Reason += "; led there by " + ruleOf(r)
	if n := len(r.To); n > 1 {
		v.Reason += fmt.Sprintf(", as %s of %d destinations", share(r.To, to), n)
	}
	v.end.service, v.end.port, v.end.subset = to.Service, to.Port, to.Subset
	if r.HTTP != nil {
		v.end.shown.Request = r.HTTP.Sent(r.Match, which, shown.Request)
	}
	return v
}

// endAtWaypoint is the verdict of what gets no farther than the waypoint.
func (v Verdict) endAtWaypoint(by Object, why string) Verdict {
	v.Allowed, v.DecidedBy, v.Reason, v.end = false, by, fmt.Sprintf("at the waypoint %s %s", v.Waypoint, why), nil
	return v
}

// bytesThere is the route of connections whose bytes a waypoint passes on; nil where it does not.
func bytesThere(there resolve.SidecarHost, port registry.Port) *resolve.Route {
	if c, closed := there.Restrictions.Closed[port.Number]; closed {
		return &resolve.Route{Action: resolve.Close, Closed: &c, By: c.By}
	}
	if slices.ContainsFunc(there.Routes(port), func(r resolve.Route) bool { return r.L4 != nil }) {
		return nil
	}
	return &resolve.Route{By: there.Service.SourceOf(port)}
}

// ledToFronted is the verdict of a node's route that leads to a Service with a waypoint; false where there is none.
func (a asking) ledToFronted(r *resolve.Route, which int, shown resolve.Attempt) (v Verdict, is bool) {
	to := r.To[which]
	if !a.ambient() {
		return v, false
	}
	host := a.Fronted(a.Reached(to.Service))
	if host.Waypoint == nil {
		return v, false
	}
	if r.HTTP != nil { // the waypoint reads what the node sends
		shown.Request = r.HTTP.Sent(r.Match, which, shown.Request)
	}
	return a.fronted(host, to.Port, r, shown), true
}
