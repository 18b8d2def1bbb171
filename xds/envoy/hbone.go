package envoy

import (
	"strconv"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httpsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/original_src/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// HBONE is Istio's tunnel: HTTP/2 CONNECT over mutual TLS of the mesh, a stream for each connection, whose authority is the address and port
// that is meant.

// tunnelRest is how long a connection of tunnels stays that has none.
const tunnelRest = restTime

// endsTunnels makes a connection manager one that takes tunnels, by HTTP/2 alone.
func endsTunnels(m *hcmv3.HttpConnectionManager) {
	m.CodecType = hcmv3.HttpConnectionManager_HTTP2
	m.CommonHttpProtocolOptions.IdleTimeout = durationpb.New(tunnelRest)
	m.DrainTimeout = durationpb.New(drainTime)
	m.UpgradeConfigs = []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "CONNECT"}}
	// Nothing of a tunnel's head goes on to the app, and a client's address is its connection's, whatever it writes (X-Forwarded-For).
	m.UseRemoteAddress = wrapperspb.Bool(true)
	m.ForwardClientCertDetails, m.SetCurrentClientCertDetails = hcmv3.HttpConnectionManager_SANITIZE, nil
}

// OwnAppFilters are the filters of a tunnel that ends in a pod: it goes on to the address that it asks for, and the app sees its client's address.
// That the address is the pod's own is the route's to see.
func OwnAppFilters() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		httpFilter(filterState, &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{State(wire.StateOriginalDst, "%REQ(:AUTHORITY)%", SharedOnce)}}),
		httpFilter("envoy.filters.http.original_src", &httpsrcv3.OriginalSrc{Mark: wire.ProxyMark}),
	}
}

// MatchTunnelPorts matches tunnels to one of some ports.
func MatchTunnelPorts(ports ...uint32) *routev3.RouteMatch {
	var texts []string
	for _, p := range ports {
		texts = append(texts, strconv.FormatUint(uint64(p), 10))
	}
	return tunnelMeant(".*:0*(" + strings.Join(texts, "|") + ")")
}

// MatchTunnelToAddress matches tunnels to an address and a port, as they are written: policies compare texts.
func MatchTunnelToAddress() *routev3.RouteMatch {
	return tunnelMeant(`([0-9.]+|\[[0-9a-f:.]+\]):[1-9][0-9]*`)
}

func tunnelMeant(authority string) *routev3.RouteMatch {
	m := MatchAnyTunnel()
	m.Headers = []*routev3.HeaderMatcher{{Name: ":authority", HeaderMatchSpecifier: HeaderMatches(authority)}}
	return m
}

// AuthorizationNetworkFilter is AuthorizationPolicies of a pod's own, of connections, and AuthorizationHTTPFilter of what comes by requests.
func AuthorizationNetworkFilter(f *httprbacv3.RBAC) *listenerv3.Filter {
	return NetworkFilter(FilterAuthzConnections, &netrbacv3.RBAC{
		StatPrefix: wire.StatAuthz, Matcher: f.Matcher, ShadowMatcher: f.ShadowMatcher, ShadowRulesStatPrefix: f.ShadowRulesStatPrefix,
	})
}

// AuthorizationHTTPFilter is described there.
func AuthorizationHTTPFilter(f *httprbacv3.RBAC) *hcmv3.HttpFilter {
	return httpFilter(FilterAuthzRequests, f)
}

// failedTunnels leaves of a log of tunnels those that were not made, and those that policies would deny if they were enforced.
func failedTunnels(log []*accesslogv3.AccessLog) []*accesslogv3.AccessLog {
	for _, l := range log {
		l.Filter = anyOf(statusIs(accesslogv3.ComparisonFilter_NE, 200), saidBy(wire.RuleFilter, wire.StatAuthz+wire.ShadowResult, "denied"))
	}
	return log
}
