package fields

import (
	"slices"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	proxyconfig "istio.io/api/networking/v1beta1"
	telemetry "istio.io/api/telemetry/v1"
)

var proxyConfig = Kind{
	Name: "ProxyConfig", API: "networking.istio.io/v1beta1", Message: &proxyconfig.ProxyConfig{},
	Fields: []Field{{Fate: Warned, Why: "the object is read, but proxies are not set up by it",
		Fix: "remove it; resources and images of proxies are settings of the injector"}},
}

var telemetryKind = Kind{
	Name: "Telemetry", API: "telemetry.istio.io/v1", Message: &telemetry.Telemetry{},
	Fields: slices.Concat(
		[]Field{
			{Path: "selector.matchLabels", Fate: Applied, Why: "of workloads of its own namespace"},
			{Path: "targetRefs.kind", Fate: Applied, When: is("Gateway"), Why: "of a waypoint; ingress and egress gateways record everything"},
			{Path: "targetRefs.kind", Fate: Warned, Why: "records are made by pods' own proxies and by waypoints, not for single Services", Fix: "select the pods with spec.selector, or name the waypoint's Gateway"},
			{Path: "accessLogging.match.mode", Fate: Warned, When: is("CLIENT"), Why: "what pods ask of each other is recorded where it arrives, and what leaves the mesh always", Fix: "write SERVER, or leave match out, in a Telemetry for those who are asked"},
			{Path: "accessLogging.match.mode", Fate: Applied},
			{Path: "accessLogging.disabled", Fate: Applied, Why: "as sallyport.audit.mesh: off; what leaves the mesh, or comes in by a gateway, is recorded all the same"},
		},
		idle("targetRefs.group", "targetRefs.name", "targetRefs.namespace", "targetRef.group", "targetRef.kind", "targetRef.name", "targetRef.namespace"),
		warned("records go to the audit log, whichever provider is named", "leave providers out; docs/how-to/send-records.md says how records are sent on", "accessLogging.providers.name"),
		warned("what an entry with an expression says of records is left to the wider setting", "leave the filter out for all records; sallyport.audit.mesh: denied records what policies deny", "accessLogging.filter.expression"),
		warned("proxies make no traces", "remove it", "tracing"),
		warned("metrics are Envoy's own", "remove it", "metrics"),
	),
}

var envoyFilter = Kind{
	Name: "EnvoyFilter", API: "networking.istio.io/v1alpha3", Message: &networking.EnvoyFilter{},
	Fields: []Field{{Fate: Refused, Why: "it is not applied, and what its patches close, check or encrypt would not be",
		Fix: "remove it; no patches of Envoy's configuration are taken"}},
}

var wasmPlugin = Kind{
	Name: "WasmPlugin", API: "extensions.istio.io/v1alpha1", Message: &extensions.WasmPlugin{},
	Fields: []Field{{Fate: Refused, Why: "it is not run, and what it closes, or checks, would be let through", Fix: "remove it"}},
}

var trafficExtension = Kind{
	Name: "TrafficExtension", API: "extensions.istio.io/v1alpha1", Message: &extensions.TrafficExtension{},
	Fields: []Field{{Fate: Refused, Why: "it is not run, and what it closes, or checks, would be let through", Fix: "remove it"}},
}
