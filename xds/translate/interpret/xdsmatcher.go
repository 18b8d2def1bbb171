package interpret

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networkv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	sslv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/ssl/v3"
	ipv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/ip/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/metadata/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// awaitsAnswer ends a look at a matcher that asks about the answer before there is one.
type awaitsAnswer struct{}

// onRequest is onMatch as long as there is no answer. It waits for that where a matcher asks about it.
func (s *scope) onRequest(m *cncfmatcherv3.Matcher) (action *anypb.Any, waits bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, waits = r.(awaitsAnswer); !waits {
				panic(r)
			}
		}
	}()
	return s.onMatch(m), false
}

// onMatch is the action that a matcher tree leads to; nil for none. What matches and leads to a matcher within that does not is
// as what does not match.
func (s *scope) onMatch(m *cncfmatcherv3.Matcher) *anypb.Any {
	switch t := m.MatcherType.(type) {
	case nil:
	case *cncfmatcherv3.Matcher_MatcherList_:
		for _, field := range t.MatcherList.Matchers {
			if s.predicate(field.Predicate) {
				if found := s.led(field.OnMatch); found != nil {
					return found
				}
			}
		}
	case *cncfmatcherv3.Matcher_MatcherTree_:
		if found := s.inTree(t.MatcherTree); found != nil {
			return found
		}
	default:
		unknown("a matcher tree of type %T", m.MatcherType)
	}
	return s.led(m.OnNoMatch)
}

// inTree finds an input's value in a map, or the longest of its beginnings.
func (s *scope) inTree(t *cncfmatcherv3.Matcher_MatcherTree) *anypb.Any {
	value, ok := s.input(t.Input)
	if !ok {
		return nil
	}
	switch m := t.TreeType.(type) {
	case *cncfmatcherv3.Matcher_MatcherTree_ExactMatchMap:
		return s.led(m.ExactMatchMap.Map[value])
	case *cncfmatcherv3.Matcher_MatcherTree_PrefixMatchMap:
		for end := len(value); end >= 0; end-- {
			if found := s.led(m.PrefixMatchMap.Map[value[:end]]); found != nil {
				return found
			}
		}
		return nil
	default:
		unknown("a matcher's map of type %T", m)
		return nil
	}
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
		return s.single(t.SinglePredicate)
	default:
		unknown("a predicate of type %T", t)
		return false
	}
}

// single holds one input against one matcher.
func (s *scope) single(p *cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate) bool {
	switch by := p.Matcher.(type) {
	case *cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch:
		text, ok := s.input(p.Input)
		return ok && matchStringOf(by.ValueMatch, text)
	case *cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch:
		return s.custom(extension(p.Input), extension(by.CustomMatch))
	default:
		unknown("a predicate that is matched by %T", by)
		return false
	}
}

// custom holds an input against a matcher that goes with it alone.
func (s *scope) custom(input, matcher proto.Message) bool {
	switch m := matcher.(type) {
	case *cncfmatcherv3.CelMatcher:
		if _, ok := input.(*cncfmatcherv3.HttpAttributesCelMatchInput); !ok {
			unknown("an expression about %T", input)
		}
		v, err := evaluate(fromProto(m.ExprMatch.GetParsedExpr().GetExpr()), s) //nolint:staticcheck // as proxies are given it
		return err == nil && v.truth()
	case *ipv3.Ip:
		text, _ := s.inputOf(input)
		ip, err := netip.ParseAddr(text)
		return err == nil && slices.ContainsFunc(m.CidrRanges, func(r *corev3.CidrRange) bool {
			p, err := netip.ParsePrefix(r.AddressPrefix + "/" + strconv.Itoa(int(r.PrefixLen.GetValue())))
			return err == nil && p.Contains(ip)
		})
	case *metadatav3.Metadata:
		in, ok := input.(*networkv3.DynamicMetadataInput)
		if !ok {
			unknown("metadata of %T", input)
		}
		if in.Filter == "envoy.filters.http.jwt_authn" {
			return s.claimHolds(in, m.Value) != m.Invert
		}
		if len(in.Path) != 1 || m.GetValue().GetStringMatch() == nil {
			unknown("metadata by %v, held against %v", in, m)
		}
		text, there := s.metadata[in.Filter][in.Path[0].GetKey()]
		return (there && matchString(m.Value.GetStringMatch(), text)) != m.Invert
	default:
		unknown("a predicate that is matched by %T", m)
		return false
	}
}

