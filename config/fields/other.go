package fields

import (
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
	Fields: []Field{{Fate: Warned, Why: "the object is read, but proxies are not programmed by it: everything that leaves the mesh is in the audit log, and metrics are Envoy's",
		Fix: "remove it"}},
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
