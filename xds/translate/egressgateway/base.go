package egressgateway

import (
	"net/netip"
	"slices"
	"time"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	sslv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"
	celv1 "google.golang.org/genproto/googleapis/api/expr/v1alpha1"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/farend"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
)

// Resources are everything of a gateway, or a forward proxy, that is not about single hosts.
func (in Inputs) Resources() []*resource.Resource {
	return slices.Concat(farend.SealSecrets(in.Secrets), base(in), []*resource.Resource{part.SealDNSDefaults(in.DNSDefaults)})
}

// Inputs is what a gateway's base, or a forward proxy's, is made from.
type Inputs struct {
	Verified    bool // it faces the mesh, rather than programs on loopback
	Listen      uint32
	Forward     netip.AddrPort
	Trust       envoy.TrustDomains
	Policy      string
	IPv6        bool
	Hosts       envoy.InlineHosts
	OnDemand    bool
	Ends        bool // its agent takes note of requests that are under way
	DNSDefaults name.Defaults
	Secrets     []farend.Material
	Policies    []string // resources that an index of policies leads to, by name
	Kept        envoy.Enforcement
	Fetch       time.Duration // its rows are given when they are used, and one that is not used any more stays for that long; 0: all are
}

// base is everything of a gateway that is not about single hosts: the listener that faces the mesh, one table,
// and the internal listeners behind CONNECT.
func base(in Inputs) []*resource.Resource {
	front, tls, tcp := wire.GatewayHTTP, wire.GatewayTLS, wire.GatewayTCP
	if !in.Verified {
		front, tls, tcp = wire.ForwardHTTP, wire.ForwardTLS, wire.ForwardTCP
	}
	l := exitListener(in, front)
	hosts := in.table()
	envoy.EnableEnforcement(hosts, in.Kept)
	if !in.Verified {
		forProxyOnly(hosts)
	}
	out := []*resource.Resource{
		envoy.SealCluster(envoy.BlackHole()),
		envoy.Seal(resource.Listener, l.Name, l),
		envoy.Seal(resource.Route, wire.ExitRoute, hosts),
	}
	out = append(out, envoy.PlaceholderRow(wire.ExitRoute, in.Hosts)...)
	if in.Verified {
		out = append(out, in.tunnelsBase()...)
	} else {
		out = append(out, answersBase(envoy.AskedOfForward)...)
	}
	if len(in.Policies) > 0 {
		out = append(out, envoy.HoldPolicies(in.Policies))
	}
	for _, i := range []innerListener{{tls: true}, {tls: true, wildcard: true}, {}, {wildcard: true}} {
		log := tcp
		if i.tls {
			log = tls
		}
		out = append(out, envoy.SealCluster(envoy.InternalCluster(i.name())), envoy.Seal(resource.Listener, i.name(), i.listener(log, in.OnDemand)))
	}
	return out
}

// forProxyOnly takes out what a client says to its proxy, and what only a proxy may say to it (RFC 9110 sections 7.6.1 and 11.7).
func forProxyOnly(r *routev3.RouteConfiguration) {
	r.RequestHeadersToRemove = append(r.RequestHeadersToRemove, "proxy-authorization", "proxy-connection")
	r.ResponseHeadersToRemove = append(r.ResponseHeadersToRemove, "proxy-authenticate", "proxy-authentication-info", "proxy-connection")
}

// exitListener is where clients come in: sidecars over mTLS, or, at a forward proxy, programs on loopback.
func exitListener(in Inputs, log wire.Place) *listenerv3.Listener {
	m := envoy.HCM{Stat: "egress", Route: wire.ExitRoute, Log: log, Connect: true, Exit: true, Gateway: in.Verified, OnDemand: in.OnDemand, Ends: in.Ends, Fetch: in.Fetch > 0}
	front := envoy.FilterChain("egress", nil, m.Filter())
	if !in.Verified {
		return envoy.WithFirstByteTimeout(&listenerv3.Listener{
			Name:             "forward-proxy",
			Address:          envoy.TCPAddress(in.Forward.Addr().String(), uint32(in.Forward.Port())),
			ListenerFilters:  []*listenerv3.ListenerFilter{envoy.InspectHTTP()},
			FilterChains:     []*listenerv3.FilterChain{front},
			TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		})
	}
	front.Filters = append([]*listenerv3.Filter{oneName(), envoy.ClientFilter()}, front.Filters...)
	front.TransportSocket = envoy.MeshServerTLS(in.Trust, "h2", envoy.HTTP11)
	envoy.WithHandshakeTimeout(front)
	return envoy.BindAll(&listenerv3.Listener{
		Name: "0.0.0.0_" + wire.RouteName(in.Listen),
		// what a connection is for it says in its ClientHello
		ListenerFilters:        []*listenerv3.ListenerFilter{envoy.InspectTLS()},
		ListenerFiltersTimeout: durationpb.New(envoy.HelloPatience),
		FilterChains:           []*listenerv3.FilterChain{tunnelChain(in.Trust, wire.ALPNTLS), tunnelChain(in.Trust, wire.ALPNTCP), front},
		TrafficDirection:       corev3.TrafficDirection_OUTBOUND,
	}, in.Listen, in.IPv6)
}

