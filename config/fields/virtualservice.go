package fields

import (
	networking "istio.io/api/networking/v1alpha3"
)

var virtualService = Kind{
	Name: "VirtualService", API: "networking.istio.io/v1", Message: &networking.VirtualService{},
	Fields: []Field{
		{Fate: Warned, Why: "the object is read, but proxies are not programmed by it",
			Fix: "rely on the path that a ServiceEntry gives by itself, and on DestinationRules for TLS"},
		{Path: "http.directResponse", Fate: Refused, When: refusesRequests, Why: "requests that it refuses would be let through: proxies are not programmed by VirtualServices",
			Fix: "remove it, and do not register what must not be reached"},
		{Path: "http.fault.abort", Fate: Refused, When: abortsAll, Why: "requests that it refuses would be let through: proxies are not programmed by VirtualServices",
			Fix: "remove it, and do not register what must not be reached"},
	},
}

// refusesRequests says whether a response of the proxy's own takes the place of the server's, with an error.
func refusesRequests(v any) bool {
	d, ok := v.(*networking.HTTPDirectResponse)
	return ok && d.Status >= 400
}

// abortsAll says whether a fault closes a route rather than disturbs it.
func abortsAll(v any) bool {
	a, ok := v.(*networking.HTTPFaultInjection_Abort)
	return ok && (a.Percentage == nil || a.Percentage.Value >= 100)
}

var gateway = Kind{
	Name: "Gateway", API: "networking.istio.io/v1", Message: &networking.Gateway{},
	Fields: []Field{{Fate: Warned, Why: "the object is read, but proxies are not programmed by it: nothing listens",
		Fix: "rely on the path that a ServiceEntry gives by itself, and on DestinationRules for TLS"}},
}
