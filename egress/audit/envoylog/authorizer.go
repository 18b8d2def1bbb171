package envoylog

import (
	"slices"

	"github.com/sallyport/sallyport/xds/wire"
)

// deniedByAuthorizer says that the authorizer denied it which a policy has asked, or that it could not be asked; of connections Envoy's details,
// which say which of both, are not there.
func (r *entry) deniedByAuthorizer(details string) bool {
	if r.rules == nil || !slices.Contains(r.Flags, "UAEX") {
		return false
	}
	rule := ruleOf(r.rules.Asked)
	if rule.Verdict != wire.RuleAsks {
		return false
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
