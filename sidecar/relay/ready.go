package relay

import (
	"fmt"
	"maps"
	"slices"
)

// lacks says what Envoy does not have yet of what makes it of use: clusters and listeners, those listeners without which
// a pod has no traffic (Config.Listeners), and any other that it refused without having an older version of it. It is ""
// when nothing is missing, and stays so while this Envoy is connected: an Envoy that works is not taken out of
// service for a later update that it refuses, since it goes on with what it had.
func (m *machine) lacks() string {
	if m.complete {
		return ""
	}
	if !m.synced() {
		return "envoy has not accepted clusters and listeners yet"
	}
	k := m.kinds[ListenerType]
	for _, name := range m.listeners {
		if k.has[name] == "" {
			return fmt.Sprintf("envoy has no listener %q%s", name, k.why(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.rejected)) {
		if k.has[name] == "" {
			return fmt.Sprintf("envoy refused the listener %q%s", name, k.why(name))
		}
	}
	if len(k.inflight) > 0 {
		return "envoy has not accepted all listeners yet"
	}
	m.complete = true
	return ""
}

// why quotes Envoy on a resource that it refused.
func (k *kind) why(name string) string {
	if r, ok := k.rejected[name]; ok {
		return ": " + r.Reason
	}
	return ""
}

// settled says whether Envoy has accepted all that it asked for, and the controller was heard.
func (m *machine) settled() bool {
	if k := m.kinds[ClusterType]; !m.heard || k == nil || !k.accepted {
		return false
	}
	for _, k := range m.kinds {
		if k.watch == nil && k.subscribed && (!k.accepted || len(k.inflight) > 0) {
			return false
		}
	}
	return true
}
