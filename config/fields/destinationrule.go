package fields

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

var destinationRule = Kind{
	Name: "DestinationRule", API: "networking.istio.io/v1", Message: &networking.DestinationRule{},
	Fields: slices.Concat(
		[]Field{{Path: "host", Fate: Applied, Why: "of rules that cover a host those of the client's namespace count, then those of the host's, then the root namespace's, and in each that which names it most closely; several objects of a namespace for one host, and for the same workloads, that are exported alike are one: the oldest that writes trafficPolicy, or a subset, has it"}},
		applied("exportTo", "workloadSelector.matchLabels"),
		below("trafficPolicy", trafficPolicy()),
		[]Field{{Path: "trafficPolicy.portLevelSettings.port.number", Fate: Applied,
			Why: "the port's settings stand in for all of trafficPolicy: what they leave out, tls too, is as usual"}},
		below("trafficPolicy.portLevelSettings", portPolicy()),
		[]Field{
			{Path: "trafficPolicy.tunnel", Fate: Refused, Why: "connections would go straight to the host, around the proxy that it names",
				Fix: "remove it, and let the host leave by an egress gateway"},
			{Path: "trafficPolicy.proxyProtocol", Fate: Warned, Why: "the server gets no PROXY header", Fix: "remove it, and let the server do without"},
			{Path: "trafficPolicy.retryBudget", Fate: Warned, Why: "retries are not limited by a budget", Fix: "remove it"},
			{Path: "subsets.name", Fate: Applied, Why: "of hosts that are reached straight from the pod"},
			{Path: "subsets.labels", Fate: Applied, Why: "of pods, WorkloadEntries and endpoints of ServiceEntries"},
		},
		subsetTLS("subsets.trafficPolicy.tls", "spec.trafficPolicy.tls"),
		below("subsets.trafficPolicy", withoutTLS(trafficPolicy())),
		subsetTLS("subsets.trafficPolicy.portLevelSettings.tls", "spec.trafficPolicy.portLevelSettings"),
		[]Field{{Path: "subsets.trafficPolicy.portLevelSettings.port.number", Fate: Applied,
			Why: "the port's settings stand in for all of the subset's and the rule's but tls: what they leave out is as usual"}},
		below("subsets.trafficPolicy.portLevelSettings", withoutTLS(portPolicy())),
		[]Field{
			{Path: "subsets.trafficPolicy.tunnel", Fate: Refused, Why: "connections would go straight to the host, around the proxy that it names",
				Fix: "remove it, and let the host leave by an egress gateway"},
			{Path: "subsets.trafficPolicy.proxyProtocol", Fate: Warned, Why: "the server gets no PROXY header", Fix: "remove it, and let the server do without"},
			{Path: "subsets.trafficPolicy.retryBudget", Fate: Warned, Why: "retries are not limited by a budget", Fix: "remove it"},
		},
	),
}

// subsetTLS are the lines of a subset's TLS: all endpoints of a host are spoken to alike.
func subsetTLS(path, instead string) []Field {
	return []Field{
		{Path: path, Fate: Refused, When: originates, Why: "TLS is for all of a host's endpoints, so connections that it encrypts would follow spec.trafficPolicy", Fix: "write it in " + instead},
		{Path: path, Fate: Warned, Why: "TLS is for all of a host's endpoints: connections follow spec.trafficPolicy", Fix: "write it in " + instead},
	}
}

// withoutTLS leaves the lines of TLS out.
func withoutTLS(lines []Field) []Field {
	return slices.DeleteFunc(lines, func(f Field) bool { return strings.HasPrefix(f.Path, "tls.") })
}

// trafficPolicy are the lines of a policy for all ports.
func trafficPolicy() []Field { return portPolicy() }

