package translate

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	netstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/set_filter_state/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	celv1 "google.golang.org/genproto/googleapis/api/expr/v1alpha1"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// exitInputs is what a gateway's base, or a forward proxy's, is made from.
type exitInputs struct {
	kind     Kind
	listen   uint32
	forward  netip.AddrPort
	trust    trusts
	policy   string
	ipv6     bool
	hosts    inline
	onDemand bool
	rest     name.Rest
	secrets  []material
}

// exitBase is everything of a gateway that is not about single hosts: the listener that faces the mesh, one table,
// and the internal listeners behind CONNECT.
func exitBase(in exitInputs) []*Resource {
	front, tls, tcp := accesslog.GatewayHTTP, accesslog.GatewayTLS, accesslog.GatewayTCP
	if in.kind == Forward {
		front, tls, tcp = accesslog.ForwardHTTP, accesslog.ForwardTLS, accesslog.ForwardTCP
	}
	l := exitListener(in, front)
	hosts := table(ExitRoute, refuseAll(in.policy), in.hosts, false)
	if in.kind == Forward {
		forProxyOnly(hosts)
	}
	out := []*Resource{
		sealCluster(nowhere()),
		seal(Listener, l.Name, l),
		seal(Route, ExitRoute, hosts),
	}
	out = append(out, firstRow(ExitRoute, in.hosts)...)
	if in.kind == Gateway {
		out = append(out, tunnelsBase(in.onDemand)...)
	}
	for _, i := range []inside{{tls: true}, {tls: true, wildcard: true}, {}, {wildcard: true}} {
		log := tcp
		if i.tls {
			log = tls
		}
		out = append(out, sealCluster(internal(i.name())), seal(Listener, i.name(), i.listener(log, in.onDemand)))
	}
	return out
}

// forProxyOnly takes out what a client says to its proxy, and what only a proxy may say to it (RFC 9110 sections 7.6.1 and 11.7).
func forProxyOnly(r *routev3.RouteConfiguration) {
	r.RequestHeadersToRemove = append(r.RequestHeadersToRemove, "proxy-authorization", "proxy-connection")
	r.ResponseHeadersToRemove = append(r.ResponseHeadersToRemove, "proxy-authenticate", "proxy-authentication-info", "proxy-connection")
}

// exitListener is where clients come in: sidecars over mTLS, or, at a forward proxy, programs on loopback.
func exitListener(in exitInputs, log accesslog.Place) *listenerv3.Listener {
	m := manager{stat: "egress", route: ExitRoute, log: log, connect: true, exit: true, gateway: in.kind == Gateway, onDemand: in.onDemand}
	front := chain("egress", nil, m.filter())
	if in.kind == Forward {
		return speakWithin(&listenerv3.Listener{
			Name:             "forward-proxy",
			Address:          tcpAddress(in.forward.Addr().String(), uint32(in.forward.Port())),
			ListenerFilters:  []*listenerv3.ListenerFilter{inspectHTTP()},
			FilterChains:     []*listenerv3.FilterChain{front},
			TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		})
	}
	front.Filters = append([]*listenerv3.Filter{oneName(), knowClient()}, front.Filters...)
	front.TransportSocket = meshServerTLS(in.trust, "h2", http11)
	handshakeWithin(front)
	return at(&listenerv3.Listener{
		Name: "0.0.0.0_" + routeName(in.listen),
		// what a connection is for it says in its ClientHello
		ListenerFilters:        []*listenerv3.ListenerFilter{inspectTLS()},
		ListenerFiltersTimeout: durationpb.New(helloPatience),
		FilterChains:           []*listenerv3.FilterChain{tunnelChain(in.trust, alpnTLS), tunnelChain(in.trust, alpnTCP), front},
		TrafficDirection:       corev3.TrafficDirection_OUTBOUND,
	}, in.listen, in.ipv6)
}

