package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	snidfpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"

	"github.com/sallyport/sallyport/xds/wire"
)

// How far a value travels.
const (
	NotShared        = statev3.FilterStateValue_NONE
	SharedOnce       = statev3.FilterStateValue_ONCE       // to the internal listener behind this connection
	SharedTransitive = statev3.FilterStateValue_TRANSITIVE // and on, however many are behind
)

// State makes a value of the filter state from a format string. Keys that Envoy does not know hold strings, and those
// must be hashable: a connection pool is found by the hash of what is shared with it and gives that to each of its
// connections, so with strings that do not count, one client's values would be another's.
func State(key, format string, shared statev3.FilterStateValue_SharedWithUpstream) *statev3.FilterStateValue {
	v := &statev3.FilterStateValue{
		Key:                &statev3.FilterStateValue_ObjectKey{ObjectKey: key},
		Value:              &statev3.FilterStateValue_FormatString{FormatString: text(format)},
		SharedWithUpstream: shared,
		SkipIfEmpty:        true,
	}
	switch key {
	case wire.StateOutside, wire.StateAt, wire.StateFrom, wire.StateHost, wire.StateSpoken, wire.StateAuthority, wire.StateConfig, wire.StatePeer, wire.StateSource, wire.StateTunnel, wire.StateCluster, wire.StatePort, wire.StateRules, wire.StateClient, wire.StateQuestion, wire.StateSubset, wire.StateDialled, wire.StateFetched, wire.StateEnds, wire.StateUnderWay, wire.StatePod, wire.StateIdentity, wire.StateNetwork, wire.StateOpenedFor, wire.StateTable, wire.StateSilent, wire.StateDoor, wire.StateLacks:
		v.FactoryKey = "envoy.hashable_string"
	}
	return v
}

// text is a format string that gives "" for what Envoy does not know.
func text(format string) *corev3.SubstitutionFormatString {
	return &corev3.SubstitutionFormatString{
		OmitEmptyValues: true,
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
			Specifier: &corev3.DataSource_InlineString{InlineString: format},
		}},
	}
}

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
