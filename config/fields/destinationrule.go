package fields

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

var destinationRule = Kind{
	Name: "DestinationRule", API: "networking.istio.io/v1", Message: &networking.DestinationRule{},
	Fields: slices.Concat(
		applied("host", "exportTo", "workloadSelector.matchLabels"),
		below("trafficPolicy", trafficPolicy()),
		applied("trafficPolicy.portLevelSettings.port.number"),
		below("trafficPolicy.portLevelSettings", portPolicy()),
		[]Field{
			{Path: "trafficPolicy.tunnel", Fate: Refused, Why: "connections would go straight to the host, around the proxy that it names",
				Fix: "remove it, and let the host leave by an egress gateway"},
			{Path: "trafficPolicy.proxyProtocol", Fate: Warned, Why: "the server gets no PROXY header", Fix: "remove it, and let the server do without"},
			{Path: "trafficPolicy.retryBudget", Fate: Warned, Why: "retries are not limited by a budget", Fix: "remove it"},
			{Path: "subsets.trafficPolicy.tls", Fate: Refused, When: originates,
				Why: "subsets are not applied, so connections that it encrypts would follow spec.trafficPolicy", Fix: "write it in spec.trafficPolicy.tls"},
			{Path: "subsets.trafficPolicy.portLevelSettings.tls", Fate: Refused, When: originates,
				Why: "subsets are not applied, so connections that it encrypts would follow spec.trafficPolicy", Fix: "write it in spec.trafficPolicy.portLevelSettings"},
			{Path: "subsets", Fate: Warned, Why: "connections follow spec.trafficPolicy and go to all endpoints of the host", Fix: "remove it, or give the endpoints a host of their own"},
		},
	),
}

// trafficPolicy are the lines of a policy for all ports.
func trafficPolicy() []Field { return portPolicy() }

// portPolicy are the lines that policies for all ports and for one have.
func portPolicy() []Field {
	return slices.Concat(
		below("tls", clientTLS()),
		[]Field{
			{Path: "loadBalancer.simple", Fate: Idle, When: is("UNSPECIFIED", "ROUND_ROBIN"), Why: "endpoints are asked in turn"},
			{Path: "loadBalancer.simple", Fate: Warned, Why: "endpoints are asked in turn", Fix: "remove it, or write ROUND_ROBIN"},
			{Path: "loadBalancer.consistentHash", Fate: Warned, Why: "endpoints are asked in turn: one client's requests go to several", Fix: "remove it"},
			{Path: "loadBalancer.localityLbSetting", Fate: Warned, Why: "endpoints are asked in turn, wherever they are", Fix: "remove it"},
			{Path: "loadBalancer.zoneAwareLbSetting", Fate: Warned, Why: "endpoints are asked in turn, wherever they are", Fix: "remove it"},
			{Path: "loadBalancer.warmupDurationSecs", Fate: Warned, Why: "new endpoints get their full share at once", Fix: "remove it"},
			{Path: "loadBalancer.warmup", Fate: Warned, Why: "new endpoints get their full share at once", Fix: "remove it"},
			{Path: "connectionPool.tcp.maxConnections", Fate: Warned, Why: "connections to the host are not limited", Fix: "remove it"},
			{Path: "connectionPool.tcp.connectTimeout", Fate: Applied},
			{Path: "connectionPool.tcp.tcpKeepalive", Fate: Warned, Why: "connections have no keepalive of their own", Fix: "remove it"},
			{Path: "connectionPool.tcp.maxConnectionDuration", Fate: Warned, Why: "connections may last for as long as they are used", Fix: "remove it"},
			{Path: "connectionPool.tcp.idleTimeout", Fate: Warned, Why: "idle connections are closed after an hour", Fix: "remove it"},
			{Path: "connectionPool.http", Fate: Warned, Why: "requests and connections are not limited by it", Fix: "remove it"},
			{Path: "outlierDetection", Fate: Warned, Why: "endpoints that fail are asked like the others", Fix: "remove it, or list only endpoints that work"},
		},
	)
}

// clientTLS are the lines of settings for TLS towards a server.
func clientTLS() []Field {
	return applied("mode", "clientCertificate", "privateKey", "caCertificates", "caCrl", "credentialName", "subjectAltNames", "sni", "insecureSkipVerify")
}

// originates says whether settings ask for TLS where none might be spoken otherwise.
func originates(v any) bool {
	t, ok := v.(*networking.ClientTLSSettings)
	return ok && (t.Mode == networking.ClientTLSSettings_SIMPLE || t.Mode == networking.ClientTLSSettings_MUTUAL)
}
