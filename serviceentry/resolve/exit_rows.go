package resolve

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// ExitPort is what an exit does with a host's port.
type ExitPort struct {
	Number uint32
	// Own are the rows of the host itself, each with a far end of its own: one a namespace, in order of age.
	Own []*ExitRow
	// Choices say which row a client gets: the first that takes it. Where there is one row it is everybody's.
	Choices []Choice
}

// Choice gives a row to some clients.
type Choice struct {
	// Meaning keeps it to clients whose sidecar means this namespace's registration; "" does not.
	Meaning string
	// From keeps it to clients of these namespaces, as their certificates name them; nil does not.
	From []string
	Row  *ExitRow
}

// ExitRow is one namespace's registration of a host's port at an exit.
type ExitRow struct {
	Registration
	Port registry.Port         // its target is where the exit connects to
	TLS  *registry.TLSSettings // what it speaks there; nil: what the client says goes on as it is
	// Audience are the namespaces that may use it; nil is everybody.
	Audience []string
	// First says that it is the host's first: the others are told apart by their namespace.
	First bool
	// GatewayRoutes is what the row's clients follow of users' VirtualServices; nil where there are none for them.
	GatewayRoutes *GatewayRoutes

	bounds   []GatewayRoutes
	verified bool
}

// Ports are those at which something happens for the host, in order.
func (h *ExitHost) Ports() []ExitPort {
	var numbers []uint32
	for _, reg := range h.Own {
		numbers = append(numbers, numbersOf(reg.Service)...)
	}
	slices.Sort(numbers)
	var out []ExitPort
	for _, number := range slices.Compact(numbers) {
		if p, ok := h.port(number); ok {
			out = append(out, p)
		}
	}
	return out
}

// port is one of them; false where nothing of the host leaves there.
func (h *ExitHost) port(number uint32) (ExitPort, bool) {
	p := ExitPort{Number: number, Own: rowsAt(h.Own, number, h.Verified)}
	if len(p.Own) == 0 {
		return p, false
	}
	p.Choices = withBound(choices(withPatterns(p.Own, h.Patterns, number, h.Verified), h.Root))
	return p, true
}

