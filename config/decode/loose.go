package decode

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// loosely gives what a rejected spec says for certain, of kinds that others have to know of even so: whom a DestinationRule is for, and that it asks for TLS, since without
// it that host would be spoken to in plain text (admission.ClosedStandIn). nil of others, and where even that cannot be read.
func loosely(kind config.Kind, tree any) any {
	spec, ok := tree.(map[string]any)
	if !ok || kind != config.KindDestinationRule {
		return nil
	}
	host, ok := spec["host"].(string)
	if !ok || host == "" || !namesTLS(spec["trafficPolicy"]) && !namesTLS(spec["subsets"]) {
		return nil
	}
	rule := &networking.DestinationRule{Host: host, TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE}}}
	to, _ := spec["exportTo"].([]any)
	for _, ns := range to {
		if ns, ok := ns.(string); ok {
			rule.ExportTo = append(rule.ExportTo, ns)
		}
	}
	return rule
}

// namesTLS says whether a part of a traffic policy asks for TLS, however it is written.
func namesTLS(part any) bool {
	switch part := part.(type) {
	case []any:
		for _, one := range part {
			if namesTLS(one) {
				return true
			}
		}
	case map[string]any:
		for name, one := range part {
			if name == "tls" && one != nil {
				settings, _ := one.(map[string]any)
				if settings["mode"] != "DISABLE" {
					return true
				}
			} else if namesTLS(one) {
				return true
			}
		}
	}
	return false
}
