package envoy

import (
	"net/netip"
	"time"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	cncftypev3 "github.com/cncf/xds/go/xds/type/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	inputsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/common_inputs/network/v3"
	ipmatcherv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/ip/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/matching/input_matchers/metadata/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	celv1 "google.golang.org/genproto/googleapis/api/expr/v1alpha1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// What follows builds matching trees: of what a request shows, of which an action comes.
// https://www.envoyproxy.io/docs/envoy/latest/intro/arch_overview/advanced/matching/matching_api

// Predicate is a question that a matcher asks.
type Predicate = cncfmatcherv3.Matcher_MatcherList_Predicate

// OnMatch is what comes of it.
type OnMatch = cncfmatcherv3.Matcher_OnMatch

func extension(name string, config proto.Message) *cncfcorev3.TypedExtensionConfig {
	return &cncfcorev3.TypedExtensionConfig{Name: name, TypedConfig: ToAny(config)}
}

// StateInput is a value of the filter state.
func StateInput(key string) *cncfcorev3.TypedExtensionConfig {
	return extension("state", &inputsv3.FilterStateInput{Key: key})
}

// HeaderInput is a request's header.
func HeaderInput(name string) *cncfcorev3.TypedExtensionConfig {
	return extension("header", &typematcherv3.HttpRequestHeaderMatchInput{HeaderName: name})
}

// ClientAddressInput is the address that connected, whatever a request says.
func ClientAddressInput() *cncfcorev3.TypedExtensionConfig {
	return extension("from", &inputsv3.DirectSourceIPInput{})
}

// RemoteAddressInput is the address that a request is from, as far as those who handed it on are trusted; of a connection, that of whoever
// connected.
func RemoteAddressInput() *cncfcorev3.TypedExtensionConfig {
	return extension("remote", &inputsv3.SourceIPInput{})
}

// DestinationAddressInput is the address that was connected to.
func DestinationAddressInput() *cncfcorev3.TypedExtensionConfig {
	return extension("to", &inputsv3.DestinationIPInput{})
}

// PortInput is the port that was connected to.
func PortInput() *cncfcorev3.TypedExtensionConfig {
	return extension("port", &inputsv3.DestinationPortInput{})
}

// SNIInput is the name that the client's TLS asks for; nothing where there is none.
func SNIInput() *cncfcorev3.TypedExtensionConfig {
	return extension("sni", &inputsv3.ServerNameInput{})
}

// ExactMatchMap finds what comes of an input's exact value; otherwise is for all others.
func ExactMatchMap(input *cncfcorev3.TypedExtensionConfig, values map[string]*OnMatch, otherwise *OnMatch) *cncfmatcherv3.Matcher {
	return inTree(input, otherwise, &cncfmatcherv3.Matcher_MatcherTree{TreeType: &cncfmatcherv3.Matcher_MatcherTree_ExactMatchMap{
		ExactMatchMap: &cncfmatcherv3.Matcher_MatcherTree_MatchMap{Map: values},
	}})
}

// PrefixMatchMap finds what comes of the longest of the beginnings of an input's value.
func PrefixMatchMap(input *cncfcorev3.TypedExtensionConfig, values map[string]*OnMatch, otherwise *OnMatch) *cncfmatcherv3.Matcher {
	return inTree(input, otherwise, &cncfmatcherv3.Matcher_MatcherTree{TreeType: &cncfmatcherv3.Matcher_MatcherTree_PrefixMatchMap{
		PrefixMatchMap: &cncfmatcherv3.Matcher_MatcherTree_MatchMap{Map: values},
	}})
}

func inTree(input *cncfcorev3.TypedExtensionConfig, otherwise *OnMatch, tree *cncfmatcherv3.Matcher_MatcherTree) *cncfmatcherv3.Matcher {
	tree.Input = input
	return &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherTree_{MatcherTree: tree}, OnNoMatch: otherwise}
}

// MatchCase is one line of MatchList.
func MatchCase(p *Predicate, then *OnMatch) *cncfmatcherv3.Matcher_MatcherList_FieldMatcher {
	return &cncfmatcherv3.Matcher_MatcherList_FieldMatcher{Predicate: p, OnMatch: then}
}

// MatchList tries lines; otherwise is for what none takes.
func MatchList(lines []*cncfmatcherv3.Matcher_MatcherList_FieldMatcher, otherwise *OnMatch) *cncfmatcherv3.Matcher {
	if len(lines) == 0 {
		return &cncfmatcherv3.Matcher{OnNoMatch: otherwise}
	}
	return &cncfmatcherv3.Matcher{MatcherType: &cncfmatcherv3.Matcher_MatcherList_{MatcherList: &cncfmatcherv3.Matcher_MatcherList{Matchers: lines}}, OnNoMatch: otherwise}
}