// knowClient keeps, for the routes of a connection's requests, who made it: known once its certificate was verified.
func knowClient() *listenerv3.Filter {
	return networkFilter("envoy.filters.network.set_filter_state", &netstatev3.Config{
		OnDownstreamTlsHandshake: []*statev3.FilterStateValue{state(stateClient, "%DOWNSTREAM_PEER_URI_SAN%", stay)},
	})
}

// refuseAll answers for every host that is not in the table.
func refuseAll(policy string) *routev3.VirtualHost {
	revision := unregisteredRevision(policy, false)
	return &routev3.VirtualHost{Name: blockAllRoute, Domains: []string{"*"}, Routes: []*routev3.Route{
		nothing(blockAllRoute, policy, revision).row(asksAbout("")),
		revise(refuse(blockAllRoute, anyTunnel(), 403, notRegistered, decidedBy(policy)), revision),
		revise(refuse(blockAllRoute, anyRequest(), 403, notRegistered, decidedBy(policy)), revision),
	}}
}

// inside is what a gateway does with the bytes of a CONNECT. There is an internal listener for each kind.
type inside struct {
	tls      bool // the port is a TLS one
	wildcard bool // the host is one of a wildcard: its name has to be looked up
}

func (i inside) name() string {
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
func (i inside) listener(log accesslog.Place, onDemand bool) *listenerv3.Listener {
	out := proxy{stat: i.name(), cluster: blackHoleCluster, log: log, onDemand: onDemand}.filter()
	where := []*listenerv3.Filter{setState(state(stateTCPCluster, "%FILTER_STATE("+stateCluster+":PLAIN)%", stay))}
	if i.wildcard {
		where = lookUp()
	}
	if !i.tls {
		return internalListener(i.name(), nil, chain("tcp", nil, append(where, out)...))
	}
	filters := append([]*listenerv3.Filter{sameName(i.wildcard)}, append(where, out)...)
	l := internalListener(i.name(), []*listenerv3.ListenerFilter{inspectTLS()}, chain("tls", tlsSpoken(), filters...))
	l.DefaultFilterChain = chain("not-tls", nil, out)
	return speakWithin(l)
}

// lookUp resolves the host that was asked for before the connection goes on. It is never the name that the inner
// ClientHello says: that one is checked only when it has come, and no name that is not registered is looked up.
func lookUp() []*listenerv3.Filter {
	return []*listenerv3.Filter{
		setState(
			state(stateTCPCluster, "%FILTER_STATE("+stateCluster+":PLAIN)%", stay),
			state(stateDynamicPort, "%FILTER_STATE("+statePort+":PLAIN)%", stay),
			state(stateDynamicHost, "%FILTER_STATE("+stateAuthority+":PLAIN)%", stay),
		),
		networkFilter("envoy.filters.network.sni_dynamic_forward_proxy", &snidfpv3.FilterConfig{
			DnsCacheConfig: dnsCache(), PortSpecifier: &snidfpv3.FilterConfig_PortValue{PortValue: 443},
		}),
	}
}

// sameName closes connections whose SNI is not the host of the CONNECT that they are in, which may be in upper case:
// string(filter_state["sallyport.authority"]).lowerAscii().startsWith(connection.requested_server_name + ":"). A ClientHello
// without a name claims nothing that could be held against the host, and leads to the host's own address all the same;
// but of a wildcard's hosts nothing else says which one it is (docs/adr/0015-by-address.md).
func sameName(wildcard bool) *listenerv3.Filter {
	return networkFilter("envoy.filters.network.rbac", &netrbacv3.RBAC{StatPrefix: "egress_sni_", Rules: sameNameRules(wildcard)})
}

func sameNameRules(wildcard bool) *rbacv3.RBAC {
	sni := &celv1.Expr{ExprKind: &celv1.Expr_SelectExpr{SelectExpr: &celv1.Expr_Select{Operand: ident("connection"), Field: "requested_server_name"}}}
	authority := call("string", nil, call("_[_]", nil, ident("filter_state"), constant(stateAuthority)))
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
