package translate

import (
	"maps"
	"regexp"
	"slices"
	"strings"

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

// rowsAt gives, for each port of a host, or of a pattern, the registrations that have it, one a namespace, in order of
// age. The first has the cluster name that users know, the others have their namespace for a subset in it.
func rowsAt(list []registration) map[uint32][]exitRow {
	ports := map[uint32][]exitRow{}
	for _, reg := range list {
		svc := reg.svc
		if svc.Wildcard() && isLocal(svc.Host) {
			continue
		}
		for _, port := range svc.Ports {
			rows := ports[port.Number]
			if port.Protocol == registry.UDP || registeredIn(rows, svc.Namespace) {
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
	return ports
}

func registeredIn(rows []exitRow, ns string) bool {
	return slices.ContainsFunc(rows, func(r exitRow) bool { return r.svc.Namespace == ns })
}

// rowsOf gives, for each port of a host, its rows and those of the patterns of other namespaces that cover it, which are
// given from the longest to the shortest: whoever may not use the host, or has a pattern of its own, goes by those.
func rowsOf(host []registration, patterns [][]registration) (own, all [][]exitRow) {
	ports := rowsAt(host)
	var over []map[uint32][]exitRow
	for _, p := range patterns {
		over = append(over, rowsAt(p))
	}
	for _, number := range slices.Sorted(maps.Keys(ports)) {
		rows := ports[number]
		own = append(own, rows)
		rows = slices.Clone(rows)
		for _, p := range over {
			for _, row := range p[number] {
				if !registeredIn(rows, row.svc.Namespace) {
					rows = append(rows, row)
				}
			}
		}
		all = append(all, rows)
	}
	return own, all
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
	md := reviseOpaque(metadata(accesslog.RoleExternal, configOf(r.svc.SourceOf(r.port))), r.svc, r.port)
	to := towards{tls: r.tls, given: r.far.Given[r.port.Number], connect: r.rule.ConnectTimeoutFor(r.port.Number, f.connect), traffic: r.rule.TrafficFor(r.port.Number)}
	out := endCluster(f.clusters(), r.name, asOutside(r.svc, r.far), r.port, to, md)
	if r.dials(f) {
		out = append(out, r.dialledCluster(f))
	}
	return out
}

// exitVhost is a host's port in the gateway's table. The name that a client asked for is the name that is used:
// requests by their Host, tunnels by the authority, which the listener behind checks against what is said inside.
//
// Where several namespaces registered the host, or patterns that cover it, what one says leads nobody else anywhere. A
// client goes where its own namespace says, as its certificate names it; else where the root namespace says; else where the
// first says of those that are exported to it: the registry's order (registry/govern.go). A sidecar whose Sidecar object
// narrows what its workload sees names the registration that is left, and gets there if it is exported to it.
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
		for _, r := range rows[i].guarded(f, rows[i].audience) {
			r.Match.Headers = append(r.Match.Headers, &routev3.HeaderMatcher{Name: headerRegisteredIn, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{
				StringMatch: exact(rows[i].svc.Namespace),
			}})
			vh.Routes = append(vh.Routes, r)
		}
	}
	for i := range rows {
		if r := &rows[i]; r.audience == nil || slices.Contains(r.audience, r.svc.Namespace) {
			vh.Routes = append(vh.Routes, r.guarded(f, []string{r.svc.Namespace})...)
		}
	}
	for _, r := range rootFirst(rows, f.root) {
		if len(r.audience) == 1 && r.audience[0] == r.svc.Namespace {
			continue // they went above
		}
		vh.Routes = append(vh.Routes, r.guarded(f, r.audience)...)
		if r.audience == nil {
			return vh
		}
	}
	vh.Routes = append(vh.Routes, first.guarded(f, nil)...) // it lets nobody in who comes here, and says so
	return vh
}

// rootFirst puts the root namespace's rows before the others.
func rootFirst(rows []exitRow, root string) []*exitRow {
	var of, others []*exitRow
	for i := range rows {
		if rows[i].svc.Namespace == root {
			of = append(of, &rows[i])
		} else {
			others = append(others, &rows[i])
		}
	}
	return append(of, others...)
}

// guarded are the routes of a row, each for its audience, that clients of these namespaces take; nil is everybody.
func (r *exitRow) guarded(f exitFor, namespaces []string) []*routev3.Route {
	if namespaces != nil && len(namespaces) == 0 {
		return nil
	}
	routes := r.routes(f)
	for _, route := range routes {
		if access := r.access(f); IsAnswer(route) {
			// it knows whom it is for
		} else if route.TypedPerFilterConfig == nil {
			route.TypedPerFilterConfig = access
		} else {
			maps.Copy(route.TypedPerFilterConfig, access)
		}
		if namespaces != nil {
			route.Match.FilterState = append(route.Match.FilterState, cameFrom(namespaces, f.trust))
		}
	}
	return routes
}

// cameFrom matches clients whose certificates name one of these namespaces.
func cameFrom(namespaces []string, trust trusts) *matcherv3.FilterStateMatcher {
	var all []string
	for _, ns := range namespaces {
		all = append(all, trust.account(ns, "")...)
	}
	m := prefix(all[0])
	if len(all) > 1 {
		for i, p := range all {
			all[i] = regexp.QuoteMeta(p)
		}
		m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: &matcherv3.RegexMatcher{Regex: "(" + strings.Join(all, "|") + ").*"}}}
	}
	return &matcherv3.FilterStateMatcher{Key: stateClient, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: m}}
}

// access lets the row's audience in, where clients are known.
func (r *exitRow) access(f exitFor) map[string]*anypb.Any {
	if !f.verified {
		return nil
	}
	return restricted(r.audience, f.trust)
}

// contested says whether several namespaces registered a host, or patterns that cover it, to leave by the same gateway.
func contested(s *registry.Snapshot, svc *registry.Service) bool {
	other := func(o *registry.Service) bool {
		return o.External && o.Exit == svc.Exit && o.Namespace != svc.Namespace
	}
	if slices.ContainsFunc(s.Services(svc.Host), other) {
		return true
	}
	return slices.ContainsFunc(s.Patterns(svc.Host), func(list []*registry.Service) bool { return slices.ContainsFunc(list, other) })
}

// named tells the gateway whose registration is meant.
func named(r *routev3.Route, svc *registry.Service) *routev3.Route {
	r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: headerRegisteredIn, Value: svc.Namespace},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	})
	return r
}
