package envoy

import (
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	sniv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_mappers/sni/v3"
	ondemandsecretv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/cert_selectors/on_demand_secret/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/wire"
)

// certificateByName asks the agent for the certificate of the name that a client says, on the stream by which it has its configuration: a stream for each name
// costs as much again as the certificate does. Nothing else is a secret there, so that no client asks for the proxy's own by its name.
func certificateByName() *corev3.TypedExtensionConfig {
	return &corev3.TypedExtensionConfig{
		Name: "envoy.tls.certificate_selectors.on_demand_secret",
		TypedConfig: ToAny(&ondemandsecretv3.Config{
			ConfigSource: &corev3.ConfigSource{ResourceApiVersion: corev3.ApiVersion_V3, ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}},
			CertificateMapper: &corev3.TypedExtensionConfig{
				Name: "envoy.tls.certificate_mappers.sni", TypedConfig: ToAny(&sniv3.SNI{DefaultValue: ondemand.NoServerName}),
			},
		}),
	}
}

// NoteServerName keeps the name that a connection was opened for, for its requests' routes (OpenedFor).
func NoteServerName() *listenerv3.Filter {
	return SetFilterState(State(wire.StateOpenedFor, "%REQUESTED_SERVER_NAME%", NotShared))
}

// RefusedHandshakes logs the connections of a listener whose TLS was not agreed on, of which filters never hear.
func RefusedHandshakes(place wire.Place) []*accesslogv3.AccessLog {
	log := accessLogOf(place, false, map[string]string{wire.TagHandshake: "%DOWNSTREAM_TRANSPORT_FAILURE_REASON%"}, true)
	for _, l := range log {
		l.Filter = expression("connection.transport_failure_reason != ''")
	}
	return log
}

// OpenedFor keeps a route to requests over connections that were opened for a host; of a pattern, for a name below it.
func OpenedFor(host string, r *routev3.Route) {
	name := Exact(host)
	if tail, pattern := strings.CutPrefix(host, "*"); pattern {
		name = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: tail}}
	}
	name.IgnoreCase = true // as clients say names
	r.Match.FilterState = append(r.Match.FilterState, &matcherv3.FilterStateMatcher{Key: wire.StateOpenedFor, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: name}})
}
