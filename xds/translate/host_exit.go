package translate

import (
	"time"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// exitHost is one host's share of a gateway's configuration, or of a forward proxy's: for each port a virtual
// host and a cluster. The registrations are in order of precedence. Those of one namespace count as one: the first that
// has a port gives the cluster, and all of them together say who may use it. Those of several namespaces, and of the
// patterns that cover the host, stay apart, see exitVhost.
func exitHost(host []registration, patterns [][]registration, f exitFor) *part {
	p := &part{}
	for _, r := range host {
		p.secrets = append(p.secrets, r.far.Secrets()...)
	}
	own, all := rowsOf(host, patterns)
	for i, rows := range own {
		for i := range rows {
			p.resources = append(p.resources, rows[i].cluster(f)...)
		}
		vh := exitVhost(all[i], f)
		p.resources = append(p.resources, seal(VirtualHost, vh.Name, vh))
	}
	return p
}

// exitFor is what kind of exit a host is programmed at.
type exitFor struct {
	trust    trusts
	connect  time.Duration // the mesh's connectTimeout
	verified bool          // clients show certificates of the mesh
	onDemand bool
	root     string // namespace
}

func (f exitFor) clusters() Type {
	if f.onDemand {
		return OnDemandCluster
	}
	return Cluster
}

// registration is one of a host, with the rule that an exit follows for it and what it does about its far end.
type registration struct {
	svc  *registry.Service
	rule *registry.Rule
	far  registry.FarEnd
}

func (r *exitRow) routes(f exitFor) []*routev3.Route {
	routes := append(r.answers(f), r.ways(f)...)
	revise(routes, r.svc.RevisionOf(r.port))
	if r.closed == nil && r.mayComeBack(f) {
		return countHops(routes)
	}
	return routes
}

func (r *exitRow) ways(f exitFor) []*routev3.Route {
	switch {
	case r.closed != nil:
		return closedRoutes(*r.closed, true)
	case r.port.Protocol.IsHTTP():
		return []*routev3.Route{
			refuse(wrongProtocolRoute, anyTunnel(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as plain HTTP: send it requests, not CONNECT\n", nil),
			r.requests(),
		}
	case r.dials(f):
		return append(r.dialledRoutes(), r.requests())
	case r.port.Protocol == registry.TCP:
		return []*routev3.Route{tunnelRoute(r.svc, r.port, r.name), r.requests()}
	default:
		return []*routev3.Route{
			tunnelRoute(r.svc, r.port, r.name),
			refuse(wrongProtocolRoute, anyRequest(), 403, "sallyport: %REQ(:AUTHORITY)% is registered as "+string(r.port.Protocol)+": plain HTTP does not go there\n", nil),
		}
	}
}

// answers are the answers to questions about tunnels, of which gateways take plain ones. Whoever asks gets one of them, and
// so never gets to the routes of requests.
func (r *exitRow) answers(f exitFor) []*routev3.Route {
	if !f.verified {
		return nil
	}
	denied := nothing(accesslog.NotExportedRoute, configOf(r.svc.SourceOf(r.port)), r.svc.RevisionOf(r.port)).row(asksAbout(""))
	if r.audience != nil && len(r.audience) == 0 {
		return []*routev3.Route{denied}
	}
	rows := r.audienceAnswers(f)
	if r.audience == nil {
		return rows
	}
	for _, row := range rows {
		row.Match.FilterState = append(row.Match.FilterState, cameFrom(r.audience, f.trust))
	}
	return append(rows, denied)
}

// audienceAnswers are the answers for whom the row is exported to.
func (r *exitRow) audienceAnswers(f exitFor) []*routev3.Route {
	wrong := nothing(wrongProtocolRoute, configOf(r.svc.SourceOf(r.port)), r.svc.RevisionOf(r.port)).row(asksAbout(""))
	a := answer{route: "default", cluster: r.name, revision: r.svc.RevisionOf(r.port)}
	if r.svc.Wildcard() {
		a = inPatterns(inside{tls: r.port.Protocol == registry.TLS, wildcard: true}.name(), r.name, r.svc, r.port)
	}
	switch {
	case r.closed != nil:
		return []*routev3.Route{closedAnswer(*r.closed)}
	case r.port.Protocol.IsHTTP():
		return []*routev3.Route{wrong}
	case r.dials(f):
		return r.dialledAnswers()
	case r.port.Protocol == registry.TCP && !r.svc.Wildcard():
		return []*routev3.Route{a.row(asksAbout(""))}
	default:
		return []*routev3.Route{a.row(asksAbout(kindTLS)), wrong}
	}
}

func (r *exitRow) requests() *routev3.Route {
	svc, port := r.svc, r.port
	action := hashed(retried(r.name), r.rule.TrafficFor(port.Number))
	if port.Number == 80 || port.Number == 443 {
		// "external.com:443" is for the table; the server knows itself as "external.com"
		if !svc.Wildcard() {
			action.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: svc.Host}
		}
	}
	return through(dialled(route("default", anyRequest(), action), svc, port.TargetPort), translations(port)...)
}

// tunnelRoute ends a CONNECT and hands its bytes, with what the checks behind need to know, to the listener for
// what the port speaks.
func tunnelRoute(svc *registry.Service, port registry.Port, cluster string, more ...*statev3.FilterStateValue) *routev3.Route {
	values := []*statev3.FilterStateValue{
		state(stateAuthority, "%REQ(:AUTHORITY)%", once),
		state(statePeer, "%DOWNSTREAM_PEER_URI_SAN%", once),
		state(stateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", once),
		state(stateCluster, cluster, once),
	}
	inner := inside{tls: port.Protocol == registry.TLS, wildcard: svc.Wildcard()}
	if svc.Wildcard() {
		values = append(values, state(statePort, routeName(port.TargetPort), once))
	}
	return withState(route("default", anyTunnel(), ended(inner.name())), append(values, more...)...)
}

// audience is who may use a host's port: nil for everybody, else the namespaces that it is exported to.
func audience(list []*registry.Service, port uint32) []string {
	var out []string
	for _, svc := range list {
		if _, ok := svc.Port(port); !ok {
			continue
		}
		if svc.ExportTo.All {
			return nil
		}
		out = append(out, svc.ExportTo.Namespaces...)
	}
	if out == nil {
		return []string{}
	}
	return out
}

// restricted lets only workloads of these namespaces in, by the identity that their certificate proves; nil namespaces
// are everybody.
func restricted(namespaces []string, trust trusts) map[string]*anypb.Any {
	if namespaces == nil {
		return nil
	}
	policy := &rbacv3.Policy{Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}}}
	for _, ns := range namespaces {
		for _, accounts := range trust.account(ns, "") {
			policy.Principals = append(policy.Principals, &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
				Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: prefix(accounts)},
			}})
		}
	}
	rules := &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW}
	if len(policy.Principals) > 0 {
		rules.Policies = map[string]*rbacv3.Policy{"exported": policy}
	}
	return map[string]*anypb.Any{filterAccess: packed(&httprbacv3.RBACPerRoute{Rbac: &httprbacv3.RBAC{Rules: rules}})}
}