// OnMatchMatcher goes on with another matcher.
func OnMatchMatcher(m *cncfmatcherv3.Matcher) *OnMatch {
	if m.MatcherType == nil {
		return m.OnNoMatch
	}
	return &OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Matcher{Matcher: m}}
}

// OnMatchAction ends with an action.
func OnMatchAction(name string, action proto.Message) *OnMatch {
	return &OnMatch{OnMatch: &cncfmatcherv3.Matcher_OnMatch_Action{Action: extension(name, action)}}
}

// OnMatchVerdict ends in a verdict of the filter of access, under a name that its metadata says.
func OnMatchVerdict(name string, allow bool) *OnMatch {
	a := &rbacv3.Action{Name: name, Action: rbacv3.RBAC_DENY}
	if allow {
		a.Action = rbacv3.RBAC_ALLOW
	}
	return OnMatchAction("rule", a)
}

func asks(input *cncfcorev3.TypedExtensionConfig, m *cncfmatcherv3.StringMatcher) *Predicate {
	return &Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input: input, Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_ValueMatch{ValueMatch: m},
	}}}
}

func asksBy(input *cncfcorev3.TypedExtensionConfig, matcher *cncfcorev3.TypedExtensionConfig) *Predicate {
	return &Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_{SinglePredicate: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate{
		Input: input, Matcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_SinglePredicate_CustomMatch{CustomMatch: matcher},
	}}}
}

// InputIs asks for an input's whole value.
func InputIs(input *cncfcorev3.TypedExtensionConfig, value string) *Predicate {
	return asks(input, &cncfmatcherv3.StringMatcher{MatchPattern: &cncfmatcherv3.StringMatcher_Exact{Exact: value}})
}

// InputHasSuffix asks for the end of one.
func InputHasSuffix(input *cncfcorev3.TypedExtensionConfig, suffix string) *Predicate {
	return asks(input, &cncfmatcherv3.StringMatcher{MatchPattern: &cncfmatcherv3.StringMatcher_Suffix{Suffix: suffix}})
}

// InputMatches asks whether an expression (RE2) means all of one.
func InputMatches(input *cncfcorev3.TypedExtensionConfig, expression string) *Predicate {
	return asks(input, &cncfmatcherv3.StringMatcher{MatchPattern: &cncfmatcherv3.StringMatcher_SafeRegex{SafeRegex: &cncfmatcherv3.RegexMatcher{
		EngineType: &cncfmatcherv3.RegexMatcher_GoogleRe2{GoogleRe2: &cncfmatcherv3.RegexMatcher_GoogleRE2{}}, Regex: expression,
	}}})
}

// InputInRanges asks whether an input, an address, is in one of the ranges.
func InputInRanges(input *cncfcorev3.TypedExtensionConfig, ranges []netip.Prefix) *Predicate {
	m := &ipmatcherv3.Ip{StatPrefix: "in"}
	for _, p := range ranges {
		m.CidrRanges = append(m.CidrRanges, &corev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))})
	}
	return asksBy(input, extension("ip", m))
}

// AllOf asks several things; of one, that.
func AllOf(list ...*Predicate) *Predicate {
	if len(list) == 1 {
		return list[0]
	}
	return &Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_AndMatcher{AndMatcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: list}}}
}

// AnyOf asks for one of several; of one, that.
func AnyOf(list ...*Predicate) *Predicate {
	if len(list) == 1 {
		return list[0]
	}
	return &Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_OrMatcher{OrMatcher: &cncfmatcherv3.Matcher_MatcherList_Predicate_PredicateList{Predicate: list}}}
}

// Not asks for the contrary.
func Not(p *Predicate) *Predicate {
	return &Predicate{MatchType: &cncfmatcherv3.Matcher_MatcherList_Predicate_NotMatcher{NotMatcher: p}}
}

// RuledBefore asks whether a filter of access that comes earlier noted, under a key, a rule whose name begins so.
func RuledBefore(key, prefix string) *Predicate { return noted(key, Prefix(prefix)) }

// NotedBefore asks whether it noted anything.
func NotedBefore(key string) *Predicate {
	return noted(key, &typematcherv3.StringMatcher{MatchPattern: &typematcherv3.StringMatcher_SafeRegex{SafeRegex: &typematcherv3.RegexMatcher{Regex: ".+"}}})
}

// TokenFilter is the name under which the filter that verifies tokens tells of them, and TokenPayload the key of what a good one says.
const (
	TokenFilter  = wire.TokenFilter
	TokenPayload = "payload"
)

