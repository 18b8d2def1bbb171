package fields

import (
	security "istio.io/api/security/v1"
)

const notEnforced = "it is not enforced: "

var authorizationPolicy = Kind{
	Name: "AuthorizationPolicy", API: "security.istio.io/v1", Message: &security.AuthorizationPolicy{},
	Fields: []Field{
		{Fate: Warned, When: allowsAll, Why: notEnforced + "everything is let through, as it says", Fix: "remove it"},
		{Fate: Warned, When: auditsOnly, Why: notEnforced + "no request is marked by it; all that leaves the mesh is in the audit log anyway", Fix: "remove it"},
		{Fate: Refused, Why: notEnforced + "requests that it denies, or does not allow, would be let through",
			Fix: "remove it, and close the way otherwise: NetworkPolicies for traffic between pods, exportTo and Sidecars for traffic that leaves the mesh"},
	},
}

// allowsAll says whether a policy lets everything through.
func allowsAll(v any) bool {
	p, ok := v.(*security.AuthorizationPolicy)
	if !ok || p.Action != security.AuthorizationPolicy_ALLOW {
		return false
	}
	for _, r := range p.Rules {
		if len(r.From)+len(r.To)+len(r.When) == 0 {
			return true
		}
	}
	return false
}

func auditsOnly(v any) bool {
	p, ok := v.(*security.AuthorizationPolicy)
	return ok && p.Action == security.AuthorizationPolicy_AUDIT
}

var peerAuthentication = Kind{
	Name: "PeerAuthentication", API: "security.istio.io/v1", Message: &security.PeerAuthentication{},
	Fields: []Field{
		{Path: "selector", Fate: Idle},
		{Path: "mtls.mode", Fate: Refused, When: is("STRICT"), Why: notEnforced + "plain text would be taken where only mutual TLS should be",
			Fix: "remove it, or write PERMISSIVE; NetworkPolicies say which pods may connect"},
		{Path: "mtls.mode", Fate: Idle, Why: "pods take what comes"},
		{Path: "portLevelMtls.mode", Fate: Refused, When: is("STRICT"), Why: notEnforced + "plain text would be taken where only mutual TLS should be",
			Fix: "remove it, or write PERMISSIVE; NetworkPolicies say which pods may connect"},
		{Path: "portLevelMtls.mode", Fate: Idle, Why: "pods take what comes"},
	},
}

var requestAuthentication = Kind{
	Name: "RequestAuthentication", API: "security.istio.io/v1", Message: &security.RequestAuthentication{},
	Fields: []Field{
		{Path: "selector", Fate: Idle},
		{Path: "targetRef", Fate: Idle},
		{Path: "targetRefs", Fate: Idle},
		{Path: "jwtRules", Fate: Refused, Why: notEnforced + "requests with tokens that are forged or out of date would be let through",
			Fix: "remove it, and let the app verify its tokens"},
	},
}
