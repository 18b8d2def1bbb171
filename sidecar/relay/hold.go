package relay

import (
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
)

// heldBack is a response of a watch that comes last, while Envoy has not given its word about what came before it: a name
// that is answered before its rows are there sends connections to where nothing is. The controller waits for
// Envoy's word too, before it sends such a response (xds/serve); what it cannot see is left to here: the good halves
// of what Envoy refused, and what was sent to Envoy on another stream of the controller's.
type heldBack struct {
	*discoveryv3.DeltaDiscoveryResponse
	came uint64
}

// holdsBack says whether a response has to wait. What only takes away does not, unless it follows one that does; neither
// does the first answer of all, since Envoy may need it to begin.
func (m *machine) holdsBack(k *kind, resp *discoveryv3.DeltaDiscoveryResponse) bool {
	switch {
	case !k.watch.Last:
		return false
	case len(k.held) > 0:
		return true
	default:
		return k.table.Known() && len(resp.GetResources()) > 0 && m.owes(m.came)
	}
}

// owes says whether Envoy owes its word about something that came before, or waits for what that leads to.
func (m *machine) owes(came uint64) bool {
	if m.lacksTable() {
		return true
	}
	for _, k := range m.kinds {
		if slices.ContainsFunc(k.inflight, func(j *job) bool { return j.came < came }) {
			return true
		}
	}
	return false
}

// letGo applies what needs to wait no longer.
func (m *machine) letGo() {
	for _, k := range m.kinds {
		for len(k.held) > 0 && !m.owes(k.held[0].came) {
			m.applyHeld(k)
		}
	}
}

// applyHeld applies what has waited longest.
func (m *machine) applyHeld(k *kind) {
	first := k.held[0]
	if k.held = k.held[1:]; len(k.held) == 0 {
		k.held = nil
	}
	m.apply(k, first.DeltaDiscoveryResponse)
}

// holding says whether anything waits.
func (m *machine) holding() bool {
	for _, k := range m.kinds {
		if len(k.held) > 0 {
			return true
		}
	}
	return false
}

// waitNoLonger applies all that waits: an Envoy that says nothing goes on with what it had, and names that are not
// answered would lead past it.
func (m *machine) waitNoLonger() {
	for _, k := range m.kinds {
		for len(k.held) > 0 {
			m.log.Warn("Envoy does not answer; what waited for it takes effect", "type", k.url)
			m.applyHeld(k)
		}
	}
}
