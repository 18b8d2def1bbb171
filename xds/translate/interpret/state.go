package interpret

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"

	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
)

// filterState are the values that filters keep, by their keys.
type filterState map[string]stateValue

type stateValue struct {
	text   string
	shared statev3.FilterStateValue_SharedWithUpstream
}

// The keys that mean something to Envoy itself. Others hold strings.
const (
	keyTCPCluster   = "envoy.tcp_proxy.cluster"
	keyALPN         = "envoy.network.application_protocols"
	keyServerName   = "envoy.network.upstream_server_name"
	keyOriginalDst  = "envoy.network.transport_socket.original_dst_address"
	keyDynamicHost  = "envoy.upstream.dynamic_host"
	keyDynamicPort  = "envoy.upstream.dynamic_port"
	keyLocal        = "envoy.filters.listener.original_dst.local_ip"
	keyRemote       = "envoy.filters.listener.original_dst.remote_ip"
	keyIdentity     = "envoy.tls.certificate_mappers.on_demand_secret"
	hashableString  = "envoy.hashable_string"
	plainStringType = "envoy.string"
)

// set sets values, from format strings that are about what s knows.
func (f filterState) set(s *scope, values []*statev3.FilterStateValue) {
	for _, v := range values {
		key := v.GetObjectKey()
		text := s.formatted(v.GetFormatString())
		if text == "" && v.SkipIfEmpty {
			continue
		}
		if takes(key, v.FactoryKey, text) {
			f[key] = stateValue{text, v.SharedWithUpstream}
		}
	}
}

// takes says whether an object can be made of a text. Where it cannot, Envoy leaves the key as it was.
func takes(key, factory, text string) bool {
	if factory == "" {
		factory = key
	}
	switch factory {
	case hashableString, plainStringType, keyTCPCluster, keyALPN, keyServerName, keyDynamicHost:
		return true
	case keyOriginalDst, keyLocal, keyRemote:
		_, err := netip.ParseAddrPort(text)
		return err == nil
	case keyDynamicPort:
		_, err := strconv.ParseUint(text, 10, 16)
		return err == nil
	default:
		unknown("filter state %q: what makes it is %q", key, factory)
		return false
	}
}

// within is a state that begins with this one: of a request on a connection.
func (f filterState) within() filterState { return maps.Clone(f) }

// along is what goes to the internal listener behind.
func (f filterState) along() filterState {
	out := filterState{}
	for _, key := range slices.Sorted(maps.Keys(f)) {
		switch v := f[key]; v.shared {
		case statev3.FilterStateValue_NONE:
		case statev3.FilterStateValue_ONCE:
			out[key] = stateValue{v.text, statev3.FilterStateValue_NONE}
		case statev3.FilterStateValue_TRANSITIVE:
			out[key] = v
		default:
			unknown("filter state %q: shared %v", key, v.shared)
		}
	}
	return out
}
