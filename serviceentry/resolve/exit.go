package resolve

import (
	"slices"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Exit is a proxy by which others leave: an egress gateway, or the forward proxy of `sallyport up`.
type Exit struct {
	snap      *registry.Snapshot
	gateway   registry.Ref // zero at a forward proxy
	connector registry.Connector
	near      registry.ClientLocation
}

// At is the exit where that is.
func (e Exit) At(near registry.ClientLocation) Exit {
	e.near = near
	return e
}

// GatewayOf is the exit that a Service's pods are; of the zero Ref nothing leaves.
func GatewayOf(s *registry.Snapshot, ref registry.Ref, secrets registry.SecretAccess) Exit {
	return Exit{snap: s, gateway: ref, connector: registry.Connector{Kind: registry.AtGateway, Namespace: ref.Namespace, Secrets: secrets}}
}

// ForwardProxy is that of `sallyport up`. It acts for a namespace, whoever its client is.
func ForwardProxy(s *registry.Snapshot, namespace string, secrets registry.SecretAccess) Exit {
	return Exit{snap: s, connector: registry.Connector{Kind: registry.AtForward, Namespace: namespace, Secrets: secrets}}
}

// ExitEndpoints are an egress gateway's pods, and the port at which they take what leaves.
type ExitEndpoints struct {
	By        config.Key // the object that says so
	Port      registry.Port
	Endpoints []registry.Endpoint
}

// ExitAt are those of an egress gateway, in all networks and clusters; none where it is not there.
func ExitAt(s *registry.Snapshot, ref registry.Ref) ExitEndpoints {
	svc := s.GatewayService(ref)
	if svc == nil {
		return ExitEndpoints{}
	}
	port, ok := svc.Port(registry.GatewayPort)
	if !ok {
		return ExitEndpoints{}
	}
	if !port.Explicit {
		port.TargetPort = registry.DefaultTunnelPort
	}
	return ExitEndpoints{svc.SourceOf(port), port, s.EndpointsOf(svc)}
}

// verified says whether clients prove who they are.
func (e Exit) verified() bool { return e.connector.Kind == registry.AtGateway }

// ExitHost is everything that what happens to a host at an exit depends on. Equal values mean that the same happens.
type ExitHost struct {
	// Own are the host's registrations that leave there, in order of precedence, and Patterns those of patterns that cover it,
	// the longest first, where not all of them are of one namespace.
	Own      []Registration
	Patterns [][]Registration
	Verified bool                    // clients show certificates of the mesh
	Connect  time.Duration           // the mesh's connectTimeout
	Root     string                  // namespace
	Near     registry.ClientLocation // from where it is connected to
}

// Registration is one of a host, with the DestinationRule that an exit follows for it and what it does about its far end.
type Registration struct {
	Service       *registry.Service
	Rule          *registry.DestinationRule
	Restrictions  registry.UpstreamRestrictions
	GatewayRoutes []GatewayRoutes // what users' VirtualServices make of it there
}

// Host gathers what counts for a host; false where none of its registrations leaves here.
func (e Exit) Host(host string) (ExitHost, bool) {
	own := e.registrations(e.leaving(host))
	if len(own) == 0 {
		return ExitHost{}, false
	}
	var ends []registry.ServiceAndRule
	for _, r := range own {
		ends = append(ends, registry.ServiceAndRule{Service: r.Service, Rule: r.Rule})
		for _, b := range r.GatewayRoutes {
			for _, to := range b.Ends {
				ends = append(ends, registry.ServiceAndRule{Service: to.Service, Rule: to.Rule})
			}
		}
	}
	return ExitHost{
		Near: e.near.For(ends...),
		Own:  own, Patterns: e.covering(own), Verified: e.verified(),
		Connect: e.snap.Mesh.ConnectTimeout, Root: e.snap.Mesh.RootNamespace,
	}, true
}

// leaving picks the registrations that leave by the exit: those attached to the gateway, or, at a forward proxy, the one
// that its namespace sees.
func (e Exit) leaving(host string) []*registry.Service {
	if e.verified() {
		return e.attached(e.snap.Services(host))
	}
	if svc := e.snap.LeavingFor(host, e.connector.Namespace); svc != nil && svc.External {
		return []*registry.Service{svc.WithoutRoutes()} // which count at egress gateways
	}
	return nil
}

// attached picks the registrations that leave by a gateway.
func (e Exit) attached(list []*registry.Service) (out []*registry.Service) {
	if e.gateway.IsZero() {
		return nil
	}
	if !slices.ContainsFunc(list, func(svc *registry.Service) bool { return !svc.External || svc.Exit != e.gateway }) {
		return list // mostly
	}
	for _, svc := range list {
		switch {
		case !svc.External:
		case svc.Exit == e.gateway:
			out = append(out, svc)
		case e.snap.LedBy(svc, e.gateway):
			out = append(out, e.snap.Via(svc, e.gateway))
		}
	}
	return out
}

// covering gives the patterns that cover a host and leave by the same gateway, where other namespaces than the host's
// one registered them.
func (e Exit) covering(own []Registration) (out [][]Registration) {
	if !e.verified() {
		return nil // it asks for one namespace
	}
	one := own[0].Service.Namespace
	apart := slices.ContainsFunc(own, func(r Registration) bool { return r.Service.Namespace != one })
	patterns := e.snap.Patterns(own[0].Service.Host)
	for i := range patterns {
		patterns[i] = e.attached(patterns[i])
		apart = apart || slices.ContainsFunc(patterns[i], func(svc *registry.Service) bool { return svc.Namespace != one })
	}
	if !apart {
		return nil
	}
	for _, list := range patterns {
		if len(list) > 0 {
			out = append(out, e.registrations(list))
		}
	}
	return out
}

func (e Exit) registrations(list []*registry.Service) []Registration {
	out := make([]Registration, len(list))
	for i, svc := range list {
		out[i] = e.registration(svc)
	}
	return out
}

func (e Exit) registration(svc *registry.Service) Registration {
	r := e.plain(svc)
	r.GatewayRoutes = e.bound(svc)
	return r
}

// plain is a registration as it is without VirtualServices.
func (e Exit) plain(svc *registry.Service) Registration {
	r := Registration{Service: svc}
	if e.verified() {
		r.Rule = e.snap.ExitRule(svc)
	} else {
		r.Rule = e.snap.Rule(svc, svc.Namespace, "")
	}
	r.Restrictions = e.snap.UpstreamRestrictions(svc, r.Rule, e.connector)
	return r
}

// Row gives the row that a client of a namespace gets who asks for a name, and means a namespace's registration ("" for none):
// the exact host's, or the longest pattern's. nil where there is none.
func (e Exit) Row(name string, port uint32, ns, meaning string) *ExitRow {
	if row, has := e.rowOf(name, port, ns, meaning); has {
		return row
	}
	for _, list := range e.snap.Patterns(name) {
		if row, has := e.rowOf(list[0].Host, port, ns, meaning); has {
			return row
		}
	}
	return nil
}

// rowOf is Row of exactly a host, or a pattern; false where that has no row for the port.
func (e Exit) rowOf(host string, port uint32, ns, meaning string) (*ExitRow, bool) {
	own := e.registrations(e.leaving(host))
	if len(own) == 0 {
		return nil, false
	}
	rows := rowsAt(own, port, e.verified())
	if len(rows) == 0 {
		return nil, false
	}
	rows = withPatterns(rows, e.covering(own), port, e.verified())
	if len(rows) == 1 && len(rows[0].bounds) == 0 {
		return rows[0], true // everybody's
	}
	return choose(withBound(choices(rows, e.snap.Mesh.RootNamespace)), ns, meaning), true
}

// Besides is the destination that an exit asks policies about besides the host and port that a request is for, where it goes to t: t
// itself, if that is another one, and else where it is mirrored to; nil where there is nothing else.
func (r *Route) Besides(t *WeightedDestination, host string, port uint32) *WeightedDestination {
	if t.elsewhere(host, port) {
		return t
	}
	if i := slices.IndexFunc(r.Mirrors, func(m WeightedDestination) bool { return m.elsewhere(host, port) }); i >= 0 {
		return &r.Mirrors[i]
	}
	return nil
}

// elsewhere says whether something goes to t that is not for it.
func (t *WeightedDestination) elsewhere(host string, port uint32) bool {
	return t.Closed == nil && t.Service != nil && (t.Service.Host != host || t.Port.Number != port)
}

// mirrorOne closes mirrors that policies could not be asked about: an exit asks about one destination besides.
func (r *Route) mirrorOne(host string, port uint32) {
	led := slices.ContainsFunc(r.To, func(t WeightedDestination) bool { return t.elsewhere(host, port) })
	var one *WeightedDestination
	for i := range r.Mirrors {
		m := &r.Mirrors[i]
		switch {
		case !m.elsewhere(host, port):
		case !led && (one == nil || one.Service.Host == m.Service.Host && one.Port.Number == m.Port.Number):
			one = m
		default:
			m.Closed = &registry.ClosedPort{
				By: r.By, Revision: r.Revision, Why: "mirrors: an egress gateway asks policies about one other destination for a request, and " + m.Service.Host + " would be another",
				Fix: "mirror to the host that the request goes to, or lead it to no other",
			}
		}
	}
}