// table is the gateway's one table.
func (in Inputs) table() *routev3.RouteConfiguration {
	last := refuseAll(in.Policy)
	if in.Fetch == 0 {
		return envoy.RouteTable(wire.ExitRoute, last, in.Hosts, false)
	}
	return envoy.StripFetchHeaders(envoy.MarkFetchedOnUse(envoy.RouteTable(wire.ExitRoute, envoy.FetchAtExit(last, wire.ExitRoute), in.Hosts, false), in.Fetch, false))
}

// refuseAll answers for every host that is not in the table.
func refuseAll(policy string) *routev3.VirtualHost {
	revision := envoy.UnregisteredRevision(policy, false)
	return &routev3.VirtualHost{Name: wire.BlockAllRoute, Domains: []string{"*"}, Routes: []*routev3.Route{
		envoy.ClosedAnswer(wire.BlockAllRoute, policy, revision).Row(envoy.MatchQuestion("")),
		envoy.WithState(envoy.WithRevision(envoy.Refuse(wire.BlockAllRoute, envoy.MatchAnyTunnel(), 403, farend.NotRegistered, envoy.DecidedByMetadata(policy)), revision), envoy.State(wire.StateSpoken, envoy.KindTCP, envoy.NotShared)),
		envoy.WithRevision(envoy.Refuse(wire.BlockAllRoute, envoy.MatchAnyRequest(), 403, farend.NotRegistered, envoy.DecidedByMetadata(policy)), revision),
	}}
}

// innerListener is what a gateway does with the bytes of a CONNECT. There is an internal listener for each kind.
type innerListener struct {
	tls      bool // the port is a TLS one
	wildcard bool // the host is one of a wildcard: its name has to be looked up
}

func (i innerListener) name() string {
	name := "egress-tcp"
	if i.tls {
		name = "egress-tls"
	}
	if i.wildcard {
		name += "-any"
	}
	return name
}

// listener passes the bytes on to the cluster that the CONNECT's route named. On a TLS port they must be TLS, and
// the ClientHello must name the host that was asked for. Elsewhere nothing can be read, since the server may speak
// first, and the name is the one that was asked for.
func (i innerListener) listener(log wire.Place, onDemand bool) *listenerv3.Listener {
	out := envoy.TCPProxy{Stat: i.name(), Cluster: wire.BlackHoleCluster, Log: log, OnDemand: onDemand, Begins: log == wire.ForwardTLS || log == wire.ForwardTCP}
	where := []*listenerv3.Filter{envoy.SetFilterState(envoy.State(wire.StateTCPCluster, "%FILTER_STATE("+wire.StateCluster+":PLAIN)%", envoy.NotShared))}
	if i.wildcard {
		where, out.Tags = envoy.ResolveFilters(), map[string]string{wire.TagRules: envoy.TagFormats[wire.TagRules]}
		out.Begins = out.Begins || i.tls && log == wire.GatewayTLS // a tunnel may lead here
	}
	where = append(where, out.Filter())
	if !i.tls {
		return envoy.InternalListener(i.name(), nil, envoy.FilterChain("tcp", nil, where...))
	}
	filters := append([]*listenerv3.Filter{sameName(i.wildcard)}, where...)
	l := envoy.InternalListener(i.name(), []*listenerv3.ListenerFilter{envoy.InspectTLS()}, envoy.FilterChain("tls", envoy.MatchTLS(), filters...))
	l.DefaultFilterChain = envoy.FilterChain("not-tls", nil, envoy.TCPProxy{
		Stat: i.name(), Cluster: wire.BlackHoleCluster, Log: log, Tags: map[string]string{wire.TagPolicy: "%FILTER_STATE(" + wire.StateConfig + ":PLAIN)%"},
	}.Filter())
	return envoy.WithFirstByteTimeout(l)
}

