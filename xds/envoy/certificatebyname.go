package envoy

import (
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

// OpenedFor keeps a route to requests over connections that were opened for a host.
func OpenedFor(host string, r *routev3.Route) {
	r.Match.FilterState = append(r.Match.FilterState, &matcherv3.FilterStateMatcher{Key: wire.StateOpenedFor, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: Exact(host)}})
}
