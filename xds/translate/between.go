package translate

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	netrbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// AsksNobody says whether a resource of Abouts is about nothing, and denies nothing.
func AsksNobody(r *resource.Resource) bool {
	for _, nothing := range append(nobodyAsked(nil), nobodyAskedOfConnections(nil)...) {
		if nothing.Name == r.Name && nothing.Version == r.Version {
			return true
		}
	}
	return false
}

// Between is a resource of Abouts for while what judges by itself changes, too: somebody is asked about what is to be asked about, and what was asked
// about, or denied, until now is denied. nil where one of them is none that was made here.
func Between(before, now *resource.Resource) *resource.Resource {
	was, is := aboutOf(before), aboutOf(now)
	if was == nil || is == nil {
		return nil
	}
	denies := is.GetMatcher()
	for _, also := range []*cncfmatcherv3.Matcher{was.GetMatcher(), was.GetShadowMatcher()} {
		denies = either(also, denies)
	}
	switch m := is.(type) {
	case *httprbacv3.RBAC:
		m.Matcher = denies
	case *netrbacv3.RBAC:
		m.Matcher = denies
	}
	return envoy.SealExtension(now.Name, is)
}

// about is a filter of access of requests, or of connections.
type about interface {
	proto.Message
	GetMatcher() *cncfmatcherv3.Matcher
	GetShadowMatcher() *cncfmatcherv3.Matcher
}

func aboutOf(r *resource.Resource) about {
	c := &corev3.TypedExtensionConfig{}
	if r.Any().UnmarshalTo(c) != nil {
		return nil
	}
	m, err := c.TypedConfig.UnmarshalNew()
	if err != nil {
		return nil
	}
	a, _ := m.(about)
	return a
}

// either denies what the first matcher denies, and then what the second one does; either may be nil.
func either(first, then *cncfmatcherv3.Matcher) *cncfmatcherv3.Matcher {
	switch {
	case first == nil:
		return then
	case then == nil:
		return first
	}
	first = proto.CloneOf(first)
	goesOn(first, then)
	return first
}

// goesOn has a matcher go on with another one where it would allow.
func goesOn(m, then *cncfmatcherv3.Matcher) {
	on := []*envoy.OnMatch{m.OnNoMatch}
	for _, line := range m.GetMatcherList().GetMatchers() {
		on = append(on, line.OnMatch)
	}
	for _, tree := range []*cncfmatcherv3.Matcher_MatcherTree_MatchMap{m.GetMatcherTree().GetExactMatchMap(), m.GetMatcherTree().GetPrefixMatchMap()} {
		for _, o := range tree.GetMap() {
			on = append(on, o)
		}
	}
	for _, o := range on {
		if o.GetMatcher() != nil {
			goesOn(o.GetMatcher(), then)
			continue
		}
		action := &rbacv3.Action{}
		if o.GetAction().GetTypedConfig().UnmarshalTo(action) == nil && action.Action == rbacv3.RBAC_ALLOW {
			o.OnMatch = envoy.Further(then).OnMatch
		}
	}
}
