package fields

// Sallyport is the table of our own block of the mesh settings, for which there is no message: a test of config/mesh
// holds it to what is read. Unknown fields are errors.
var Sallyport = []Field{
	{Path: "defaultGateway", Fate: Applied},
	{Path: "dns.unregistered", Fate: Applied}, {Path: "dns.local", Fate: Applied}, {Path: "dns.rate", Fate: Applied}, {Path: "dns.oddRate", Fate: Applied},
	{Path: "dns.ech", Fate: Applied}, {Path: "dns.upstreams", Fate: Applied}, {Path: "dns.forward", Fate: Applied},
	{Path: "dns.allowPrivate", Fate: Applied}, {Path: "dns.allowPrivateFor", Fate: Applied},
	{Path: "audit.retention", Fate: Applied, Why: "from the audit server's next start on, where its own flag is not given"},
	{Path: "audit.recordsPerSecond", Fate: Applied}, {Path: "audit.whenFull", Fate: Applied}, {Path: "audit.mesh", Fate: Applied},
	{Path: "certificateFolders.gateway", Fate: Applied}, {Path: "certificateFolders.sidecar", Fate: Applied},
	{Path: "clusterNetworks", Fate: Applied}, {Path: "exports", Fate: Applied}, {Path: "injection.allow", Fate: Applied},
	{Path: "mutualTLS", Fate: Applied, Why: "pods with proxies speak it to each other, and PeerAuthentications are kept, unless it is false"},
	{Path: "traceProxies", Fate: Applied, Why: "agents may trace their own Envoy (ptrace) to end a connection that is denied, where nothing else does, unless it is false"},
	{Path: "fetch", Fate: Applied, Why: "by sidecars whose agents can; a workload may say otherwise"}, {Path: "fetchGateways", Fate: Applied, Why: "by egress gateways whose agents can; a gateway may say otherwise"}, {Path: "keepUnused", Fate: Applied},
	{Path: "ingress.ownNamespace", Fate: Applied}, {Path: "ingress.idleTimeout", Fate: Applied, Why: "of connections that carry no request; 15m without it"},
	{Path: "ingress.keepSilent", Fate: Applied, Why: "a connection that has shaken hands and asks for nothing has a quarter of a minute, unless it is true; not where TLS passes at the same port, or TCP"},
	{Path: "ingress.http3", Fate: Applied, Why: "where a Service of the gateway's pods has the port for UDP, by servers that ask no certificate of clients; not beside the PROXY protocol"},
	{Path: "nodeAgents", Fate: Applied},
	{Path: "exportedTables", Fate: Applied, Why: "at nodes: of how many namespaces what one other namespace exports to them by name counts there"},
	{Path: "tcpPorts", Fate: Applied, Why: "where workloads' proxies wait for no client's first bytes, and read no names and no requests"},
	{Path: "cluster", Fate: Applied}, {Path: "network", Fate: Applied}, {Path: "networks", Fate: Applied, Why: "as Istio's meshNetworks, which are read of its ConfigMap too"},
	{Path: "policy.expected", Fate: Applied, Why: "requests under way are told of before there is any policy, so that the first one ends those that it denies"},
	{Path: "policy.require", Fate: Applied, Why: "by lint and the webhook: a policy that is there already stays in use"},
}

// Service is the table of Kubernetes' Service: what of its spec the mesh follows. Nothing is said of those that are idle: a Service
// is the cluster's, which follows them for traffic outside of the mesh. A test of config/source/kube holds it to what is kept of one.
var Service = []Field{
	{Path: "ports", Fate: Applied}, {Path: "selector", Fate: Applied, Why: "where no EndpointSlice says otherwise"},
	{Path: "clusterIP", Fate: Applied}, {Path: "clusterIPs", Fate: Applied}, {Path: "type", Fate: Applied}, {Path: "externalName", Fate: Applied},
	{Path: "externalIPs", Fate: Idle}, {Path: "loadBalancerIP", Fate: Idle}, {Path: "loadBalancerSourceRanges", Fate: Idle},
	{Path: "loadBalancerClass", Fate: Idle}, {Path: "allocateLoadBalancerNodePorts", Fate: Idle}, {Path: "healthCheckNodePort", Fate: Idle},
	{Path: "externalTrafficPolicy", Fate: Idle}, {Path: "ipFamilies", Fate: Idle}, {Path: "ipFamilyPolicy", Fate: Idle},
	{Path: "sessionAffinity", Fate: Warned, Why: "any endpoint is asked: clients are not kept with their pods by their addresses"}, {Path: "sessionAffinityConfig", Fate: Idle, Why: "as sessionAffinity, of which it is warned"},
	{Path: "internalTrafficPolicy", Fate: Applied}, {Path: "trafficDistribution", Fate: Applied},
	{Path: "publishNotReadyAddresses", Fate: Applied, Why: "by the EndpointSlices that Kubernetes makes of it"},
}
