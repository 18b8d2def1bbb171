package authzfilter

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"

	"github.com/sallyport/sallyport/serviceentry/authz"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// Filter is the filter of access for requests: what decides, and, where there are dry runs, what would if they were enforced. Without
// policies it lets all pass.
func Filter(set authz.Set, render func(authz.Set) *envoy.OnMatch) *httprbacv3.RBAC {
	f := &httprbacv3.RBAC{RulesStatPrefix: wire.StatAuthz}
	if enforced := set.Enforced(); len(enforced) > 0 {
		f.Matcher = whole(render(enforced))
	}
	if set.DryRuns() {
		f.ShadowMatcher, f.ShadowRulesStatPrefix = whole(render(set)), wire.StatAuthz
	}
	return f
}

// OfConnections is the filter of access for connections that asks the same.
func OfConnections(f *httprbacv3.RBAC) *netrbacv3.RBAC {
	return &netrbacv3.RBAC{StatPrefix: wire.StatAuthz, Matcher: f.Matcher, ShadowMatcher: f.ShadowMatcher, ShadowRulesStatPrefix: f.ShadowRulesStatPrefix}
}

// whole is a matcher of what comes anyway.
func whole(m *envoy.OnMatch) *cncfmatcherv3.Matcher {
	if inner := m.GetMatcher(); inner != nil {
		return inner
	}
	return &cncfmatcherv3.Matcher{OnNoMatch: m}
}
