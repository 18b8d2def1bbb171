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
	"github.com/sallyport/sallyport/xds/wire"
)

// CallsNoAuthorizer says whether a resource of Abouts is about nothing, and denies nothing.
func CallsNoAuthorizer(r *resource.Resource) bool {
	for _, nothing := range append(nobodyAsked(nil), nobodyAskedOfConnections(nil)...) {
		if nothing.Name == r.Name && nothing.Version == r.Version {
			return true
		}
	}
	return false
}

// InTransition is a resource of Abouts for while what judges by itself changes, too: what it denies, before or now, is denied, and somebody is asked about what is to be
// asked about. What was asked about until now is asked about as well where the same one is asked, in the same way, before and now; and where not, denied: another one's answer
// says nothing of it. Both are such as are served, so it is about as large as both together. nil where one of them is none that was made here.
func InTransition(before, now *resource.Resource, sameAsked bool) *resource.Resource {
	was, is := aboutOf(before), aboutOf(now)
	if was == nil || is == nil {
		return nil
	}
	denies, asks := was.GetMatcher(), is.GetShadowMatcher()
	if sameAsked {
		asks = either(asks, was.GetShadowMatcher())
	} else {
		denies = either(denies, unless(asks, was.GetShadowMatcher()))
	}
	denies = either(is.GetMatcher(), denies)
	switch m := is.(type) {
	case *httprbacv3.RBAC:
		m.Matcher, m.ShadowMatcher = denies, asks
	case *netrbacv3.RBAC:
		m.Matcher, m.ShadowMatcher = denies, asks
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
	return goesOn(first, then, nil)
}

// unless denies what a matcher does where another one does not; either may be nil.
func unless(asks, denies *cncfmatcherv3.Matcher) *cncfmatcherv3.Matcher {
	if asks == nil || denies == nil {
		return denies
	}
	return goesOn(asks, denies, envoy.OnMatchVerdict(wire.NoRule, true))
}

// goesOn is a matcher that goes on with another one where it would allow. instead is what it does where it would deny; nil for that.
func goesOn(m, then *cncfmatcherv3.Matcher, instead *envoy.OnMatch) *cncfmatcherv3.Matcher {
	m = proto.CloneOf(m)
	ends := func(o *envoy.OnMatch, then *cncfmatcherv3.Matcher) {
		action := &rbacv3.Action{}
		switch {
		case o.GetMatcher() != nil:
			o.OnMatch = envoy.OnMatchMatcher(goesOn(o.GetMatcher(), then, instead)).OnMatch
		case o.GetAction().GetTypedConfig().UnmarshalTo(action) != nil:
		case action.Action == rbacv3.RBAC_ALLOW:
			o.OnMatch = envoy.OnMatchMatcher(then).OnMatch
		case instead != nil:
			o.OnMatch = instead.OnMatch
		}
	}
	for _, line := range m.GetMatcherList().GetMatchers() {
		ends(line.OnMatch, then)
	}
	tree := m.GetMatcherTree()
	for value, o := range tree.GetExactMatchMap().GetMap() {
		ends(o, at(then, tree, value))
	}
	for _, o := range tree.GetPrefixMatchMap().GetMap() {
		ends(o, then)
	}
	if m.OnNoMatch != nil {
		ends(m.OnNoMatch, elsewhere(then, tree))
	}
	return m
}

// at is what a matcher does where a tree found a value: of a tree of the same input that is one branch, so two such trees together are as large as both.
func at(m *cncfmatcherv3.Matcher, found *tree, value string) *cncfmatcherv3.Matcher {
	if !sameInput(m.GetMatcherTree(), found) {
		return m
	}
	if o, ok := m.GetMatcherTree().GetExactMatchMap().GetMap()[value]; ok {
		return branch(o)
	}
	return branch(m.OnNoMatch)
}

// elsewhere is what a matcher does where a tree found nothing.
func elsewhere(m *cncfmatcherv3.Matcher, found *tree) *cncfmatcherv3.Matcher {
	if !sameInput(m.GetMatcherTree(), found) {
		return m
	}
	for value := range m.GetMatcherTree().GetExactMatchMap().GetMap() {
		if _, ok := found.GetExactMatchMap().GetMap()[value]; !ok {
			return m
		}
	}
	return branch(m.OnNoMatch)
}

type tree = cncfmatcherv3.Matcher_MatcherTree

func sameInput(a, b *tree) bool {
	return a.GetExactMatchMap() != nil && b.GetExactMatchMap() != nil && proto.Equal(a.Input, b.Input)
}

// branch is a matcher of what comes anyway.
func branch(o *envoy.OnMatch) *cncfmatcherv3.Matcher {
	if m := o.GetMatcher(); m != nil {
		return m
	}
	return &cncfmatcherv3.Matcher{OnNoMatch: o}
}
