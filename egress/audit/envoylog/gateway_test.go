package envoylog_test

import (
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// byAuthorizer is what Envoy notes of a request that an authorizer did not let pass.
var byAuthorizer = &datav3.ResponseFlags{UnauthorizedDetails: &datav3.ResponseFlags_Unauthorized{Reason: datav3.ResponseFlags_Unauthorized_EXTERNAL_SERVICE}}

func gatewayRequests() map[string]logCase {
	const place = wire.GatewayHTTP
	return map[string]logCase{
		"a request that leaves": {place, httpLog(
			peered(at(common("outbound|80||external.com", "default", "role", "external", "config", entryTag), address("10.0.0.2", 8443), address("203.0.113.1", 443))),
			get, "external.com", "/a?b=secret", 200, "via_upstream"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/a", Status: 200, Cluster: "outbound|80||external.com", Route: "default", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
		"a request that leaves and gets no answer": {place, httpLog(
			peered(flagged(common("outbound|80||external.com", "default", "role", "external", "config", entryTag), &datav3.ResponseFlags{UpstreamConnectionFailure: true, UpstreamRetryLimitExceeded: true})),
			get, "external.com", "/", 503, ""),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Cluster: "outbound|80||external.com", Route: "default", DecidedBy: entry,
				Reason: "registered; failed: UF,URX", Flags: []string{"UF", "URX"},
			})},
		"a request that nobody could keep an eye on": {place, httpLog(
			peered(common("outbound|80||external.com", "default", "role", "external", "config", entryTag)), get, "external.com", "/", 503, wire.TooManyDetails),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Cluster: "outbound|80||external.com", Route: "default",
				Reason: "the proxy's agent could not keep an eye on it: too much is under way, or its host or path is too long",
			})},
		"a request that nobody could keep an eye on, when it was answered": {place, httpLog(
			peered(sentOn(common("outbound|80||external.com", "default", "role", "external", "config", entryTag))), get, "external.com", "/", 503, wire.TooManyDetails),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Cluster: "outbound|80||external.com", Route: "default", DecidedBy: entry,
				Reason: "registered; its answer was kept back: the proxy's agent could not keep an eye on it: too much is under way, or its host or path is too long",
			})},
		"a request of a namespace that it is not exported to": {place, httpLog(
			peered(common("outbound|80||private.com", "default", "role", "external", "config", entryTag)), get, "private.com", "/", 403, "rbac_access_denied_matched_policy[none]"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "private.com", Port: 80, Authority: "private.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 403, Cluster: "outbound|80||private.com", Route: "default", DecidedBy: entry,
				Reason: "registered, but not exported to this namespace",
			})},
		"a namespace that it is not exported to, before the cluster was asked for": {place, httpLog(
			peered(common("outbound|80||private.com", "default", "policy", entryTag)), get, "private.com", "/", 403, "rbac_access_denied_matched_policy[none]"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "private.com", Port: 80, Authority: "private.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 403, Cluster: "outbound|80||private.com", Route: "default", DecidedBy: entry,
				Reason: "registered, but not exported to this namespace",
			})},
		"a request that the route of an ingress gateway has denied": {wire.IngressHTTP, httpLog(
			flagged(common("outbound|80||web.shop.svc.cluster.local", "default", "role", "mesh", "policy", policyTag), byAuthorizer), get, "shop.test", "/", 401, "ext_authz_denied"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Host: "shop.test", Port: 80, Authority: "shop.test",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 401, Cluster: "outbound|80||web.shop.svc.cluster.local", Route: "default", DecidedBy: policy,
				Reason: "denied by the authorizer that the route asks", Flags: []string{"UAEX"},
			})},
		"a connection for whose name an ingress gateway has no certificate": {wire.IngressTLS,
			tcpLog(common("", "", wire.TagHandshake, "TLS_error:|268435589:SSL_routines:OPENSSL_internal:CONNECTION_REJECTED:TLS_error_end"), "nobody.test", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Host: "nobody.test", Port: 80, SNI: "nobody.test", Protocol: "tls",
				Reason: "there is no certificate for the name that TLS asks for, or none that the client takes",
			})},
		"what is no request, at an ingress gateway": {wire.IngressHTTP, httpLog(
			flagged(common("", ""), &datav3.ResponseFlags{DownstreamProtocolError: true}), 0, "", "", 501, "http1.transfer_encoding_not_allowed"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Port: 80,
				Protocol: "http", Status: 501, Reason: "what came is no request that the proxy reads, so that it went nowhere", Flags: []string{"DPE"},
			})},
		"a request without a host, at an ingress gateway": {wire.IngressHTTP, httpLog(common("", ""), get, "", "/admin/x", 400, "missing_host_header"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Port: 80,
				Protocol: "http", Method: "GET", URLPath: "/admin/x", Status: 400, Reason: "what came is no request that the proxy reads, so that it went nowhere",
			})},
		"a CONNECT to a name that an ingress gateway has": {wire.IngressHTTP, httpLog(
			flagged(common("", ""), &datav3.ResponseFlags{NoRouteFound: true}), connect, "shop.test:80", "", 404, "route_not_found"),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Host: "shop.test", Port: 80, SNI: "shop.test", Authority: "shop.test:80",
				Protocol: "tls", Status: 404, Reason: "an ingress gateway takes no CONNECT", Flags: []string{"NR"},
			})},
		"two Host lines at an ingress gateway": {wire.IngressHTTP, httpLog(common("", wire.ClosedRoute+"its Host is not one name"), get, "a.test,b.test", "/", 400, "direct_response"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Host: "a.test,b.test", Port: 80, Authority: "a.test,b.test",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 400, Route: "closed", Reason: "its Host is not one name",
			})},
		"a name that is nobody's at an ingress gateway": {wire.IngressHTTP, httpLog(
			flagged(common("", ""), &datav3.ResponseFlags{NoRouteFound: true}), get, "nobody.test", "/", 404, "route_not_found"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Host: "nobody.test", Port: 80, Authority: "nobody.test",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 404, Reason: "nobody has the name at this ingress gateway", Flags: []string{"NR"},
			})},
		"a request whose route's authorizer is away": {wire.IngressHTTP, httpLog(
			flagged(common("outbound|80||web.shop.svc.cluster.local", "default", "role", "mesh", "policy", policyTag), byAuthorizer), get, "shop.test", "/", 403, wire.AuthorizerFailed),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "mesh", Reporter: "gateway", Direction: record.Inbound, Workload: app, Dialled: "240.240.0.9:80", Host: "shop.test", Port: 80, Authority: "shop.test",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 403, Cluster: "outbound|80||web.shop.svc.cluster.local", Route: "default", DecidedBy: policy,
				Reason: "the authorizer that the route asks could not be asked", Flags: []string{"UAEX"},
			})},
		"a request for nobody's host": {place, httpLog(
			peered(common("", "block_all", "policy", policyTag)), get, "evil.test:8080", "/", 403, "direct_response"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "gateway", Workload: client, Host: "evil.test", Port: 8080, Authority: "evil.test:8080",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 403, Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
		"a request to what is closed": {place, httpLog(
			peered(common("", "closed: trafficPolicy.tls.mode: ISTIO_MUTUAL would show a certificate", "policy", policyTag)), get, "external.com", "/", 503, "direct_response"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Route: "closed", DecidedBy: policy,
				Reason: "trafficPolicy.tls.mode: ISTIO_MUTUAL would show a certificate",
			})},
		"a request that an overloaded proxy refuses": {place, httpLog(
			flagged(peered(common("", "")), &datav3.ResponseFlags{OverloadManager: true}), get, "external.com", "/", 503, "overload"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Flags: []string{"OM"},
				Reason: "the proxy takes nothing new: its memory is full, or there is no room for its audit records",
			})},
		"a tunnel to a port of requests": {place, httpLog(
			peered(common("", "wrong_protocol")), connect, "external.com:80", "", 403, "direct_response"),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, SNI: "external.com",
				Authority: "external.com:80", Protocol: "tls", Status: 403, Route: "wrong_protocol", Reason: "the port is registered with another protocol",
			})},
		"a tunnel that a listener behind tells": {place, httpLog(
			peered(common("egress-tls", "default", "role", "inner")), connect, "external.com:443", "", 200, ""), nil},
		"a tunnel that a listener behind could not lead anywhere": {place, httpLog(
			flagged(peered(common("egress-tcp", "default", "role", "inner")), &datav3.ResponseFlags{UpstreamConnectionTermination: true}),
			connect, "db.external.com:5432", "", 503, "upstream_reset_before_response_started{connection_termination}"), nil},
		"a tunnel that a listener behind gave up at once": {place, httpLog(
			flagged(peered(common("egress-tcp", "default", "role", "inner")), &datav3.ResponseFlags{UpstreamConnectionFailure: true}),
			connect, "db.external.com:5432", "", 503, "upstream_reset_before_response_started{remote_connection_failure|delayed_connect_error:_Invalid_argument}"), nil},
		"a tunnel without the listener behind": {place, httpLog(
			flagged(peered(common("egress-tls", "default", "role", "inner")), &datav3.ResponseFlags{UpstreamConnectionFailure: true}),
			connect, "external.com:443", "", 503, "upstream_reset_before_response_started{remote_connection_failure|immediate_connect_error:_No_such_process}"),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Status: 503, Cluster: "egress-tls", Route: "default", Flags: []string{"UF"},
				Reason: "registered; failed: upstream_reset_before_response_started{remote_connection_failure|immediate_connect_error:_No_such_process}",
			})},
		"a tunnel of a namespace that it is not exported to": {place, httpLog(
			peered(common("egress-tls", "default", "role", "inner")), connect, "private.com:443", "", 403, "rbac_access_denied_matched_policy[none]"),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "private.com", Port: 443, SNI: "private.com",
				Authority: "private.com:443", Protocol: "tls", Status: 403, Cluster: "egress-tls", Route: "default", Reason: "registered, but not exported to this namespace",
			})},
	}
}

