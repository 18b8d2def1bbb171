package outbound

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// What a node passes on to the own addresses of pods that have a waypoint. No table of a port has such addresses: the last rows of each ask the table of pods about what goes to
// networks that have some (envoy.AskOfPods). A headless Service, whose row has its pods' addresses, says it there.

// Pod is what the part of such an address is made from.
type Pod struct {
	resolve.FrontedPod
	Policy resolve.OutboundPolicy // by which it would be passed on
}

// Part is its row in the table of pods.
func (p Pod) Part() *part.Part {
	vh := &routev3.VirtualHost{Name: wire.VhostName(wire.PodsTable, p.Address.String()), Domains: []string{addressDomain(p.Address)}}
	out := part.New()
	if p.Closed != nil {
		vh.Routes = []*routev3.Route{envoy.SaysPod("", p.Closed.By.String()+": "+p.Closed.String()), farend.ClosedAnswer(*p.Closed)}
	} else {
		vh.Routes = []*routev3.Route{envoy.SaysPod(wire.PodsWaypoint(p.Gateway.Host()), ""), p.answer()}
		out.Pods = []registry.Ref{p.Gateway}
	}
	out.Resources = []*resource.Resource{envoy.Seal(resource.VirtualHost, vh.Name, vh)}
	return out
}

// answer says of connections that they go by the waypoint, if policies pass them on.
func (p Pod) answer() *routev3.Route {
	row := podAnswer(p.FrontedPod, wire.PodRoute, envoy.ObjectRef(p.Policy.By), unregisteredRevision(p.Policy)).Row(envoy.MatchQuestion(""))
	if p.Policy.AllowAny {
		envoy.MarkOutside(row, wire.Leaves, "", 0)
	}
	return row
}

// podAnswer has the waypoint told of the address and the port.
func podAnswer(p resolve.FrontedPod, route, config, revision string) envoy.Answer {
	return envoy.Answer{
		Route: route, Config: config, Revision: revision,
		Cluster: wire.PodsWaypoint(p.Gateway.Host()), Dialled: wire.PodNameBegins, Host: wire.PodNameTCP, Alpn: wire.ALPNPod,
	}
}

// Endpoints are none.
func (Pod) Endpoints([]registry.Endpoint) []*resource.Resource { return nil }

// podsTable is the table of pods, which is there before any is asked for, and the ways to the waypoints before them.
func (in Inputs) podsTable() []*resource.Resource {
	table := envoy.RouteTable(wire.PodsTable, unaskedPod(in.Outside.Unfronted()), in.Hosts, true)
	table.VhostHeader = envoy.HeaderTo
	out := append(envoy.PlaceholderRow(wire.PodsTable, in.Hosts), envoy.ScopedRoutes(wire.PodsTable), envoy.Seal(resource.Route, wire.PodsTable, in.led(table)))
	for _, front := range in.Waypoints {
		out = append(out, farend.ToPodsWaypoint(front, in.Inbound.Trust, in.Connect)...)
	}
	return out
}

// unaskedPod is the row for addresses before which no waypoint stands: connections are answered as in the table that asked.
func unaskedPod(policy resolve.OutboundPolicy) *routev3.VirtualHost {
	vh := lastResort(policy)
	vh.Routes = append([]*routev3.Route{envoy.SaysPod("", "")}, vh.Routes...)
	return vh
}

// askPods asks that table about connections.
func askPods() *routev3.Route {
	r := envoy.Route(wire.PodRoute, envoy.MatchQuestion(""), envoy.ToCluster(envoy.AllTables))
	r.RequestHeadersToAdd = []*corev3.HeaderValueOption{{
		Header:       &corev3.HeaderValue{Key: envoy.HeaderTable, Value: wire.PodsTable},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}}
	return r
}

// toPods are the routes of what is passed on to networks in which pods have waypoints: as it is passed on elsewhere, but asked about first.
func toPods(rest resolve.OutboundPolicy, r resolve.UnregisteredRoute) []*routev3.Route {
	within := func(row *routev3.Route) *routev3.Route { return inCluster(rest.Fronted, row) }
	if r.For == resolve.Connections {
		return []*routev3.Route{within(askPods())}
	}
	asElsewhere := r
	asElsewhere.Action = resolve.PassOn
	if asElsewhere.To = resolve.ToAnything; r.Inside {
		asElsewhere.To = resolve.ToCluster
	}
	goes, ends := envoy.AnsweredByPod()
	asks := envoy.AskOfPods(unregisteredRow(rest, asElsewhere))
	out := []*routev3.Route{ends, goes, asks}
	for _, row := range out {
		row.Metadata = envoy.DecidedByMetadata(envoy.ObjectRef(rest.By))
		envoy.WithRevision(row, unregisteredRevision(rest))
		if r.Leaves() {
			envoy.MarkOutside(row, wire.Leaves, "", 0)
		}
		within(row)
	}
	return out
}

// podRows are those of a headless Service's pods that have a waypoint before their own addresses, for connections, and then for requests, which a question must not get to.
func (h *Host) podRows(port registry.Port) (out []*routev3.Route) {
	by := envoy.ObjectRef(h.Service.SourceOf(port))
	for _, p := range h.FrontedPods {
		requests := envoy.ToPod(envoy.Route(wire.PodRoute, envoy.MatchAnyRequest(), envoy.ToCluster(wire.PodsWaypoint(p.Gateway.Host()))))
		requests.Metadata = envoy.DecidedByMetadata(by)
		envoy.WithRevision(requests, h.Service.RevisionOf(port))
		rows := []*routev3.Route{podAnswer(p, wire.PodRoute, by, h.Service.RevisionOf(port)).Row(envoy.MatchQuestion("")), requests}
		if p.Closed != nil {
			rows = []*routev3.Route{farend.ClosedAnswer(*p.Closed), farend.ClosedRequests(*p.Closed)}
		}
		for _, row := range rows {
			out = append(out, inCluster([]netip.Prefix{netip.PrefixFrom(p.Address, p.Address.BitLen())}, row))
		}
	}
	return out
}

// podWaypoints are the waypoints that they go by.
func (h *Host) podWaypoints() (out []registry.Ref) {
	for _, p := range h.FrontedPods {
		if p.Closed == nil {
			out = append(out, p.Gateway)
		}
	}
	return out
}