// sameName closes connections whose SNI is not the host of the CONNECT that they are in, which may be in upper case:
// string(filter_state["sallyport.authority"]).lowerAscii().startsWith(connection.requested_server_name + ":"). A ClientHello
// without a name claims nothing that could be held against the host, and leads to the host's own address all the same;
// but of a wildcard's hosts nothing else says which one it is (docs/adr/0015-by-address.md).
func sameName(wildcard bool) *listenerv3.Filter {
	return envoy.NetworkFilter("envoy.filters.network.rbac", &netrbacv3.RBAC{StatPrefix: "egress_sni_", Rules: sameNameRules(wildcard)})
}

func sameNameRules(wildcard bool) *rbacv3.RBAC {
	sni := &celv1.Expr{ExprKind: &celv1.Expr_SelectExpr{SelectExpr: &celv1.Expr_Select{Operand: ident("connection"), Field: "requested_server_name"}}}
	authority := call("string", nil, call("_[_]", nil, ident("filter_state"), constant(wire.StateAuthority)))
	same := call("startsWith", call("lowerAscii", authority), call("_+_", nil, sni, constant(":")))
	if !wildcard {
		same = call("_||_", nil, call("_==_", nil, sni, constant("")), same)
	}
	return &rbacv3.RBAC{Action: rbacv3.RBAC_ALLOW, Policies: map[string]*rbacv3.Policy{"same-name": {
		Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_Any{Any: true}}},
		Principals:  []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
		CelConfig:   &corev3.CelExpressionConfig{EnableStringConcat: true, EnableStringConversion: true, EnableStringFunctions: true},
		Condition:   same,
	}}}
}

func ident(name string) *celv1.Expr {
	return &celv1.Expr{ExprKind: &celv1.Expr_IdentExpr{IdentExpr: &celv1.Expr_Ident{Name: name}}}
}

func constant(s string) *celv1.Expr {
	return &celv1.Expr{ExprKind: &celv1.Expr_ConstExpr{ConstExpr: &celv1.Constant{ConstantKind: &celv1.Constant_StringValue{StringValue: s}}}}
}

func call(function string, target *celv1.Expr, args ...*celv1.Expr) *celv1.Expr {
	return &celv1.Expr{ExprKind: &celv1.Expr_CallExpr{CallExpr: &celv1.Expr_Call{Function: function, Target: target, Args: args}}}
}

// oneName closes connections whose client's certificate has several URI names. Who may use a host is asked of any of them,
// and the log could not tell whose the connection is. Envoy joins the names by commas, which are in no SPIFFE id of ours.
func oneName() *listenerv3.Filter {
	several := &cncfmatcherv3.Matcher_MatcherList_Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{
		SinglePredicate: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
			Input: &cncfcorev3.TypedExtensionConfig{Name: "envoy.matching.inputs.uri_san", TypedConfig: envoy.ToAny(&sslv3.UriSanInput{})},
			Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: &cncfmatcherv3.StringMatcher{
				MatchPattern: &cncfmatcherv3.StringMatcher_Contains{Contains: ","},
			}},
		},
	}}
	return envoy.NetworkFilter("envoy.filters.network.rbac", &netrbacv3.RBAC{
		StatPrefix: "egress_names_",
		Matcher: &cncfmatcherv3.Matcher{
			MatcherType: &cncfmatcherv3.Matcher_MatcherList_{MatcherList: &cncfmatcherv3.Matcher_MatcherList{
				Matchers: []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{{Predicate: several, OnMatch: verdict("several-names", rbacv3.RBAC_DENY)}},
			}},
			OnNoMatch: verdict("one-name", rbacv3.RBAC_ALLOW),
		},
	})
}

func verdict(name string, action rbacv3.RBAC_Action) *cncfmatcherv3.Matcher_OnMatch {
	return &cncfmatcherv3.Matcher_OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Action{Action: &cncfcorev3.TypedExtensionConfig{
		Name: name, TypedConfig: envoy.ToAny(&rbacv3.Action{Name: name, Action: action}),
	}}}
}
