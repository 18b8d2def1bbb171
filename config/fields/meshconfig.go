package fields

import (
	"slices"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// MeshConfig is the table of Istio's mesh settings. What is Refused keeps the settings from being taken over.
var MeshConfig = Kind{
	Name: "MeshConfig", API: "the ConfigMap istio", Message: &meshconfig.MeshConfig{},
	Fields: slices.Concat(
		applied("connectTimeout", "protocolDetectionTimeout", "outboundTrafficPolicy.mode", "trustDomain", "trustDomainAliases",
			"defaultServiceExportTo", "defaultDestinationRuleExportTo", "rootNamespace", "serviceSettings.settings.clusterLocal", "serviceSettings.hosts"),
		applied("defaultVirtualServiceExportTo"),
		[]Field{
			{Path: "defaultConfig.gatewayTopology.numTrustedProxies", Fate: Applied, Why: "by ingress gateways"},
			{Path: "defaultConfig.gatewayTopology.forwardClientCertDetails", Fate: Applied, Why: "by ingress gateways"},
			{Path: "defaultConfig.gatewayTopology.proxyProtocol", Fate: Applied, Why: "by ingress gateways: what does not begin with such a header is closed"},
		},
		idle("inboundClusterStatName", "outboundClusterStatName", "defaultConfig.discoveryAddress", "defaultConfig.configPath", "defaultConfig.binaryPath",
			"defaultConfig.serviceCluster", "defaultConfig.tracingServiceName", "defaultConfig.meshId", "defaultConfig.discoveryRefreshDelay",
			"defaultConfig.controlPlaneAuthPolicy", "defaultConfig.sds", "ingressControllerMode", "ingressClass", "ingressService", "ingressSelector"),
		meshProxies(), meshSecurity(), meshTraffic(), meshTelemetry(),
	),
}

// meshProxies are settings of the proxies' processes, which the agent's flags and the injector make.
func meshProxies() []Field {
	return slices.Concat(
		warned("it does not set up proxies: the agent's flags and the injector's settings do", "remove it; see sallyport-agent proxy --help, and the chart's injector values",
			"proxyListenPort", "proxyInboundListenPort", "proxyHttpPort",
			"defaultConfig.drainDuration", "defaultConfig.proxyAdminPort", "defaultConfig.availabilityZone", "defaultConfig.customConfigFile",
			"defaultConfig.statNameLength", "defaultConfig.concurrency", "defaultConfig.proxyBootstrapTemplatePath", "defaultConfig.interceptionMode",
			"defaultConfig.proxyMetadata", "defaultConfig.runtimeValues", "defaultConfig.statusPort", "defaultConfig.terminationDrainDuration",
			"defaultConfig.readinessProbe", "defaultConfig.holdApplicationUntilProxyStarts", "defaultConfig.image", "defaultConfig.fileFlushInterval",
			"defaultConfig.fileFlushMinSizeKb", "defaultConfig.proxyHeaders",
			"defaultConfig.privateKeyProvider", "defaultConfig.statsCompression", "defaultConfig.connectionSettings"),
	)
}

// meshSecurity are settings of who is trusted, and by which means.
func meshSecurity() []Field {
	return slices.Concat(
		[]Field{
			{Path: "meshMTLS.minProtocolVersion", Fate: Idle, When: is("TLS_AUTO", "TLSV1_2"), Why: "TLS 1.2 is the oldest that is spoken"},
			{Path: "tlsDefaults.minProtocolVersion", Fate: Idle, When: is("TLS_AUTO", "TLSV1_2"), Why: "TLS 1.2 is the oldest that is spoken"},
			{Path: "serviceEntryVisibility.applyToSidecars", Fate: Refused, Why: "namespaces would see ServiceEntries that it hides from them",
				Fix: "remove it; write exportTo in the ServiceEntries, or defaultServiceExportTo here"},
			{Path: "serviceEntryVisibility", Fate: Idle, Why: "the API holds it for sidecars only with applyToSidecars"},
			{Path: "discoverySelectors", Fate: Refused, Why: "objects of namespaces that it leaves out would count", Fix: "remove it; export objects to the namespaces that are meant"},
			{Path: "outboundTrafficPolicy.tls", Fate: Refused, Why: "requests that it encrypts would leave in plain text", Fix: "remove it, and register the hosts"},
			{Path: "enableAutoMtls", Fate: Applied, Why: "unless `sallyport.mutualTLS` is false"},
			{Path: "caCertificates", Fate: Warned, Why: "they are not trusted", Fix: "remove it; a CA of your own is given in the Secret cacerts"},
			{Path: "defaultConfig.caCertificatesPem", Fate: Warned, Why: "they are not trusted", Fix: "remove it; a CA of your own is given in the Secret cacerts"},
			{Path: "ca", Fate: Warned, Why: "the controller's own CA signs", Fix: "remove it; a CA of your own is given in the Secret cacerts"},
			{Path: "certificates", Fate: Warned, Why: "no such certificates are made", Fix: "remove it"},
			{Path: "verifyCertificateAtClient", Fate: Warned, Why: "each DestinationRule says how servers are checked; without one they are", Fix: "remove it"},
		},
		refused("proxies would speak older versions, and other ciphers and curves, than it allows", "remove it: TLS 1.2 is the oldest that is spoken, with Envoy's own list of ciphers",
			"meshMTLS.minProtocolVersion", "meshMTLS.ecdhCurves", "meshMTLS.cipherSuites", "tlsDefaults.minProtocolVersion", "tlsDefaults.ecdhCurves", "tlsDefaults.cipherSuites"),
	)
}

// meshTraffic are settings of how traffic is routed and limited.
func meshTraffic() []Field {
	return slices.Concat(
		warned("it does not change how traffic goes", "remove it",
			"hboneIdleTimeout", "tcpKeepalive", "inboundTrafficPolicy", "zoneAwareLbSetting", "dnsRefreshRate", "h2UpgradePolicy",
			"serviceScopeConfigs", "pathNormalization", "defaultHttpRetryPolicy", "defaultTrafficPolicy"),
		below("localityLbSetting", localityLb()),
		warned("objects are read of the API server, or of the directory, only", "remove it", "configSources"),
	)
}

// meshTelemetry are settings of logs, traces and metrics.
func meshTelemetry() []Field {
	return slices.Concat(
		warned("everything that leaves the mesh is in the audit log; proxies write no other", "remove it",
			"accessLogFile", "accessLogFormat", "accessLogEncoding", "enableEnvoyAccessLogService", "disableEnvoyListenerLog", "defaultConfig.envoyAccessLogService"),
		warned("proxies send no traces, and no metrics but Envoy's own", "remove it",
			"enableTracing", "defaultProviders", "defaultConfig.tracing", "defaultConfig.zipkinAddress", "defaultConfig.statsdUdpAddress",
			"defaultConfig.envoyMetricsServiceAddress", "defaultConfig.envoyMetricsService", "defaultConfig.extraStatTags", "defaultConfig.proxyStatsMatcher"),
		[]Field{
			{Path: "enablePrometheusMerge", Fate: Idle, When: isFalse, Why: "metrics are not merged"},
			{Path: "enablePrometheusMerge", Fate: Warned, Why: notMerged, Fix: scrapeBoth},
		},
		meshProviders(),
	)
}

// Metrics of applications stay where they are.
const (
	notMerged  = "a proxy serves its own metrics, at port 15020 under /stats/prometheus, and the application's stay at the application"
	scrapeBoth = "remove it, and scrape both; a Prometheus without a proxy reaches the application's port under STRICT where portLevelMtls lets it (PERMISSIVE), or where traffic.sidecar.istio.io/excludeInboundPorts names it"
	// NoMerge says so of a pod, and what to do.
	NoMerge = notMerged + "; " + scrapeBoth
)

// meshProviders are those that policies ask, which count, and those of logs and traces.
func meshProviders() []Field {
	alike := applied("service", "port", "timeout", "failOpen", "statusOnError", "clearRouteCache",
		"includeRequestBodyInCheck.maxRequestBytes", "includeRequestBodyInCheck.allowPartialMessage", "includeRequestBodyInCheck.packAsBytes")
	byHTTP := slices.Concat(alike, applied("pathPrefix", "includeHeadersInCheck", "includeRequestHeadersInCheck", "includeAdditionalHeadersInCheck",
		"headersToUpstreamOnAllow", "headersToDownstreamOnDeny", "headersToDownstreamOnAllow"))
	return slices.Concat(
		applied("extensionProviders.name"),
		below("extensionProviders.envoyExtAuthzGrpc", alike),
		below("extensionProviders.envoyExtAuthzHttp", byHTTP),
		below("extensionProviders", warned("proxies send no traces, and no metrics but Envoy's own", "remove it",
			"zipkin", "lightstep", "datadog", "stackdriver", "opencensus", "skywalking", "opentelemetry", "prometheus")),
		below("extensionProviders", warned("everything that leaves the mesh is in the audit log; proxies write no other", "remove it",
			"envoyFileAccessLog", "envoyHttpAls", "envoyTcpAls", "envoyOtelAls")),
		below("extensionProviders", warned("it is not read", "remove it", "sds")),
	)
}
