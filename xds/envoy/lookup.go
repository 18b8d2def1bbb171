package envoy

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// ResolveFilters resolves the host that was asked for before the connection goes on. It is never the name that the inner
// ClientHello says: that one is checked only when it has come, and no name that is not registered is looked up.
func ResolveFilters() []*listenerv3.Filter {
	return []*listenerv3.Filter{
		SetFilterState(
			State(wire.StateTCPCluster, "%FILTER_STATE("+wire.StateCluster+":PLAIN)%", NotShared),
			State(wire.StateDynamicPort, "%FILTER_STATE("+wire.StatePort+":PLAIN)%", NotShared),
			State(wire.StateDynamicHost, "%FILTER_STATE("+wire.StateAuthority+":PLAIN)%", NotShared),
		),
		NetworkFilter("envoy.filters.network.sni_dynamic_forward_proxy", &snidfpv3.FilterConfig{
			DnsCacheConfig: dnsCache(), PortSpecifier: &snidfpv3.FilterConfig_PortValue{PortValue: 443},
		}),
	}
}
