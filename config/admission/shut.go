package admission

import (
	"github.com/cespare/xxhash/v2"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// ClosedStandIn is what stands in for a refused object that has no last good version, where going on without it would be less
// safe: a DestinationRule that asks for TLS. The registry closes the hosts that it is about, since without the rule they
// would be spoken to otherwise, perhaps in plain text. nil for other objects.
func ClosedStandIn(o config.Object, findings []Finding) *config.Object {
	rule, ok := o.Spec.(*networking.DestinationRule)
	if !ok || !asksForTLS(rule) {
		return nil
	}
	for _, f := range findings {
		if f.Severity == Error {
			o.Refused = f.What()
			o.Hash ^= xxhash.Sum64String(o.Refused)
			return &o
		}
	}
	return nil
}

func asksForTLS(rule *networking.DestinationRule) bool {
	asks := func(t *networking.ClientTLSSettings) bool {
		return t != nil && t.Mode != networking.ClientTLSSettings_DISABLE
	}
	policies := []*networking.TrafficPolicy{rule.TrafficPolicy}
	for _, s := range rule.Subsets {
		policies = append(policies, s.GetTrafficPolicy())
	}
	for _, p := range policies {
		if asks(p.GetTls()) {
			return true
		}
		for _, port := range p.GetPortLevelSettings() {
			if asks(port.GetTls()) {
				return true
			}
		}
	}
	return false
}