// claimHolds holds a claim of the request's token against a matcher.
func (s *scope) claimHolds(in *networkv3.DynamicMetadataInput, m *matcherv3.ValueMatcher) bool {
	if in.Path[0].GetKey() != "payload" {
		unknown("metadata of tokens by %v", in)
	}
	var value any = s.claims
	for _, p := range in.Path[1:] {
		within, _ := value.(map[string]any)
		value = within[p.GetKey()]
	}
	return valueHolds(value, m)
}

func valueHolds(value any, m *matcherv3.ValueMatcher) bool {
	switch by := m.MatchPattern.(type) {
	case *matcherv3.ValueMatcher_StringMatch:
		text, is := value.(string)
		return is && matchString(by.StringMatch, text)
	case *matcherv3.ValueMatcher_ListMatch:
		list, _ := value.([]any)
		return slices.ContainsFunc(list, func(one any) bool { return valueHolds(one, by.ListMatch.GetOneOf()) })
	case *matcherv3.ValueMatcher_OrMatch:
		return slices.ContainsFunc(by.OrMatch.ValueMatchers, func(m *matcherv3.ValueMatcher) bool { return valueHolds(value, m) })
	default:
		unknown("a value held against %T", by)
		return false
	}
}

func (s *scope) input(in *cncfcorev3.TypedExtensionConfig) (string, bool) {
	return s.inputOf(extension(in))
}

func (s *scope) inputOf(in proto.Message) (string, bool) {
	switch m := in.(type) {
	case *matcherv3.HttpRequestHeaderMatchInput:
		if s.request == nil {
			return "", false
		}
		return s.request.header(m.HeaderName)
	case *matcherv3.HttpResponseHeaderMatchInput:
		panic(awaitsAnswer{})
	case *networkv3.FilterStateInput:
		v, ok := s.state[m.Key]
		return v.text, ok
	case *networkv3.DestinationIPInput:
		return s.to.Addr().String(), s.to.IsValid()
	case *networkv3.TransportProtocolInput:
		return s.transport, s.transport != ""
	case *networkv3.ApplicationProtocolInput:
		if len(s.alpn) == 0 {
			return "", false
		}
		return "'" + strings.Join(s.alpn, "','") + "'", true
	case *networkv3.DestinationPortInput:
		return strconv.Itoa(int(s.to.Port())), s.to.IsValid()
	case *networkv3.ServerNameInput:
		return s.sni, s.sni != ""
	case *networkv3.DirectSourceIPInput:
		return s.from.Addr().String(), s.from.IsValid()
	case *networkv3.SourceIPInput:
		from := s.remote()
		return from.String(), from.IsValid()
	case *sslv3.UriSanInput:
		return strings.Join(s.peer, ","), len(s.peer) > 0
	default:
		unknown("input %T", m)
		return "", false
	}
}

// remote is who a request is from: the last but so many that X-Forwarded-For names as proxies in front are believed (xff_num_trusted_hops), where it names that many and that one is
// an address; else who has the connection.
func (s *scope) remote() netip.Addr {
	if s.trusts == 0 || s.request == nil {
		return s.from.Addr()
	}
	named := strings.Split(s.request.Headers["x-forwarded-for"], ",")
	if at := len(named) - int(s.trusts); at >= 0 {
		if addr, err := netip.ParseAddr(strings.TrimSpace(named[at])); err == nil {
			return addr
		}
	}
	return s.from.Addr()
}

func extension(e *cncfcorev3.TypedExtensionConfig) proto.Message {
	m, err := e.TypedConfig.UnmarshalNew()
	if err != nil {
		unknown("extension %s: %v", e.Name, err)
	}
	if v, ok := m.(interface{ Validate() error }); ok && v.Validate() != nil {
		unknown("extension %s, which Envoy refuses: %v", e.Name, v.Validate())
	}
	return m
}