// ClaimIsLike asks whether an expression (RE2) means all of a claim of the request's token, or, of a list, one in it. A token that was not
// verified has no claims.
func ClaimIsLike(claim []string, expression string) *Predicate {
	input := &inputsv3.DynamicMetadataInput{Filter: TokenFilter}
	for _, key := range append([]string{TokenPayload}, claim...) {
		input.Path = append(input.Path, &inputsv3.DynamicMetadataInput_PathSegment{Segment: &inputsv3.DynamicMetadataInput_PathSegment_Key{Key: key}})
	}
	like := &typematcherv3.StringMatcher{MatchPattern: &typematcherv3.StringMatcher_SafeRegex{SafeRegex: &typematcherv3.RegexMatcher{Regex: expression}}}
	return asksBy(extension("claim", input), extension("claim", &metadatav3.Metadata{Value: textOrOneOf(like)}))
}

// MatchClaim asks the same of a route, by any matcher of texts; without turns it round.
func MatchClaim(claim []string, text *typematcherv3.StringMatcher, without bool) *typematcherv3.MetadataMatcher {
	out := &typematcherv3.MetadataMatcher{Filter: TokenFilter, Value: textOrOneOf(text), Invert: without}
	for _, key := range append([]string{TokenPayload}, claim...) {
		out.Path = append(out.Path, &typematcherv3.MetadataMatcher_PathSegment{Segment: &typematcherv3.MetadataMatcher_PathSegment_Key{Key: key}})
	}
	return out
}

// textOrOneOf is true of a text that matches, and of a list with one.
func textOrOneOf(m *typematcherv3.StringMatcher) *typematcherv3.ValueMatcher {
	text := &typematcherv3.ValueMatcher{MatchPattern: &typematcherv3.ValueMatcher_StringMatch{StringMatch: m}}
	among := &typematcherv3.ValueMatcher{MatchPattern: &typematcherv3.ValueMatcher_ListMatch{ListMatch: &typematcherv3.ListMatcher{
		MatchPattern: &typematcherv3.ListMatcher_OneOf{OneOf: text},
	}}}
	return &typematcherv3.ValueMatcher{MatchPattern: &typematcherv3.ValueMatcher_OrMatch{OrMatch: &typematcherv3.OrMatcher{ValueMatchers: []*typematcherv3.ValueMatcher{text, among}}}}
}

func noted(key string, m *typematcherv3.StringMatcher) *Predicate {
	input := extension("ruled", &inputsv3.DynamicMetadataInput{Filter: FilterRBAC, Path: []*inputsv3.DynamicMetadataInput_PathSegment{
		{Segment: &inputsv3.DynamicMetadataInput_PathSegment_Key{Key: key}},
	}})
	return asksBy(input, extension("noted", &metadatav3.Metadata{Value: &typematcherv3.ValueMatcher{
		MatchPattern: &typematcherv3.ValueMatcher_StringMatch{StringMatch: m},
	}}))
}

// TimeBefore asks whether the request began before a time, to the second.
func TimeBefore(t time.Time) *Predicate { return requestTime("_<_", t) }

// TimeNotBefore asks the contrary.
func TimeNotBefore(t time.Time) *Predicate { return requestTime("_>=_", t) }

// requestTime compares request.time, by an expression (CEL).
func requestTime(operator string, t time.Time) *Predicate {
	expr := &celv1.Expr{Id: 1, ExprKind: &celv1.Expr_CallExpr{CallExpr: &celv1.Expr_Call{Function: operator, Args: []*celv1.Expr{
		{Id: 2, ExprKind: &celv1.Expr_SelectExpr{SelectExpr: &celv1.Expr_Select{
			Operand: &celv1.Expr{Id: 3, ExprKind: &celv1.Expr_IdentExpr{IdentExpr: &celv1.Expr_Ident{Name: "request"}}}, Field: "time",
		}}},
		{Id: 4, ExprKind: &celv1.Expr_CallExpr{CallExpr: &celv1.Expr_Call{Function: "timestamp", Args: []*celv1.Expr{
			{Id: 5, ExprKind: &celv1.Expr_ConstExpr{ConstExpr: &celv1.Constant{ConstantKind: &celv1.Constant_StringValue{StringValue: t.UTC().Format(time.RFC3339)}}}},
		}}}},
	}}}}
	return asksBy(extension("time", &cncfmatcherv3.HttpAttributesCelMatchInput{}), extension("cel", &cncfmatcherv3.CelMatcher{
		//nolint:staticcheck // the form that the pinned Envoy was tried with
		ExprMatch: &cncftypev3.CelExpression{ExprSpecifier: &cncftypev3.CelExpression_ParsedExpr{ParsedExpr: &celv1.ParsedExpr{Expr: expr}}},
	}))
}
