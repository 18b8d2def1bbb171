package interpret

import (
	"slices"
	"strings"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	sslv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// onMatch is the action that a matcher tree leads to; nil for none.
func (s *scope) onMatch(m *cncfmatcherv3.Matcher) *anypb.Any {
	list, ok := m.MatcherType.(*cncfmatcherv3.Matcher_MatcherList_)
	if !ok {
		unknown("a matcher tree of type %T", m.MatcherType)
	}
	for _, field := range list.MatcherList.Matchers {
		if s.predicate(field.Predicate) {
			return s.led(field.OnMatch)
		}
	}
	return s.led(m.OnNoMatch)
}

func (s *scope) led(on *cncfmatcherv3.Matcher_OnMatch) *anypb.Any {
	switch o := on.GetOnMatch().(type) {
	case nil:
		return nil
	case *cncfmatcherv3.Matcher_OnMatch_Action:
		return o.Action.TypedConfig
	case *cncfmatcherv3.Matcher_OnMatch_Matcher:
		return s.onMatch(o.Matcher)
	default:
		unknown("a matcher leads to %T", o)
		return nil
	}
}

func (s *scope) predicate(p *cncfmatcherv3.Matcher_MatcherList_Predicate) bool {
	switch t := p.MatchType.(type) {
	case *cncfmatcherv3.Matcher_MatcherList_Predicate_NotMatcher:
		return !s.predicate(t.NotMatcher)
	case *cncfmatcherv3.Matcher_MatcherList_Predicate_OrMatcher:
		return slices.ContainsFunc(t.OrMatcher.Predicate, s.predicate)
	case *cncfmatcherv3.Matcher_MatcherList_Predicate_AndMatcher:
		return !slices.ContainsFunc(t.AndMatcher.Predicate, func(p *cncfmatcherv3.Matcher_MatcherList_Predicate) bool { return !s.predicate(p) })
	case *cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_:
		value := t.SinglePredicate.GetValueMatch()
		if value == nil {
			unknown("a predicate that is matched by %T", t.SinglePredicate.Matcher)
		}
		text, ok := s.input(t.SinglePredicate.Input)
		return ok && matchStringOf(value, text)
	default:
		unknown("a predicate of type %T", t)
		return false
	}
}

func (s *scope) input(in *cncfcorev3.TypedExtensionConfig) (string, bool) {
	m, err := in.TypedConfig.UnmarshalNew()
	if err != nil {
		unknown("input %s: %v", in.Name, err)
	}
	switch m := m.(type) {
	case *matcherv3.HttpRequestHeaderMatchInput:
		if s.request == nil {
			return "", false
		}
		return s.request.header(m.HeaderName)
	case *sslv3.UriSanInput:
		return strings.Join(s.peer, ","), len(s.peer) > 0
	default:
		unknown("input %s: %T", in.Name, m)
		return "", false
	}
}
