package envoy

import (
	"bytes"
	"strconv"
	"strings"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	celfilterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/filters/cel/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// What Envoy says when a rule of a policy refuses: the rule's name, as wire.Rule writes it, is in the response's details, from which
// it can be had before it is in the filter's metadata.
//
// Each Envoy keeps these expressions in each of its connection managers, which a node's has several of for each pod, and each of their operations
// takes some 270 bytes there: so what they have in common is written once, and what is escaped is read once for all of a text (docs/adr/0099-what-a-pod-costs-its-node.md).
const (
	rbacDenied = "rbac_access_denied_matched_policy["
	denies     = rbacDenied + wire.RuleDenies + "|" // and then the rest of the rule, and "]"
	isDenied   = "response.code_details.startsWith('" + denies + "')"
	deniedRule = `response.code_details.split('[')[1].split(']')[0]`
)

// What is said where a rule has no reason.
const (
	noRuleAllows = "no rule allows it"
	nobodyKnows  = "it selects by labels, and nobody knows the workload"
	noneIsGiven  = "the rule gives none"
)

// deniedPart is an expression for one of the rule's parts (from 1; the last of a rule ends in "]"), as it is written.
func deniedPart(n string) string { return "response.code_details.split('|')[" + n + "]" }

// readable is a format string for what an expression gives, as people read it.
func readable(expression string) string {
	return "%CEL((" + expression + ").replace('%20', ' ').replace('%7C', '|').replace('%5D', ']').replace('%5B', '[').replace('%25', '%'))%"
}

// deniedOwner is the rule's owner, with something behind it.
func deniedOwner(behind string) string { return deniedPart("5") + ".replace(']', '" + behind + "')" }

// deniedReason is the rule's reason, or in words what is none.
func deniedReason() string {
	is := func(rule string) string { return "response.code_details.contains('|" + rule + "|')" }
	return deniedPart("4") + " != '' ? " + deniedPart("4") + " : " + is("default") + " ? '" + noRuleAllows + "' : " + is("selector") + " ? '" + nobodyKnows + "' : '" + noneIsGiven + "'"
}

// deniedInWords is all of it in a sentence. What people wrote has no white space before it is read, so what has some is of the sentence.
func deniedInWords() string {
	without := func(begins, reason string) string {
		return ".replace('" + begins + ":  (', '" + begins + ": " + reason + " (')"
	}
	return readable("(" + deniedPart("1") + " + ', ' + " + deniedPart("2") + " + ': ' + " + deniedPart("4") + " + ' (owner: ' + " + deniedOwner(")") + ")" +
		without(", default", noRuleAllows) + without(", selector", nobodyKnows) + without("", noneIsGiven))
}

// denials are what clients read whose request a policy denies: text in browsers, JSON everywhere else. It names the client's own
// policy, or the root namespace's, and nobody else's.
func denials() *hcmv3.LocalReplyConfig {
	host := "%FILTER_STATE(" + wire.StateHost + ":PLAIN)%"
	allow := "- {hosts: [" + host + "], action: Allow%CEL(response.code_details.startsWith('" + denies + wire.MeshConfig + "/') ? ', unregistered: true' : '')%}"
	said := &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: wire.HeaderDenied, Value: "%RESPONSE_CODE_DETAILS%"}, // no functions can be had here that would cut it
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
	plain := text("sallyport: " + host + " is denied by EgressPolicy " + deniedInWords() + "\nTo allow it, write this before that rule:\n" + allow + "\n")
	plain.ContentType = "text/plain; charset=utf-8"
	json := &corev3.SubstitutionFormatString{Format: &corev3.SubstitutionFormatString_JsonFormat{JsonFormat: &structpb.Struct{Fields: map[string]*structpb.Value{
		"error": structpb.NewStringValue("denied by EgressPolicy"), "host": structpb.NewStringValue(host), "allow": structpb.NewStringValue(allow),
		"policy": structpb.NewStringValue("%CEL(" + deniedPart("1") + ")%"), "rule": structpb.NewStringValue("%CEL(" + deniedPart("2") + ")%"), // names have nothing to escape
		"reason": structpb.NewStringValue(readable(deniedReason())), "owner": structpb.NewStringValue(readable(deniedOwner(""))),
	}}}}
	plain.Formatters, json.Formatters = celFormatters(), celFormatters()
	browser := &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_AndFilter{AndFilter: &accesslogv3.AndFilter{Filters: []*accesslogv3.AccessLogFilter{
		when(isDenied),
		{FilterSpecifier: &accesslogv3.AccessLogFilter_HeaderFilter{HeaderFilter: &accesslogv3.HeaderFilter{Header: &routev3.HeaderMatcher{
			Name: "accept", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: "text/html"}}},
		}}}},
	}}}}
	headers := []*corev3.HeaderValueOption{said}
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		{Filter: browser, BodyFormatOverride: plain, HeadersToAdd: headers},
		{Filter: when(isDenied), BodyFormatOverride: json, HeadersToAdd: headers},
	}}
}