func gatewayTunnels() map[string]logCase {
	behind := func(cluster string, tags ...string) *datav3.AccessLogCommon {
		c := at(common(cluster, "", append(tags, "peer", app.Principal, "source", "10.0.0.1:41000")...), inner, nil)
		c.DownstreamRemoteAddress, c.DownstreamDirectRemoteAddress = inner, inner
		if cluster != "BlackHoleCluster" {
			c.UpstreamRemoteAddress = address("203.0.113.1", 443)
		}
		return c
	}
	return map[string]logCase{
		"TLS that leaves": {wire.GatewayTLS, tcpLog(
			behind("outbound|443||external.com", "role", "external", "config", entryTag, "authority", "external.com:443"), "external.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Cluster: "outbound|443||external.com", DecidedBy: entry, Reason: "registered", Destination: "203.0.113.1:443",
			})},
		"TLS of a namespace that it is not exported to": {wire.GatewayTLS, tcpLog(
			behind("BlackHoleCluster", "role", "blackhole", "authority", "private.com:443", "route", "not_exported", "policy", entryTag), "private.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "private.com", Port: 443, SNI: "private.com",
				Authority: "private.com:443", Protocol: "tls", Cluster: "BlackHoleCluster", Route: "not_exported", DecidedBy: entry, Reason: "registered, but not exported to this namespace",
			})},
		"TLS to nobody's host": {wire.GatewayTLS, tcpLog(
			behind("BlackHoleCluster", "role", "blackhole", "authority", "evil.test:443", "route", "block_all", "policy", policyTag), "evil.test", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "gateway", Workload: client, Host: "evil.test", Port: 443, SNI: "evil.test",
				Authority: "evil.test:443", Protocol: "tls", Cluster: "BlackHoleCluster", Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
		"TLS that says another name": {wire.GatewayTLS, tcpLog(
			behind("BlackHoleCluster", "role", "blackhole", "authority", "external.com:443"), "evil.test", "rbac_access_denied_matched_policy[none]"),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "evil.test",
				Authority: "external.com:443", Protocol: "tls", Cluster: "BlackHoleCluster",
				Reason: "the TLS name evil.test is not the host external.com that was asked for",
			})},
		"TLS that says no name": {wire.GatewayTLS, tcpLog(
			behind("BlackHoleCluster", "role", "blackhole", "authority", "external.com:443"), "", "rbac_access_denied_matched_policy[none]"),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443,
				Authority: "external.com:443", Protocol: "tls", Cluster: "BlackHoleCluster",
				Reason: "the TLS name (none) is not the host external.com that was asked for",
			})},
		"what is not TLS": {wire.GatewayTLS, tcpLog(
			behind("BlackHoleCluster", "role", "blackhole", "authority", "external.com:443"), "", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443,
				Authority: "external.com:443", Protocol: "tls", Cluster: "BlackHoleCluster", Reason: "what came was not TLS, or gave no name",
			})},
		"TCP that leaves": {wire.GatewayTCP, tcpLog(
			behind("outbound|5432||db.external.com", "role", "external", "config", entryTag, "authority", "db.external.com:5432"), "", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "db.external.com", Port: 5432,
				Authority: "db.external.com:5432", Protocol: "tcp", Cluster: "outbound|5432||db.external.com", DecidedBy: entry, Reason: "registered", Destination: "203.0.113.1:443",
			})},
		"a peer of another kind": {wire.GatewayTCP, tcpLog(
			at(common("outbound|5432||db.external.com", "", "role", "external", "authority", "db.external.com:5432", "peer", "spiffe://other.mesh/vm/7"), inner, nil), "", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: record.Workload{Principal: "spiffe://other.mesh/vm/7"},
				Host: "db.external.com", Port: 5432, Authority: "db.external.com:5432", Protocol: "tcp", Cluster: "outbound|5432||db.external.com", Reason: "registered",
			})},
	}
}
