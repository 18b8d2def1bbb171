package envoylog_test

import (
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

type logCase struct {
	place   wire.Place
	message *alsv3.StreamAccessLogsMessage
	want    *record.Record // nil: another entry tells this
}

// cases are entries as Envoy writes them, by what happened.
func cases() map[string]logCase {
	all := map[string]logCase{}
	for _, some := range []map[string]logCase{sidecarRequests(), sidecarTunnels(), sidecarTCP(), gatewayRequests(), gatewayTunnels(), forwarded(), ruledRequests(), ruledConnections(), intoPods()} {
		for name, c := range some {
			all[name] = c
		}
	}
	return all
}

func sidecarRequests() map[string]logCase {
	const place = wire.SidecarHTTP
	return map[string]logCase{
		"a request that the gateway took": {place, httpLog(
			common(gatewayCluster, "default", "role", "gateway"), get, "external.com", "/", 200, "via_upstream"), nil},
		"a request that the gateway refused": {place, httpLog(
			common(gatewayCluster, "default", "role", "gateway"), get, "external.com", "/", 403, "via_upstream"), nil},
		"a request that the gateway could not pass on": {place, httpLog(
			common(gatewayCluster, "default", "role", "gateway"), get, "external.com", "/", 503, "via_upstream"), nil},
		"the gateway is not there": {place, httpLog(
			flagged(common(gatewayCluster, "default", "role", "gateway"), &datav3.ResponseFlags{NoHealthyUpstream: true}), get, "external.com", "/x?a=b", 503, "no_healthy_upstream"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/x", Status: 503, Cluster: gatewayCluster, Route: "default",
				Reason: "the gateway could not be reached; failed: no_healthy_upstream", Flags: []string{"UH"},
			})},
		"the gateway breaks off": {place, httpLog(
			flagged(common(gatewayCluster, "default", "role", "gateway"), &datav3.ResponseFlags{UpstreamConnectionTermination: true}), get, "external.com", "/", 503, "upstream_reset_before_response_started{connection_termination}"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Cluster: gatewayCluster, Route: "default", Reason: "the gateway could not be reached; failed: upstream_reset_before_response_started{connection_termination}", Flags: []string{"UC"},
			})},
		"the gateway does not answer in time": {place, httpLog( // and tells of the request itself
			flagged(sentOn(common(gatewayCluster, "default", "role", "gateway")), &datav3.ResponseFlags{UpstreamRequestTimeout: true}), get, "external.com", "/", 504, "response_timeout"), nil},
		"the client leaves before the gateway answers": {place, httpLog(
			flagged(sentOn(common(gatewayCluster, "default", "role", "gateway")), &datav3.ResponseFlags{DownstreamConnectionTermination: true}), get, "external.com", "/", 0, "downstream_remote_disconnect"), nil},
		"the client leaves before the gateway is reached": {place, httpLog(
			flagged(common(gatewayCluster, "default", "role", "gateway"), &datav3.ResponseFlags{DownstreamConnectionTermination: true}), get, "external.com", "/", 0, "downstream_remote_disconnect"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Cluster: gatewayCluster, Route: "default", Reason: "the gateway could not be reached; its client left before there was an answer", Flags: []string{"DC"},
			})},
		"the server ends before it answers": {place, httpLog(
			flagged(common("outbound|80||external.com", "default", "role", "external", "config", entryTag), &datav3.ResponseFlags{UpstreamConnectionTermination: true}), get, "external.com", "/", 503, "upstream_reset_before_response_started{connection_termination}"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com", DecidedBy: entry,
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Cluster: "outbound|80||external.com", Route: "default", Reason: "registered; failed: upstream_reset_before_response_started{connection_termination}", Flags: []string{"UC"},
			})},
		"the server ends what was upgraded": {place, httpLog(
			flagged(common("outbound|80||external.com", "default", "role", "external", "config", entryTag), &datav3.ResponseFlags{UpstreamConnectionTermination: true}), get, "external.com", "/", 101, "upstream_reset_after_response_started{connection_termination}"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com", DecidedBy: entry,
				Protocol: "http", Method: "GET", URLPath: "/", Status: 101, Cluster: "outbound|80||external.com", Route: "default", Reason: "registered", Flags: []string{"UC"},
			})},
		"straight out": {place, httpLog(
			at(common("outbound|8080||direct.com", "default", "role", "external", "config", entryTag, "revision", revisionTag+"-"), address("240.240.0.9", 8080), address("203.0.113.1", 8080)),
			get, "Direct.com:8080", "/a/b?token=secret#x", 200, "via_upstream"),
			want(record.Record{
				Dialled: "240.240.0.9:8080",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "direct.com", Port: 8080, Authority: "Direct.com:8080",
				Protocol: "http", Method: "GET", URLPath: "/a/b", Status: 200, Cluster: "outbound|8080||direct.com", Route: "default", DecidedBy: revisedEntry,
				Reason: "registered", Destination: "203.0.113.1:8080",
			})},
		"another protocol": {place, httpLog(
			at(common("", "wrong_protocol", "policy", entryTag), address("240.240.0.9", 443), nil), get, "external.com", "/", 403, "direct_response"),
			want(record.Record{
				Dialled: "240.240.0.9:443",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 443, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 403, Route: "wrong_protocol", DecidedBy: entry, Reason: "the port is registered with another protocol",
			})},
		"no route": {place, httpLog(
			flagged(common("", ""), &datav3.ResponseFlags{NoRouteFound: true}), get, "external.com", "/", 404, "route_not_found"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 404, Reason: "the host takes no such request", Flags: []string{"NR"},
			})},
		"what is no HTTP": {place, httpLog(
			flagged(common("", ""), &datav3.ResponseFlags{DownstreamProtocolError: true}), 0, "", "", 400, "http1.codec_error"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Port: 80,
				Protocol: "http", Status: 400, Reason: "what came is no request that the proxy reads, so that it went nowhere", Flags: []string{"DPE"},
			})},
		"a body in a coding that the proxy does not have": {place, httpLog(
			flagged(common("", ""), &datav3.ResponseFlags{DownstreamProtocolError: true}), 0, "", "", 501, "http1.transfer_encoding_not_allowed"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Port: 80,
				Protocol: "http", Status: 501, Reason: "what came is no request that the proxy reads, so that it went nowhere", Flags: []string{"DPE"},
			})},
		"a head that is too large": {place, httpLog(common("", ""), get, "external.com", "/", 431, "request_headers_too_large"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 431, Reason: "what came is no request that the proxy reads, so that it went nowhere",
			})},
		"a user's answer": {place, httpLog(
			common("", "mine", "policy", "VirtualService/default/v"), get, "external.com", "/", 200, "direct_response"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Route: "mine", DecidedBy: record.Object{Kind: "VirtualService", Namespace: "default", Name: "v"}, Reason: "answered by a route, nothing was sent: direct_response",
			})},
		"a user's fault, on the way to the gateway": {place, httpLog(
			common("outbound|443||gw", "mine", "role", "gateway", "policy", "VirtualService/default/v"), get, "external.com", "/", 200, "fault_filter_abort"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Route: "mine", Cluster: "outbound|443||gw", DecidedBy: record.Object{Kind: "VirtualService", Namespace: "default", Name: "v"}, Reason: "answered by a route, nothing was sent: fault_filter_abort",
			})},
		"no route of the user's": {place, httpLog(
			common("", "no_route", "policy", "VirtualService/default/v"), get, "external.com", "/", 404, "direct_response"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 404, Route: "no_route", DecidedBy: record.Object{Kind: "VirtualService", Namespace: "default", Name: "v"}, Reason: "none of the routes is for it",
			})},
		"a share that leads nowhere": {place, httpLog(
			common("BlackHoleCluster", "default", "role", "blackhole", "policy", "VirtualService/default/v"), get, "external.com", "/", 503, "no_healthy_upstream"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Route: "default", Cluster: "BlackHoleCluster", DecidedBy: record.Object{Kind: "VirtualService", Namespace: "default", Name: "v"}, Reason: "a destination of the route leads nowhere",
			})},
		"not registered, closed": {place, httpLog(
			common("", "block_all", "policy", policyTag), get, "evil.test.", "/?q=secret", 502, "direct_response"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "evil.test", Port: 80, Authority: "evil.test.",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 502, Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
		"the cluster's own networks": {place, httpLog(
			at(common("PassthroughCluster", "cluster_networks", "role", "passthrough", "policy", policyTag), address("10.4.0.9", 8080), address("10.4.0.9", 8080)),
			get, "10.4.0.9:8080", "/", 200, "via_upstream"),
			want(record.Record{
				Direction: record.Lateral,
				Dialled:   "10.4.0.9:8080",
				Class:     record.HTTP, Verdict: record.Allowed, Path: "passthrough", Reporter: "sidecar", Workload: app, Host: "10.4.0.9", Port: 8080, Authority: "10.4.0.9:8080",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Cluster: "PassthroughCluster", Route: "cluster_networks", DecidedBy: policy,
				Reason: "an address of the cluster's own networks", Destination: "10.4.0.9:8080",
			})},
		"not registered, let through": {place, httpLog(
			at(common("PassthroughCluster", "allow_any", "role", "passthrough", "policy", policyTag), address("203.0.113.9", 80), address("203.0.113.9", 80)),
			get, "other.test", "/", 200, "via_upstream"),
			want(record.Record{
				Dialled: "203.0.113.9:80",
				Class:   record.HTTP, Verdict: record.Allowed, Path: "passthrough", Reporter: "sidecar", Workload: app, Host: "other.test", Port: 80, Authority: "other.test",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Cluster: "PassthroughCluster", Route: "allow_any", DecidedBy: policy,
				Reason: "not registered; ALLOW_ANY", Destination: "203.0.113.9:80",
			})},
		"let through to an address that is made up": {place, httpLog(
			flagged(at(common("PassthroughCluster", "allow_any", "role", "passthrough", "policy", policyTag), address("240.240.0.9", 8080), address("240.240.0.9", 8080)),
				&datav3.ResponseFlags{UpstreamConnectionFailure: true}), get, "external.com:8080", "/", 503, "upstream_reset_before_response_started{connection_timeout}"),
			want(record.Record{
				Dialled: "240.240.0.9:8080",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 8080, Authority: "external.com:8080",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 503, Cluster: "PassthroughCluster", Route: "allow_any", DecidedBy: policy,
				Reason:      "the host is registered, but not like this, and its address is made up: ALLOW_ANY leads nowhere",
				Destination: "240.240.0.9:8080", Flags: []string{"UF"},
			})},
		"to a service of the mesh, by IPv6": {place, httpLog(
			at(common("outbound|80||web.default.svc.cluster.local", "default", "role", "mesh", "config", "Service/default/web"), address("2001:db8::5", 80), address("2001:db8::7", 8080)),
			get, "[2001:db8::5]", "/", 200, "via_upstream"),
			want(record.Record{
				Direction: record.Lateral,
				Dialled:   "[2001:db8::5]:80",
				Class:     record.HTTP, Verdict: record.Allowed, Path: "mesh", Reporter: "sidecar", Workload: app, Host: "web.default.svc.cluster.local", Port: 80, Authority: "[2001:db8::5]",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Cluster: "outbound|80||web.default.svc.cluster.local", Route: "default",
				DecidedBy: record.Object{Kind: "Service", Namespace: "default", Name: "web"}, Destination: "[2001:db8::7]:8080",
			})},
		"with a password in the authority": {place, httpLog(
			common("", "block_all", "policy", policyTag), get, "user:secret@evil.test:80", "/", 502, "direct_response"),
			want(record.Record{
				Dialled: "240.240.0.9:80",
				Class:   record.HTTP, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "evil.test", Port: 80, Authority: "evil.test:80",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 502, Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
	}
}

func sidecarTunnels() map[string]logCase {
	const place = wire.SidecarTunnel
	tunnel := func(cluster, route, asked, upstream string, tags ...string) *datav3.AccessLogCommon {
		c := at(common(cluster, "", append(tags, "route", route, "authority", asked)...), address("240.240.0.9", 5432), nil)
		if upstream != "" {
			c.UpstreamRemoteAddress = address(upstream, 443)
		}
		return c
	}
	direct := func(host, asked string, tags ...string) *datav3.AccessLogCommon {
		return tunnel("outbound|443||"+host, "default", asked, "203.0.113.1", append(tags, "role", "external", "config", entryTag)...)
	}
	return map[string]logCase{
		"no gateway for a tunnel": {place, tcpLog(
			flagged(tunnel(gatewayCluster, "default", "external.com:443", "", "role", "gateway"), &datav3.ResponseFlags{UpstreamConnectionFailure: true}), "external.com", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Cluster: gatewayCluster, Route: "default",
				Reason: "the gateway could not be reached; failed: UF", Flags: []string{"UF"},
			})},
		"TLS straight out": {place, tcpLog(direct("direct.com", "direct.com:443"), "direct.com", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "direct.com", Port: 443, SNI: "direct.com",
				Authority: "direct.com:443", Protocol: "tls", Cluster: "outbound|443||direct.com", Route: "default", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
		"TLS straight out, by another name of the host": {place, tcpLog(direct("direct.com", "alias.shop:443"), "alias.shop", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "alias.shop", Port: 443, SNI: "alias.shop",
				Authority: "alias.shop:443", Protocol: "tls", Cluster: "outbound|443||direct.com", Route: "default", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
		"TLS with nobody's name, by the address": {place, tcpLog(direct("direct.com", "nobody.test:443", "by", "address"), "nobody.test", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "direct.com", Port: 443, SNI: "nobody.test",
				Authority: "nobody.test:443", Protocol: "tls", Cluster: "outbound|443||direct.com", Route: "default", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
		"TCP straight out, by address": {place, tcpLog(
			tunnel("outbound|5432||db.direct.com", "default", "240.240.0.9:5432", "203.0.113.1", "role", "external", "config", entryTag), "", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Allowed, Path: "direct", Reporter: "sidecar", Workload: app, Host: "db.direct.com", Port: 5432,
				Authority: "240.240.0.9:5432", Protocol: "tcp", Cluster: "outbound|5432||db.direct.com", Route: "default", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
		"TLS, closed": {place, tcpLog(
			flagged(tunnel("BlackHoleCluster", "block_all", "evil.test:443", "", "role", "blackhole", "policy", policyTag), &datav3.ResponseFlags{NoHealthyUpstream: true}), "evil.test", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "evil.test", Port: 443, SNI: "evil.test",
				Authority: "evil.test:443", Protocol: "tls", Cluster: "BlackHoleCluster", Route: "block_all", DecidedBy: policy, Reason: "not registered", Flags: []string{"UH"},
			})},
		"TLS without a name, let through by IPv6": {place, tcpLog(
			at(tunnel("PassthroughCluster", "allow_any", ":443", "", "role", "passthrough", "policy", policyTag), address("2001:db8::9", 443), address("2001:db8::9", 443)), "", ""),
			want(record.Record{
				Dialled: "[2001:db8::9]:443",
				Class:   record.Network, Verdict: record.Allowed, Path: "passthrough", Reporter: "sidecar", Workload: app, Host: "2001:db8::9", Port: 443,
				Authority: "-:443", Protocol: "tls", Cluster: "PassthroughCluster", Route: "allow_any", DecidedBy: policy, Reason: "not registered; ALLOW_ANY",
				Destination: "[2001:db8::9]:443",
			})},
		"TCP by IPv6, closed": {place, tcpLog(
			tunnel("BlackHoleCluster", "block_all", "[2001:db8::9]:5432", "", "role", "blackhole", "policy", policyTag), "", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "2001:db8::9", Port: 5432,
				Authority: "[2001:db8::9]:5432", Protocol: "tcp", Cluster: "BlackHoleCluster", Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
		"closed before anybody answered": {place, tcpLog(tunnel("", "-", "external.com:443", ""), "external.com", ""),
			want(record.Record{
				Dialled: "240.240.0.9:5432",
				Class:   record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Reason: "it ended before it was decided where it goes",
			})},
	}
}

func intoPods() map[string]logCase {
	came := func(host string) *record.Record {
		return want(record.Record{
			Dialled: "10.0.0.2:9999", Direction: record.Lateral,
			Class: record.Network, Verdict: record.Allowed, Path: "mesh", Reporter: "destination", DestinationWorkload: app, Host: host, Port: 9999, Protocol: "tcp",
			Cluster: "InboundPassthroughCluster", Reason: "it came to the pod", Destination: "10.0.0.2:9999",
		})
	}
	into := func(sni string) *alsv3.StreamAccessLogsMessage {
		return tcpLog(at(common("InboundPassthroughCluster", "", "role", "mesh"), address("10.0.0.2", 9999), address("10.0.0.2", 9999)), sni, "")
	}
	of := func(sni, host string) logCase {
		r := came(host)
		r.SNI = sni
		return logCase{wire.InboundTCP, into(sni), r}
	}
	return map[string]logCase{
		"into a pod":                of("", "10.0.0.2"),
		"into a pod, for a Service": of("outbound_.80_._.web.shop.svc.cluster.local", "web.shop.svc.cluster.local"),
		"into a pod, by a waypoint before its address": of(wire.PodsSNI, "10.0.0.2"),
	}
}

func sidecarTCP() map[string]logCase {
	const place = wire.SidecarTCP
	return map[string]logCase{
		"a port where nothing is registered, let through": {place, tcpLog(
			at(common("PassthroughCluster", "", "role", "passthrough", "policy", policyTag), address("203.0.113.9", 9999), address("203.0.113.9", 9999)), "", ""),
			want(record.Record{
				Dialled: "203.0.113.9:9999",
				Class:   record.Network, Verdict: record.Allowed, Path: "passthrough", Reporter: "sidecar", Workload: app, Host: "203.0.113.9", Port: 9999, Protocol: "tcp",
				Cluster: "PassthroughCluster", DecidedBy: policy, Reason: "not registered; ALLOW_ANY", Destination: "203.0.113.9:9999",
			})},
		"a port where nothing is registered, closed": {place, tcpLog(
			flagged(at(common("BlackHoleCluster", "", "role", "blackhole", "policy", policyTag), address("2001:db8::9", 9999), nil), &datav3.ResponseFlags{NoHealthyUpstream: true}), "", ""),
			want(record.Record{
				Dialled: "[2001:db8::9]:9999",
				Class:   record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "2001:db8::9", Port: 9999, Protocol: "tcp",
				Cluster: "BlackHoleCluster", DecidedBy: policy, Reason: "not registered", Flags: []string{"UH"},
			})},
	}
}

func forwarded() map[string]logCase {
	return map[string]logCase{
		"by the forward proxy": {wire.ForwardHTTP, httpLog(
			at(common("outbound|80||external.com", "default", "role", "external", "config", entryTag), address("127.0.0.1", 3128), address("203.0.113.1", 443)),
			get, "external.com", "/?a=secret", 200, "via_upstream"),
			want(record.Record{
				Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "proxy", Workload: app, Host: "external.com", Port: 80, Authority: "external.com",
				Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Cluster: "outbound|80||external.com", Route: "default", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
		"refused by the forward proxy": {wire.ForwardHTTP, httpLog(
			at(common("", "block_all", "policy", policyTag), address("127.0.0.1", 3128), nil), connect, "evil.test:443", "", 403, "direct_response"),
			want(record.Record{
				Class: record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "proxy", Workload: app, Host: "evil.test", Port: 443, SNI: "evil.test",
				Authority: "evil.test:443", Protocol: "tls", Status: 403, Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
		"a tunnel of the forward proxy": {wire.ForwardTLS, tcpLog(
			at(common("outbound|443||external.com", "", "role", "external", "config", entryTag, "authority", "external.com:443", "source", "127.0.0.1:5000"), inner, address("203.0.113.1", 443)),
			"external.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "proxy", Workload: app, Source: "127.0.0.1:5000", Host: "external.com", Port: 443,
				SNI: "external.com", Authority: "external.com:443", Protocol: "tls", Cluster: "outbound|443||external.com", DecidedBy: entry, Reason: "registered",
				Destination: "203.0.113.1:443",
			})},
	}
}
