package interpret

import (
	"slices"
	"strings"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// allowed says why rules of access control refuse: Envoy's response code details; "" where they do not.
func (n *conn) allowed(s *scope, rules *rbacv3.RBAC, matcher *cncfmatcherv3.Matcher) string {
	if matcher != nil {
		action := &rbacv3.Action{Action: rbacv3.RBAC_DENY, Name: "none"} // what nothing matches is refused
		if found := s.onMatch(matcher); found != nil {
			action = unpack("access control", found, action)
		}
		return denial(action.Action, true, action.Name)
	}
	if rules == nil {
		return ""
	}
	matched := "none"
	for name, p := range rules.Policies { // one that matches is enough
		if s.policyHolds(p) {
			matched = name
		}
	}
	return denial(rules.Action, matched != "none", matched)
}

func denial(action rbacv3.RBAC_Action, matched bool, name string) string {
	switch {
	case action == rbacv3.RBAC_ALLOW && matched, action == rbacv3.RBAC_DENY && !matched:
		return ""
	case action == rbacv3.RBAC_ALLOW, action == rbacv3.RBAC_DENY:
		return "rbac_access_denied_matched_policy[" + name + "]"
	default:
		unknown("the action %v of access control", action)
		return ""
	}
}

func (s *scope) policyHolds(p *rbacv3.Policy) bool {
	if !slices.ContainsFunc(p.Permissions, s.permits) || !slices.ContainsFunc(p.Principals, s.isWho) {
		return false
	}
	if p.CheckedCondition != nil {
		unknown("checked_condition of access control")
	}
	if p.Condition == nil {
		return true
	}
	v, err := evaluate(fromProto(p.Condition), s)
	return err == nil && v.truth()
}

func (s *scope) permits(p *rbacv3.Permission) bool {
	switch r := p.Rule.(type) {
	case *rbacv3.Permission_Any:
		return r.Any
	case *rbacv3.Permission_NotRule:
		return !s.permits(r.NotRule)
	case *rbacv3.Permission_AndRules:
		return !slices.ContainsFunc(r.AndRules.Rules, func(p *rbacv3.Permission) bool { return !s.permits(p) })
	case *rbacv3.Permission_OrRules:
		return slices.ContainsFunc(r.OrRules.Rules, s.permits)
	case *rbacv3.Permission_DestinationPort:
		return uint32(s.to.Port()) == r.DestinationPort
	case *rbacv3.Permission_SourcedMetadata:
		m := r.SourcedMetadata
		if m.MetadataSource != rbacv3.MetadataSource_DYNAMIC {
			unknown("a permission by %v metadata", m.MetadataSource)
		}
		return s.metadataHolds(m.MetadataMatcher)
	default:
		unknown("a permission of type %T", r)
		return false
	}
}

func (s *scope) isWho(p *rbacv3.Principal) bool {
	switch i := p.Identifier.(type) {
	case *rbacv3.Principal_Any:
		return i.Any
	case *rbacv3.Principal_NotId:
		return !s.isWho(i.NotId)
	case *rbacv3.Principal_AndIds:
		return !slices.ContainsFunc(i.AndIds.Ids, func(p *rbacv3.Principal) bool { return !s.isWho(p) })
	case *rbacv3.Principal_OrIds:
		return slices.ContainsFunc(i.OrIds.Ids, s.isWho)
	case *rbacv3.Principal_Authenticated_:
		if i.Authenticated.PrincipalName == nil {
			return s.shaken && len(s.peer) > 0
		}
		return slices.ContainsFunc(s.peer, func(name string) bool { return matchString(i.Authenticated.PrincipalName, name) })
	case *rbacv3.Principal_Header:
		return s.request != nil && matchHeader(i.Header, s.request)
	default:
		unknown("a principal of type %T", i)
		return false
	}
}

// metadataHolds holds dynamic metadata against a matcher.
func (s *scope) metadataHolds(m *matcherv3.MetadataMatcher) bool {
	var path []string
	for _, p := range m.Path {
		path = append(path, p.GetKey())
	}
	if len(path) != 1 {
		unknown("metadata by the path %s", strings.Join(path, "."))
	}
	want := m.GetValue().GetStringMatch()
	if want == nil {
		unknown("metadata held against %T", m.GetValue().GetMatchPattern())
	}
	got, ok := s.metadata[m.Filter][path[0]]
	return (ok && matchString(want, got)) != m.Invert
}
