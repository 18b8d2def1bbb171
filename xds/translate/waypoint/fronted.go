package waypoint

import (
	"net/netip"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Fronted is what is made of a host that the waypoint stands before: of a Service, or of each registration of a host outside that asks for it, which have nothing of
// each other but the rows of the host's name.
type Fronted []*Host

// Part is what each has, and the rows in the table of HBONE.
func (f Fronted) Part() *part.Part {
	out := part.New()
	for _, h := range f {
		p := h.Part()
		out.Resources, out.Gateways = append(out.Resources, p.Resources...), append(out.Gateways, p.Gateways...)
		out.Fronts, out.Leads = append(out.Fronts, p.Fronts...), append(out.Leads, p.Leads...)
	}
	out.Resources = append(out.Resources, f.tunnels()...)
	return out
}

// Endpoints are those of a Service, as a waypoint reaches them.
func (f Fronted) Endpoints(list []registry.Endpoint) (out []*resource.Resource) {
	for _, h := range f {
		out = append(out, h.Endpoints(list)...)
	}
	return out
}

// tunnels are the host's rows in the table of HBONE: for each port one for its name, which also answers what is asked about connections, as each registration
// has it, and one for each of its addresses.
func (f Fronted) tunnels() (out []*resource.Resource) {
	for _, number := range f.ports() {
		asked, named := f.at(number)
		authorities := []string{wire.HostPort(f[0].Service.Host, number)}
		if named != nil {
			for _, a := range named.Addresses(named.port) {
				authorities = append(authorities, netip.AddrPortFrom(a, uint16(number)).String())
			}
		}
		for i, authority := range authorities {
			vh := &routev3.VirtualHost{Name: wire.VhostName(wire.WaypointListener, authority), Domains: []string{authority}}
			if i == 0 {
				vh.Routes = asked
			}
			if named != nil {
				vh.Routes = append(vh.Routes, named.tunnel())
				vh.TypedPerFilterConfig = named.policies()
			}
			if len(vh.Routes) > 0 {
				out = append(out, envoy.Seal(resource.VirtualHost, vh.Name, vh))
			}
		}
	}
	return out
}

// ports are those that any of them has, in order.
func (f Fronted) ports() (out []uint32) {
	for _, h := range f {
		for _, p := range h.taken() {
			out = append(out, p.Number)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// at gives the answers to what is asked about connections to a port, also by the agent, and about requests by that alone, and what is meant by the name alone; nil where nothing is.
func (f Fronted) at(number uint32) (asked []*routev3.Route, named *frontPort) {
	for _, h := range f {
		for _, port := range h.taken() {
			if port.Number != number {
				continue
			}
			if h.outside() && !h.front(port).Closed {
				asked = append(asked, h.answer(port))
			}
			if h.Named {
				named = &frontPort{h, port}
			}
		}
	}
	return asked, named
}

// frontPort is a port of a host, as tunnels reach it.
type frontPort struct {
	*Host
	port registry.Port
}

// tunnel is where a tunnel to the port goes.
func (p *frontPort) tunnel() *routev3.Route {
	f := p.front(p.port)
	if f.Closed {
		return envoy.Refuse(wire.ClosedRoute+NotLed, envoy.MatchAnyTunnel(), 503, "sallyport: "+NotLed+"\n", nil)
	}
	row := envoy.Route("default", envoy.MatchAnyTunnel(), envoy.TerminateConnect(f.Behind()))
	if f.Asks() {
		envoy.WithFilterConfigs(row, envoy.FrontedFilterConfigs(f.Host, f.Port, wire.Front{In: f.In, Kind: kindOf(f)}))
	}
	return row
}

// policies are those of connections that a tunnel is held to. Those of requests are in the port's table.
func (p *frontPort) policies() map[string]*anypb.Any {
	if f := p.front(p.port); f.HTTP || f.Closed || len(p.Policies) == 0 {
		return nil
	}
	return map[string]*anypb.Any{envoy.FilterAuthzTunnels: envoy.AuthorizationOverride(connections(p.Asked.byTunnel(p.Policies), seeTunnel(p.Trust)))}
}
