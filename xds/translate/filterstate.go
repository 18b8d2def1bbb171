package translate

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
)

// How far a value travels.
const (
	stay = statev3.FilterStateValue_NONE
	once = statev3.FilterStateValue_ONCE // to the internal listener behind this connection
)

// state makes a value of the filter state from a format string. Keys that Envoy does not know hold strings, and those
// must be hashable: a connection pool is found by the hash of what is shared with it and gives that to each of its
// connections, so with strings that do not count, one client's values would be another's.
func state(key, format string, shared statev3.FilterStateValue_SharedWithUpstream) *statev3.FilterStateValue {
	v := &statev3.FilterStateValue{
		Key:                &statev3.FilterStateValue_ObjectKey{ObjectKey: key},
		Value:              &statev3.FilterStateValue_FormatString{FormatString: text(format)},
		SharedWithUpstream: shared,
		SkipIfEmpty:        true,
	}
	switch key {
	case stateAuthority, statePeer, stateSource, stateCluster, statePort, stateClient, stateQuestion, stateSubset, stateDialled:
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
