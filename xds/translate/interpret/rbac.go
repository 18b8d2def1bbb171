package interpret

import (
	"cmp"
	"slices"
	"strings"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// ruling is what rules of access control say.
type ruling struct {
	allows bool
	policy string // that decides; "" for none
}

// denial is Envoy's response code details of what is refused; "" of what is not.
func (r ruling) denial() string {
	if r.allows {
		return ""
	}
	return "rbac_access_denied_matched_policy[" + strings.Join(strings.Fields(cmp.Or(r.policy, "none")), "_") + "]"
}

// rule holds a request or connection against rules; nil without any.
func (s *scope) rule(rules *rbacv3.RBAC, matcher *cncfmatcherv3.Matcher) *ruling {
	if matcher != nil {
		action := &rbacv3.Action{Action: rbacv3.RBAC_DENY} // what nothing matches is refused
		if found := s.onMatch(matcher); found != nil {
			action = unpack("access control", found, action)
		}
		return &ruling{isAllow(action.Action), action.Name}
	}
	if rules == nil {
		return nil
	}
	matched := ""
	for name, p := range rules.Policies { // one that matches is enough
		if s.policyHolds(p) {
			matched = name
		}
	}
	return &ruling{isAllow(rules.Action) == (matched != ""), matched}
}

func isAllow(action rbacv3.RBAC_Action) bool {
	if action != rbacv3.RBAC_ALLOW && action != rbacv3.RBAC_DENY {
		unknown("the action %v of access control", action)
	}
	return action == rbacv3.RBAC_ALLOW
}

// access refuses the request where rules do not let it in, and notes what they say, and what shadow rules would. The answer is made
// before the rules' own say is noted.
func (r *stream) access(m *httprbacv3.RBAC) {
	if shadow := r.rule(nil, m.GetShadowMatcher()); shadow != nil {
		r.note(accessOfRequests, m.ShadowRulesStatPrefix+"shadow_", shadow)
	}
	if enforced := r.rule(m.GetRules(), m.GetMatcher()); enforced != nil {
		if !enforced.allows {
			r.reply(403, enforced.denial(), "")
		}
		r.note(accessOfRequests, m.GetRulesStatPrefix()+"enforced_", enforced)
	}
}

// The names under which filters of access note what they say.
const (
	accessOfRequests    = "envoy.filters.http.rbac"
	accessOfConnections = "envoy.filters.network.rbac"
)

// note puts a ruling into the dynamic metadata of a request, or a connection.
func (s *scope) note(filter, prefix string, by *ruling) {
	if s.metadata[filter] == nil {
		s.metadata[filter] = map[string]string{}
	}
	if by.policy != "" {
		s.metadata[filter][prefix+"effective_policy_id"] = by.policy
	}
	s.metadata[filter][prefix+"engine_result"] = map[bool]string{true: "allowed", false: "denied"}[by.allows]
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