// portPolicy are the lines that policies for all ports and for one have. Where a host leaves by an egress gateway, the gateway
// follows the rule of the host's own namespace.
func portPolicy() []Field {
	return slices.Concat(
		below("tls", clientTLS()),
		below("loadBalancer.localityLbSetting", localityLb()),
		below("loadBalancer.warmup", applied("duration", "minimumPercent", "aggression")),
		below("connectionPool.tcp.tcpKeepalive", applied("probes", "time", "interval")),
		below("connectionPool.http", applied("http1MaxPendingRequests", "http2MaxRequests", "maxRequestsPerConnection", "maxRetries", "idleTimeout",
			"h2UpgradePolicy", "maxConcurrentStreams", "http2KeepAlive.interval", "http2KeepAlive.timeout")),
		below("outlierDetection", applied("splitExternalLocalOriginErrors", "consecutiveLocalOriginFailures", "consecutiveGatewayErrors",
			"consecutive5xxErrors", "interval", "baseEjectionTime", "maxEjectionPercent", "minHealthPercent")),
		below("loadBalancer.consistentHash", applied("httpHeaderName", "httpCookie.name", "httpCookie.path", "httpCookie.ttl",
			"httpCookie.attributes.name", "httpCookie.attributes.value")),
		[]Field{
			{Path: "loadBalancer.consistentHash.useSourceIp", Fate: Applied, Why: "of requests: connections that nobody reads go to any endpoint, of which it is warned"},
			{Path: "loadBalancer.consistentHash.httpQueryParameterName", Fate: Applied},
			{Path: "loadBalancer.simple", Fate: Idle, When: is("UNSPECIFIED", "LEAST_REQUEST", "LEAST_CONN"), Why: "it is so anyhow: of two endpoints that are drawn, the one that has less to do is asked"},
			{Path: "loadBalancer.simple", Fate: Warned, When: is("PASSTHROUGH"),
				Why: "an endpoint is chosen as usual: to go where the client went would let it go anywhere under a name that is registered",
				Fix: "remove it; resolution NONE with addresses leads to the address that the client chose among them"},
			{Path: "loadBalancer.simple", Fate: Applied},
			{Path: "loadBalancer.consistentHash.minimumRingSize", Fate: Applied, Why: mostInTable},
			{Path: "loadBalancer.consistentHash.ringHash.minimumRingSize", Fate: Applied, Why: mostInTable},
			{Path: "loadBalancer.consistentHash.maglev.tableSize", Fate: Applied, Why: mostInTable},
			{Path: "loadBalancer.zoneAwareLbSetting", Fate: Warned, Why: "endpoints of one priority are asked alike, wherever they are", Fix: "remove it, or use localityLbSetting"},
			{Path: "loadBalancer.warmupDurationSecs", Fate: Applied},
			{Path: "connectionPool.tcp.maxConnections", Fate: Applied, Why: "of each proxy, as in Istio"},
			{Path: "connectionPool.tcp.connectTimeout", Fate: Applied},
			{Path: "connectionPool.tcp.maxConnectionDuration", Fate: Warned, Why: "it limits connections that carry requests; others may last for as long as they are used",
				Fix: "leave it where the port is HTTP, and remove it elsewhere"},
			{Path: "connectionPool.tcp.idleTimeout", Fate: Warned, Why: "idle connections are closed after an hour", Fix: "remove it"},
			{Path: "connectionPool.http.useClientProtocol", Fate: Warned, Why: "the port's protocol says whether the host is spoken to by HTTP/1.1 or HTTP/2", Fix: "remove it, or set h2UpgradePolicy"},
			{Path: "outlierDetection.outlierDetectionHttpErrorCodes", Fate: Warned, Why: "answers from 500 on count as failures, and no others", Fix: "remove it"},
			{Path: "outlierDetection.consecutiveErrors", Fate: Warned, Why: "it is deprecated, and does nothing", Fix: "write consecutive5xxErrors or consecutiveGatewayErrors"},
		},
	)
}

// localityLb are the lines of a setting by where endpoints are.
func localityLb() []Field {
	return append(applied("distribute.from", "distribute.to", "enabled"), []Field{
		{Path: "failover.from", Fate: Applied, Why: noticed}, {Path: "failover.to", Fate: Applied, Why: noticed}, {Path: "failoverPriority", Fate: Applied, Why: noticed},
	}...)
}

const noticed = "where outlierDetection notices endpoints that fail"

const mostInTable = "at most 65537; a request's endpoint is chosen by it, and connections that nobody reads go to any"

// clientTLS are the lines of settings for TLS towards a server.
func clientTLS() []Field {
	return applied("mode", "clientCertificate", "privateKey", "caCertificates", "caCrl", "credentialName", "subjectAltNames", "sni", "insecureSkipVerify")
}

// originates says whether settings ask for TLS where none might be spoken otherwise.
func originates(v any) bool {
	t, ok := v.(*networking.ClientTLSSettings)
	return ok && (t.Mode == networking.ClientTLSSettings_SIMPLE || t.Mode == networking.ClientTLSSettings_MUTUAL)
}
