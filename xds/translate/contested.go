package translate

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// headerRegisteredIn tells a gateway which namespace's registration of a host a sidecar follows, where several
// namespaces registered it. It is no order (see orders) and no proof of anything: each registration's routes let in
// whom it is exported to.
const headerRegisteredIn = "sallyport-registered-in"

// exitRow is one namespace's registration of a host's port at an exit.
type exitRow struct {
	svc      *registry.Service
	port     registry.Port // its target is where the exit connects to
	tls      *registry.TLSSettings
	rule     *registry.Rule
	far      registry.FarEnd
	closed   *registry.Closed // nothing is sent
	name     string           // of the cluster
	audience []string         // see restricted
}

// rowsOf gives, for each port of a host, the registrations that have it, one a namespace, in order of precedence. The
// first has the cluster name that users know, the others have their namespace for a subset in it.
func rowsOf(list []registration) [][]exitRow {
	ports := map[uint32][]exitRow{}
	for _, reg := range list {
		svc := reg.svc
		if svc.Wildcard() && isLocal(svc.Host) {
			continue
		}
		for _, port := range svc.Ports {
			rows := ports[port.Number]
			taken := slices.ContainsFunc(rows, func(r exitRow) bool { return r.svc.Namespace == svc.Namespace })
			if taken || port.Protocol == registry.UDP {
				continue
			}
			row := exitRow{svc: svc, rule: reg.rule, far: reg.far, port: port, name: ClusterName(port.Number, svc.Host), audience: audience(inNamespace(list, svc.Namespace), port.Number)}
			row.tls, row.port.TargetPort = registry.Origination(svc, port, reg.rule)
			if c, closed := reg.far.Closed[port.Number]; closed {
				row.closed = &c
			}
			if len(rows) > 0 {
				row.name = subsetName(port.Number, svc.Namespace, svc.Host)
			}
			ports[port.Number] = append(rows, row)
		}
	}
	out := make([][]exitRow, 0, len(ports))
	for _, number := range slices.Sorted(maps.Keys(ports)) {
		out = append(out, ports[number])
	}
	return out
}

func inNamespace(list []registration, ns string) (out []*registry.Service) {
	for _, r := range list {
		if r.svc.Namespace == ns {
			out = append(out, r.svc)
		}
	}
	return out
}

func (r *exitRow) cluster(f exitFor) []*Resource {
	if r.closed != nil {
		return nil
	}
	md := metadata(accesslog.RoleExternal, configOf(r.svc.SourceOf(r.port)))
	to := towards{tls: r.tls, given: r.far.Given[r.port.Number], connect: r.rule.ConnectTimeoutFor(r.port.Number, f.connect)}
	out := endCluster(f.clusters(), r.name, asOutside(r.svc, r.far), r.port, to, md)
	if r.dials(f) {
		out = append(out, r.dialledCluster(f))
	}
	return out
}

// exitVhost is a host's port in the gateway's table. The name that a client asked for is the name that is used:
// requests by their Host, tunnels by the authority, which the listener behind checks against what is said inside.
//
// Where several namespaces registered the host, what one says leads nobody else anywhere: a sidecar names the
// registration that its workload sees, and gets there if it is exported to the workload; who names none gets to the
// first, on the same terms.
func exitVhost(rows []exitRow, f exitFor) *routev3.VirtualHost {
	first := &rows[0]
	authority := hostPort(first.svc.Host, first.port.Number)
	vh := &routev3.VirtualHost{Name: vhostName(ExitRoute, authority), Domains: []string{authority}}
	if slices.ContainsFunc(rows, func(r exitRow) bool { return r.port.Protocol.IsHTTP() && r.port.Number == 80 }) {
		vh.Domains = append(vh.Domains, first.svc.Host)
	}
	if len(rows) == 1 {
		vh.Routes, vh.TypedPerFilterConfig = first.routes(f), first.access(f)
		return vh
	}
	for i := range rows {
		for _, r := range rows[i].guarded(f) {
			r.Match.Headers = append(r.Match.Headers, &routev3.HeaderMatcher{Name: headerRegisteredIn, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
				StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: rows[i].svc.Namespace}},
			}})
			vh.Routes = append(vh.Routes, r)
		}
	}
	vh.Routes = append(vh.Routes, first.guarded(f)...)
	return vh
}

// guarded are the routes of a row, each for its audience.
func (r *exitRow) guarded(f exitFor) []*routev3.Route {
	routes := r.routes(f)
	for _, route := range routes {
		if access := r.access(f); route.TypedPerFilterConfig == nil {
			route.TypedPerFilterConfig = access
		} else {
			maps.Copy(route.TypedPerFilterConfig, access)
		}
	}
	return routes
}

// access lets the row's audience in, where clients are known.
func (r *exitRow) access(f exitFor) map[string]*anypb.Any {
	if !f.verified {
		return nil
	}
	return restricted(r.audience, f.trust)
}

// contested says whether several namespaces registered a host that leaves by the same gateway.
func contested(list []*registry.Service, svc *registry.Service) bool {
	return slices.ContainsFunc(list, func(o *registry.Service) bool {
		return o.External && o.Exit == svc.Exit && o.Namespace != svc.Namespace
	})
}

// named tells the gateway whose registration is meant.
func named(r *routev3.Route, svc *registry.Service) *routev3.Route {
	r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: headerRegisteredIn, Value: svc.Namespace},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	})
	return r
}
