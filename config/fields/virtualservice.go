package fields

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

var virtualService = Kind{
	Name: "VirtualService", API: "networking.istio.io/v1", Message: &networking.VirtualService{},
	Fields: slices.Concat(
		[]Field{
			{Path: "hosts", Fate: Applied, Why: "at ingress gateways, names that clients outside ask for; elsewhere hosts that a ServiceEntry or a Service registers, of the object's own namespace, or where its namespace registered them, or the root namespace is the object's"},
			{Path: "gateways", Fate: Applied, Why: "mesh, and Gateways that select an ingress gateway's or an egress gateway's pods"},
		},
		applied("exportTo"),
		below("http", httpRoute()),
		below("tls.match", append(l4Match(), applied("sniHosts")...)),
		below("tls.route", append(destination(), applied("weight")...)),
		below("tcp.match", append(l4Match(), Field{Path: "sourceSubnet", Fate: Warned, Why: "proxies are of one pod each, and a match with it is for none", Fix: "write sourceLabels or sourceNamespace"})),
		below("tcp.route", append(destination(), applied("weight")...)),
	),
}

// destination are the lines of where routes lead.
func destination() []Field {
	return append(applied("destination.host", "destination.port.number"),
		Field{Path: "destination.subset", Fate: Applied, Why: "of a host that is reached straight from the pod; a route to an egress gateway's subset leads to the gateway"})
}

func l4Match() []Field {
	return append(matchPlace(), Field{Path: "destinationSubnets", Fate: Applied, Why: "at sidecars: a gateway does not know where a client wanted to connect to, so a match with it is for none there"})
}

// matchPlace are the lines that matches of all protocols have.
func matchPlace() []Field {
	return append(applied("port", "gateways", "sourceLabels"), Field{Path: "sourceNamespace", Fate: Applied, Why: "together with sourceLabels, and with gateways: all of it has to hold"})
}

func httpRoute() []Field {
	return slices.Concat(
		[]Field{{Path: "name", Fate: Applied, Why: "in the proxy's log; one that means something there gets \"route.\" before it"}},
		below("match", matchPlace()),
		below("match", applied("name", "ignoreUriCase", "statPrefix")),
		below("match.uri", text()), below("match.scheme", text()), below("match.method", text()), below("match.authority", text()),
		below("match.headers", text()), below("match.withoutHeaders", text()), below("match.queryParams", text()),
		below("route", destination()), applied("route.weight"), below("route.headers", headerOperations()),
		below("headers", headerOperations()),
		applied("redirect.uri", "redirect.authority", "redirect.port", "redirect.derivePort", "redirect.scheme", "redirect.redirectCode", "redirect.prefixRewrite"),
		applied("directResponse.status", "directResponse.body.string", "directResponse.body.bytes"),
		applied("delegate.name", "delegate.namespace"),
		applied("rewrite.uri", "rewrite.uriRegexRewrite.match", "rewrite.uriRegexRewrite.rewrite"),
		[]Field{{Path: "rewrite.authority", Fate: Applied, Why: "where the proxy connects to the destination itself: to a gateway the Host says which host is meant"}},
		applied("timeout", "retries.attempts", "retries.perTryTimeout", "retries.retryOn", "retries.retryRemoteLocalities", "retries.retryIgnorePreviousHosts", "retries.backoff"),
		applied("fault.delay.fixedDelay", "fault.delay.percentage.value", "fault.delay.percent", "fault.abort.httpStatus", "fault.abort.grpcStatus", "fault.abort.percentage.value"),
		warned("it is not supported, in Istio neither", "write fixedDelay", "fault.delay.exponentialDelay"),
		warned("it is not supported, in Istio neither", "write httpStatus or grpcStatus", "fault.abort.http2Error"),
		below("mirror", applied("host", "port.number")), below("mirrors", applied("destination.host", "destination.port.number", "percentage.value")),
		[]Field{{Path: "mirror.subset", Fate: Applied, Why: "as for destinations"}, {Path: "mirrors.destination.subset", Fate: Applied, Why: "as for destinations"}},
		applied("mirrorPercent", "mirrorPercentage.value"),
		below("corsPolicy", slices.Concat(applied("allowOrigin", "allowMethods", "allowHeaders", "exposeHeaders", "maxAge", "allowCredentials", "unmatchedPreflights"), below("allowOrigins", text()))),
	)
}

// text are the lines of a StringMatch.
func text() []Field { return applied("exact", "prefix", "regex") }

func headerOperations() []Field {
	return applied("request.set", "request.add", "request.remove", "response.set", "response.add", "response.remove")
}

// notOpened is why a server, or what it says, is none that an ingress gateway opens.
const notOpened = "ingress gateways do not open such a server"

var gateway = Kind{
	Name: "Gateway", API: "networking.istio.io/v1", Message: &networking.Gateway{},
	Fields: slices.Concat(
		[]Field{
			{Path: "selector", Fate: Applied, Why: "of an ingress gateway's pods, by their labels; of egress gateways, by the selector of their Service: those open no listeners by it"},
			{Path: "servers.port.number", Fate: Applied, Why: "a port of the ingress gateway's Service, whose target port is opened; what VirtualServices name as match.port"},
			{Path: "servers.tls.mode", Fate: Applied, Why: "AUTO_PASSTHROUGH leads other networks' proxies to the Services of the mesh that hosts cover; ISTIO_MUTUAL at egress gateways, where it says whether routes of requests count; the others at ingress gateways"},
			{Path: "servers.hosts", Fate: Applied, Why: "of what several Gateways name at a port of an ingress gateway, the oldest has it; what a VirtualService leads from one with `*` is not taken by a younger one"},
		},
		applied("servers.port.protocol", "servers.tls.httpsRedirect", "servers.tls.subjectAltNames", "servers.tls.verifyCertificateSpki", "servers.tls.verifyCertificateHash",
			"servers.tls.minProtocolVersion", "servers.tls.maxProtocolVersion", "servers.tls.cipherSuites"),
		[]Field{
			{Path: "servers.tls.credentialName", Fate: Applied, Why: "a Secret of the ingress gateway's namespace"},
			{Path: "servers.tls.credentialNames", Fate: Applied, Why: "Secrets of the ingress gateway's namespace"},
			{Path: "servers.tls.caCertCredentialName", Fate: Applied, Why: "a Secret of the ingress gateway's namespace"},
		},
		idle("servers.port.name", "servers.port.targetPort", "servers.name"),
		warned(notOpened+": it listens at all of its addresses", "remove it", "servers.bind"),
		warned("it is not applied, in Istio neither", "remove it", "servers.defaultEndpoint"),
		warned(notOpened+": certificates are in Secrets, and files of the gateway's are not read", "write credentialName",
			"servers.tls.serverCertificate", "servers.tls.privateKey", "servers.tls.caCertificates", "servers.tls.caCrl", "servers.tls.tlsCertificates"),
		warned(notOpened+": certificates that clients show are verified", "remove it", "servers.tls.insecureSkipVerify"),
	),
}
