package envoylog

import (
	"slices"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// deniedByAuthorizer says that the authorizer denied it which a policy has asked, or that it could not be asked; of connections Envoy's details,
// which say which of both, are not there.
func (r *entry) deniedByAuthorizer(details string) bool {
	if !slices.Contains(r.Flags, "UAEX") {
		return false
	}
	var rule wire.Rule
	if r.rules != nil {
		rule = ruleOf(r.rules.Asked)
	}
	if rule.Verdict != wire.RuleAsks {
		return r.deniedByRoute(details)
	}
	by := objectOf(rule)
	why := "denied by the provider " + rule.Reason
	if details == wire.AuthorizerFailed {
		why = "the provider " + rule.Reason + " could not be asked"
	}
	r.deny(r.pathDenied(), why+", as "+by.Kind+" "+by.Namespace+"/"+by.Name+" wants, rule "+rule.Rule)
	r.DecidedBy = by
	return true
}

// deniedByRoute says so of the authorizer that a route at an ingress gateway has asked.
func (r *entry) deniedByRoute(details string) bool {
	if r.place != wire.IngressHTTP {
		return false
	}
	r.DecidedBy = record.ParseObject(r.tags.policy)
	why := "denied by the authorizer that the route asks"
	if details == wire.AuthorizerFailed {
		why = "the authorizer that the route asks could not be asked"
	}
	r.deny(r.pathDenied(), why)
	return true
}
