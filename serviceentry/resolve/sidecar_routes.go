package resolve

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Takes says whether something happens for the host at a port. An egress gateway's own port is none of those: nothing but
// tunnels goes there, and they are the proxy's.
func (h *SidecarHost) Takes(p registry.Port) bool {
	return p.Protocol != registry.UDP && !(h.Gateway && p.Number == registry.GatewayPort)
}

// Direct says whether the proxy connects to the host's port itself.
func (h *SidecarHost) Direct(p registry.Port) bool {
	_, closed := h.Restrictions.Closed[p.Number]
	return !h.ByGateway() && !closed
}

// ByGateway says whether the proxy sends what is for the host to an egress gateway.
func (h *SidecarHost) ByGateway() bool { return !h.Service.Exit.IsZero() && h.Waypoint == nil }

// Addresses are the single ones that lead to the host at a port.
func (h *SidecarHost) Addresses(p registry.Port) (out []netip.Addr) {
	svc := h.Service
	if svc.MadeUp != 0 {
		out = append(out, svc.VIP4(), svc.VIP6())
	}
	for _, a := range svc.Addresses {
		if a.IsSingleIP() && svc.ByAddress() && !slices.Contains(h.LostAddresses, netip.AddrPortFrom(a.Addr(), uint16(p.Number))) {
			out = append(out, a.Addr())
		}
	}
	return out
}

// Ranges are those that lead to it beside.
func (h *SidecarHost) Ranges(p registry.Port) (out []netip.Prefix) {
	for _, a := range h.Service.Addresses {
		if !p.Protocol.IsHTTP() && !a.IsSingleIP() && !h.Service.Wildcard() {
			out = append(out, a)
		}
	}
	return out
}

// Routes are a port's, in order. Requests go to HTTP ports, connections to others. A TCP port takes whatever comes, and on a
// port that it shares with HTTP services requests come as requests; so does a TLS port of a service of the mesh, whose address
// is its own. What else comes is told so.
func (h *SidecarHost) Routes(p registry.Port) []Route {
	return h.appendRoutes(make([]Route, 0, mostUsual), p)
}

// Match gives the first of a port's routes that takes an attempt; false where none does. own is the host's own name.
func (h *SidecarHost) Match(p registry.Port, x Attempt, own string) (Route, bool) {
	var room [mostUsual]Route
	return valueOf(FirstMatch(h.appendRoutes(room[:0], p), x, own))
}

// mostUsual is how many routes a port has at most without VirtualServices.
const mostUsual = 5

// valueOf copies a route from among others, which need not be kept for it.
func valueOf(r *Route) (Route, bool) {
	if r == nil {
		return Route{}, false
	}
	return *r, true
}

func (h *SidecarHost) appendRoutes(out []Route, p registry.Port) []Route {
	routes := h.portRoutes(out, p)
	for i := range routes {
		r := &routes[i]
		if h.Asked {
			r.asAsked(h.Service, p)
		}
		if r.Action == Close || r.Action == NotRegistered || r.By != (config.Key{}) {
			continue
		}
		r.By = h.Service.SourceOf(p)
		if h.Service.Exit.IsZero() { // else the gateway says it, and what is edited of the entry changes nothing here
			r.Revision = h.Service.RevisionOf(p)
		}
	}
	return routes
}

func (h *SidecarHost) portRoutes(out []Route, p registry.Port) []Route {
	svc := h.Service
	if c, closed := h.Restrictions.Closed[p.Number]; closed {
		return closedRoutes(c)
	}
	switch {
	case p.Protocol.IsHTTP():
		out = append(h.unnamed(out, ByAddress), Route{For: Connections, Action: WrongProtocol})
		return h.requests(out, p)
	case p.Protocol == registry.TLS && svc.External:
		return append(h.tlsRoutes(out, p), Route{For: Requests, Action: WrongProtocol})
	case !svc.ByAddress() || !svc.Exit.IsZero():
		return h.opaqueRequests(h.opaque(out, p, Anyhow), p)
	default:
		return h.opaqueRequests(h.opaque(h.opaque(out, p, ByAddress), p, Anyhow), p)
	}
}

// tlsRoutes are for connections to a host outside that takes TLS only. One without a TLS name goes where its address leads. One
// with a name that is nobody's does so, too, if the host is reached straight from here: through a gateway, which holds names
// against each other, it would not come.
func (h *SidecarHost) tlsRoutes(out []Route, p registry.Port) []Route {
	svc := h.Service
	if svc.MadeUp == 0 && (len(svc.Addresses) == 0 || !svc.ByAddress()) {
		return h.opaque(out, p, Anyhow)
	}
	byAddress, byName := Route{For: Connections, FoundBy: ByAddress}, Route{For: Connections, FoundBy: ByHostName}
	if !svc.Exit.IsZero() {
		byAddress.FoundBy = Nameless
	}
	if len(h.Aliases) > 0 {
		byName.FoundBy = ByName
	}
	user := h.connections(p, byName.FoundBy)
	if user == nil && !svc.Exit.IsZero() { // what goes on is one route, since what does not comes first
		return append(h.unnamed(out, Misnamed), Route{For: Connections, FoundBy: Otherwise, Action: WrongProtocol}, Route{For: Connections})
	}
	if user != nil { // they are by name, so what shows none is for none of them
		byAddress.Action, byAddress.By, byAddress.Revision = Unrouted, h.Led.By.Key, h.Led.By.Revision
	}
	if out = h.unnamed(append(out, byAddress), ByAddress); user != nil {
		out = append(out, user...)
	} else {
		out = append(out, byName)
	}
	return append(out, Route{For: Connections, Action: WrongProtocol})
}

// unnamed adds what is for TLS connections that the host's address found, asked in that way, and that it does not take. With a made-up address they are
// meant for the host, and are told why not; with another they are nobody's.
func (h *SidecarHost) unnamed(out []Route, asked FoundBy) []Route {
	if len(h.Service.Addresses) == 0 || !h.Service.ByAddress() {
		return out
	}
	return append(out, Route{For: Connections, FoundBy: asked, Action: NotRegistered, By: h.Unclaimed.By})
}

func closedRoutes(c registry.ClosedPort) []Route {
	closed := Route{Action: Close, Closed: &c, By: c.By, Revision: c.Revision}
	requests := closed
	requests.For = Requests
	return []Route{closed, requests}
}