// isRefused says that a rule of an AuthorizationPolicy denies.
const isRefused = "response.code_details.startsWith('" + denies + wire.AuthorizationPolicy + "/')"

// refused is what clients read whose request an AuthorizationPolicy denies.
func refused() *hcmv3.ResponseMapper {
	said := text("sallyport: access denied by " + readable(deniedPart("1")+" + ', ' + "+deniedPart("2")) + "\n")
	said.ContentType, said.Formatters = "text/plain; charset=utf-8", celFormatters()
	return &hcmv3.ResponseMapper{Filter: when(isRefused), BodyFormatOverride: said}
}

// when filters by an expression (CEL).
func when(expression string) *accesslogv3.AccessLogFilter {
	return &accesslogv3.AccessLogFilter{FilterSpecifier: &accesslogv3.AccessLogFilter_ExtensionFilter{ExtensionFilter: &accesslogv3.ExtensionFilter{
		Name:       "envoy.access_loggers.extension_filters.cel",
		ConfigType: &accesslogv3.ExtensionFilter_TypedConfig{TypedConfig: ToAny(&celfilterv3.ExpressionFilter{Expression: expression, CelConfig: celConfig()})},
	}}}
}

// ruleRoom is how many bytes an answer has for what policies say: its lengths are written before what they are the lengths of.
const ruleRoom = 1536

// deniedAnswers are the answers to questions about connections that a policy denies, and what policies say of others, which is
// added to what the row answers: messages that follow one another are one. Every answer is held against both, and most are of neither
// kind, so that an expression is asked last, and only of what may be of its kind (docs/adr/0131-what-a-question-costs.md).
func deniedAnswers(verified bool) *hcmv3.LocalReplyConfig {
	denied := Answer{Route: wire.PolicyRoute, Cluster: wire.BlackHoleCluster}.metadata()
	keys := rulings(verified)
	return &hcmv3.LocalReplyConfig{Mappers: []*hcmv3.ResponseMapper{
		{Filter: allOf(statusIs(accesslogv3.ComparisonFilter_EQ, 403), when(isDenied)), StatusCode: wrapperspb.UInt32(200), BodyFormatOverride: withRoom("", denied, wire.AnswerDenied, deniedRule)},
		{Filter: hasSaid(FilterRBAC, keys), BodyFormatOverride: withRoom("%LOCAL_REPLY_BODY%", nil, wire.AnswerRules, ruled(keys))},
	}}
}

// rulings are where filters leave the rules of both levels, enforced and observed, and, where clients are verified, of AuthorizationPolicies.
func rulings(verified bool) []string {
	keys := []string{wire.StatRoot + wire.EnforcedRule, wire.StatOwn + wire.EnforcedRule, wire.StatRoot + wire.ShadowRule, wire.StatOwn + wire.ShadowRule}
	if verified {
		keys = append(keys, wire.StatAuthz+wire.EnforcedRule, wire.StatAuthz+wire.ShadowRule)
	}
	return keys
}

// ruled is an expression for these rules, as wire.ParseRuled reads them.
func ruled(keys []string) string {
	m := "metadata.filter_metadata['" + FilterRBAC + "']"
	var parts []string
	for _, key := range keys {
		parts = append(parts, "('"+key+"' in "+m+" ? "+m+"['"+key+"'] : '')")
	}
	return strings.Join(parts, " + ' ' + ")
}

// withRoom is a body that begins so, and ends in a message with a value from an expression.
func withRoom(begins string, m *structpb.Struct, key, expression string) *corev3.SubstitutionFormatString {
	if m == nil {
		m = &structpb.Struct{Fields: map[string]*structpb.Value{}}
	}
	room := strings.Repeat("~", ruleRoom)
	m.Fields[key] = structpb.NewStringValue(room)
	body, err := stable.Marshal(&servicev3.RateLimitResponse{OverallCode: servicev3.RateLimitResponse_OK, DynamicMetadata: m})
	if err != nil {
		panic("envoy: an answer does not marshal: " + err.Error()) // all of it is ASCII
	}
	body = bytes.ReplaceAll(body, []byte("%"), []byte("%%"))
	value := "%CEL((" + expression + " + '" + strings.Repeat(" ", ruleRoom) + "').substring(0, " + strconv.Itoa(ruleRoom) + "))%"
	body = append([]byte(begins), bytes.Replace(body, []byte(room), []byte(value), 1)...)
	return &corev3.SubstitutionFormatString{
		Formatters: celFormatters(), ContentType: "text/plain",
		Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: body}}},
	}
}
