package fields

import (
	"slices"

	security "istio.io/api/security/v1"
)

const notEnforced = "it is not enforced: "

var authorizationPolicy = Kind{
	Name: "AuthorizationPolicy", API: "security.istio.io/v1", Message: &security.AuthorizationPolicy{},
	Fields: slices.Concat(
		[]Field{
			{Fate: Warned, When: auditsOnly, Why: notEnforced + "no request is marked by it; all that leaves the mesh is in the audit log anyway", Fix: "remove it"},
		},
		[]Field{{Path: "selector.matchLabels", Fate: Applied, Why: "at egress gateways and before all pods with sidecars; where `sallyport.mutualTLS` is false one that selects no egress gateway is refused"}},
		targeted("Gateway; a gateway's Service, or one with a waypoint, and a ServiceEntry with one"),
		[]Field{
			{Path: "action", Fate: Applied},
			{Path: "provider.name", Fate: Applied, Why: "one of `extensionProviders` in the mesh's settings; without it, or its host, what the rules mean is closed"},
		},
		below("rules.from.source", slices.Concat(
			applied("principals", "notPrincipals", "namespaces", "notNamespaces", "serviceAccounts", "notServiceAccounts", "ipBlocks", "notIpBlocks", "remoteIpBlocks", "notRemoteIpBlocks", "trustDomains", "notTrustDomains", "requestPrincipals", "notRequestPrincipals"),
		)),
		below("rules.to.operation", applied("hosts", "notHosts", "ports", "notPorts", "methods", "notMethods", "paths", "notPaths")),
		[]Field{{Path: "rules.when.key", Fate: Applied, Why: "`destination.ip` at pods and ingress gateways: at egress gateways and waypoints, which know what comes by its name, such a rule closes. `experimental.envoy.filters.*` is refused: no filter here writes metadata by names that users know"}},
		below("rules.when", applied("values", "notValues")),
	),
}

// targeted are the lines of what policies of this group are for, by its name; kinds are those that it may be of.
func targeted(kinds string) []Field {
	kinds += "; GatewayClass of waypoints, in the root namespace: all waypoints of the class"
	return slices.Concat(
		idle("targetRef.namespace", "targetRefs.namespace"),
		applied("targetRef.group", "targetRef.name", "targetRefs.group", "targetRefs.name"),
		[]Field{{Path: "targetRef.kind", Fate: Applied, Why: kinds}, {Path: "targetRefs.kind", Fate: Applied, Why: kinds}},
	)
}

func auditsOnly(v any) bool {
	p, ok := v.(*security.AuthorizationPolicy)
	return ok && p.Action == security.AuthorizationPolicy_AUDIT
}

var peerAuthentication = Kind{
	Name: "PeerAuthentication", API: "security.istio.io/v1", Message: &security.PeerAuthentication{},
	Fields: []Field{
		{Path: "selector.matchLabels", Fate: Applied, Why: "in the root namespace it is for nobody, as in Istio"},
		{Path: "mtls.mode", Fate: Applied, Why: "where `sallyport.mutualTLS` is false STRICT is refused"},
		{Path: "portLevelMtls.mode", Fate: Applied, Why: "by the pod's own ports, of one with a selector"},
	},
}

var requestAuthentication = Kind{
	Name: "RequestAuthentication", API: "security.istio.io/v1", Message: &security.RequestAuthentication{},
	Fields: slices.Concat(
		[]Field{{Path: "selector.matchLabels", Fate: Applied, Why: "at gateways and before all pods with sidecars; where `sallyport.mutualTLS` is false one that selects no gateway is refused"}},
		targeted("Gateway; a gateway's Service"),
		below("jwtRules", applied("issuer", "audiences", "jwks", "jwksUri", "timeout", "fromHeaders.name", "fromHeaders.prefix", "fromParams", "fromCookies", "outputPayloadToHeader", "forwardOriginalToken",
			"outputClaimToHeaders.header", "outputClaimToHeaders.claim", "spaceDelimitedClaims")),
	),
}