// withPatterns adds the rows of the patterns that cover a host: whoever may not use the host, or has a pattern of its own, goes by those.
func withPatterns(own []*ExitRow, patterns [][]Registration, number uint32, verified bool) []*ExitRow {
	rows := slices.Clip(own)
	for _, list := range patterns {
		for _, row := range rowsAt(list, number, verified) {
			if !registeredIn(rows, row.Service.Namespace) {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// rowsAt gives the registrations of a host, or of a pattern, that have a port, one a namespace, in order of age.
func rowsAt(list []Registration, number uint32, verified bool) (rows []*ExitRow) {
	for _, reg := range list {
		port, has := reg.Service.Port(number)
		if has && leaves(reg.Service, port) && !registeredIn(rows, reg.Service.Namespace) {
			rows = append(rows, rowOf(reg, port, list, verified, len(rows) == 0))
		}
	}
	return rows
}

func rowOf(reg Registration, port registry.Port, all []Registration, verified, first bool) *ExitRow {
	row := &ExitRow{Registration: reg, Port: port, Audience: audience(all, reg.Service.Namespace, port.Number), First: first, verified: verified}
	row.TLS, row.Port.TargetPort = registry.Origination(reg.Service, port, reg.Rule)
	row.bounds = reg.GatewayRoutes
	if len(reg.GatewayRoutes) > 0 && reg.GatewayRoutes[0].Client == "" {
		row.GatewayRoutes = &reg.GatewayRoutes[0]
	}
	return row
}

// leaves says whether an exit takes a port. A wildcard's names are looked up as they come, so that those which mean the
// resolver's own host (RFC 6761 section 6.3) are not taken.
func leaves(svc *registry.Service, port registry.Port) bool {
	local := svc.Host == "localhost" || strings.HasSuffix(svc.Host, ".localhost")
	return port.Protocol != registry.UDP && !(svc.Wildcard() && local)
}

func registeredIn(rows []*ExitRow, ns string) bool {
	return slices.ContainsFunc(rows, func(r *ExitRow) bool { return r.Service.Namespace == ns })
}

// audience is who may use a host's port, as the registrations of one namespace say together.
func audience(list []Registration, ns string, port uint32) []string {
	out := []string{}
	for _, r := range list {
		if _, ok := r.Service.Port(port); !ok || r.Service.Namespace != ns {
			continue
		}
		if r.Service.ExportTo.All {
			return nil
		}
		out = append(out, r.Service.ExportTo.Namespaces...)
	}
	return out
}

// choices order a port's rows. Where several namespaces registered the host, or patterns that cover it, what one says leads
// nobody else anywhere. A client goes where its own namespace says; else where the root namespace says; else where the first
// says of those that are exported to it: the registry's order (registry/govern.go). A sidecar whose Sidecar object narrows what
// its workload sees names the registration that is left, and gets there if it is exported to it.
func choices(rows []*ExitRow, root string) []Choice {
	first := rows[0]
	if len(rows) == 1 {
		return []Choice{{Row: first}}
	}
	var out []Choice
	add := func(c Choice) {
		if c.From == nil || len(c.From) > 0 {
			out = append(out, c)
		}
	}
	for _, r := range rows {
		add(Choice{Meaning: r.Service.Namespace, From: r.Audience, Row: r})
	}
	for _, r := range rows {
		if r.Audience == nil || slices.Contains(r.Audience, r.Service.Namespace) {
			add(Choice{From: []string{r.Service.Namespace}, Row: r})
		}
	}
	for _, r := range rootFirst(rows, root) {
		if len(r.Audience) == 1 && r.Audience[0] == r.Service.Namespace {
			continue // they went above
		}
		add(Choice{From: r.Audience, Row: r})
		if r.Audience == nil {
			return out
		}
	}
	return append(out, Choice{Row: first}) // it lets nobody in who comes here, and says so
}

// rootFirst puts the root namespace's rows before the others.
func rootFirst(rows []*ExitRow, root string) []*ExitRow {
	var of, others []*ExitRow
	for _, r := range rows {
		if r.Service.Namespace == root {
			of = append(of, r)
		} else {
			others = append(others, r)
		}
	}
	return append(of, others...)
}

// choose gives the row that a client of a namespace gets, whose sidecar means a namespace's registration ("" for none).
func choose(choices []Choice, ns, meaning string) *ExitRow {
	for _, c := range choices {
		if (c.Meaning == "" || c.Meaning == meaning) && (c.From == nil || slices.Contains(c.From, ns)) {
			return c.Row
		}
	}
	return nil
}

// LetsIn says whether clients of a namespace may use the row.
func (r *ExitRow) LetsIn(ns string) bool {
	return !r.verified || r.Audience == nil || slices.Contains(r.Audience, ns)
}

// Closed is why nothing is sent; false where something is.
func (r *ExitRow) Closed() (registry.ClosedPort, bool) {
	c, closed := r.Restrictions.Closed[r.Port.Number]
	return c, closed
}

// Dials says whether the exit connects to the address that the client chose. A forward proxy's clients choose none.
func (r *ExitRow) Dials() bool {
	_, closed := r.Closed()
	return r.verified && !closed && r.Port.Protocol == registry.TCP && r.Service.Dialled()
}

// Routes are the row's, in order. What goes to a TLS port has to be TLS, and to name the host that it was sent for, if it names
// one.
func (r *ExitRow) Routes() []Route { return r.appendRoutes(nil) }

// Match gives the first of them that takes an attempt; false where none does. own is the host's own name.
func (r *ExitRow) Match(x Attempt, own string) (Route, bool) {
	var room [mostUsual]Route
	return valueOf(FirstMatch(r.appendRoutes(room[:0]), x, own))
}

func (r *ExitRow) appendRoutes(out []Route) []Route {
	routes := r.rowRoutes(out)
	for i := range routes {
		routes[i].Audience = r.audienceOf(routes[i].To)
		if routes[i].Action != Close && routes[i].By == (config.Key{}) {
			routes[i].By, routes[i].Revision = r.Service.SourceOf(r.Port), r.Service.RevisionOf(r.Port)
		}
	}
	return routes
}

func (r *ExitRow) rowRoutes(out []Route) []Route {
	if c, closed := r.Closed(); closed {
		return closedRoutes(c)
	}
	wrong := Route{For: Connections, Action: WrongProtocol}
	switch {
	case r.Port.Protocol.IsHTTP() && !r.led():
		return append(out, wrong, Route{For: Requests})
	case r.Port.Protocol.IsHTTP():
		return append(append(out, wrong), r.requests()...)
	case r.Dials():
		for _, p := range r.Restrictions.Dialled {
			out = append(out, Route{For: Connections, Dialled: p})
		}
		return append(out, Route{For: Connections, Action: WrongAddress}, Route{For: Requests})
	case r.Port.Protocol == registry.TCP && (!r.Service.Wildcard() || !r.verified):
		if user := r.connections(Connections); user != nil {
			return append(user, asRequests(user)...)
		}
		return append(out, Route{For: Connections}, Route{For: Requests})
	case r.Port.Protocol == registry.TCP: // what is not TLS names none of a pattern's hosts
		return append(out, Route{For: TLSConnections}, wrong, Route{For: Requests})
	default:
		if user := r.connections(TLSConnections); user != nil {
			return append(user, wrong, Route{For: Requests, Action: WrongProtocol})
		}
		return append(out, Route{For: TLSConnections}, wrong, Route{For: Requests, Action: WrongProtocol})
	}
}

// audienceOf is who may take a route: who may use the row, and each host that the route leads to.
func (r *ExitRow) audienceOf(to []WeightedDestination) []string {
	out := r.Audience
	for _, t := range to {
		if t.Row == nil || t.Row.Audience == nil || t.Service.Source == r.Service.Source {
			continue
		}
		if out == nil {
			out = t.Row.Audience
			continue
		}
		out = slices.DeleteFunc(slices.Clone(out), func(ns string) bool { return !slices.Contains(t.Row.Audience, ns) })
	}
	return out
}
