package envoy

import (
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	celv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/formatter/cel/v3"
	servicev3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/wire"
)

// Answer is what a row says to a question (see there). Each of its values reaches the connection's filters as dynamic
// metadata; what is empty is left out.
type Answer struct {
	Route    string // its name, for the log
	Config   string // the object that decides, where the cluster has none to say
	Revision string // of the object that decides
	Cluster  string // where to
	LoggedBy string // who else logs the connection, and knows more: LoggedAtGateway, LoggedInside or LoggedAtPod
	By       string // wire.ByAddress, where it was not the name

	// What goes by a gateway says whereto by the TLS name of its connection, see wire.TunnelName. One of the three.
	Sni     string // the whole of it
	SniOf   string // its beginning; what the client's TLS names comes after it
	Dialled string // its beginning; the address that the client connected to comes after it, and then
	Host    string //   the rest
	Alpn    string

	// What an internal listener behind is told: of a pattern's hosts, the name is looked up there.
	Behind string // the cluster after it
	Port   string // of the server
}

// The names of an answer's values.
const (
	sayRoute    = "route"
	sayConfig   = "config"
	sayCluster  = "cluster"
	sayRevision = "revision"
	SayLoggedBy = "told"
	sayBy       = "by"
	SaySNI      = "sni"
	SaySNIOf    = "sni_of"
	SayDialled  = "dialled"
	SayHost     = "host"
	SayALPN     = "alpn"
	SayBehind   = "behind"
	SayPort     = "port"
	SayThere    = "there" // "", where an internal listener behind is told more
	sayLeaves   = "leaves"
	saysLeaves  = "1"
)

// Who logs a connection that is not logged where it was asked about.
const (
	LoggedAtGateway = "gateway"
	LoggedInside    = "inside"
	LoggedAtPod     = "pod" // or by nobody, as the mesh's settings say
)

// metadata are the values.
func (a Answer) metadata() *structpb.Struct {
	m := &structpb.Struct{Fields: map[string]*structpb.Value{sayCluster: structpb.NewStringValue(a.Cluster)}}
	for _, said := range [...]struct{ key, value string }{
		{sayRoute, a.Route}, {sayConfig, a.Config}, {sayRevision, a.Revision}, {SayLoggedBy, a.LoggedBy}, {sayBy, a.By}, {SaySNI, a.Sni}, {SaySNIOf, a.SniOf},
		{SayDialled, a.Dialled}, {SayHost, a.Host}, {SayALPN, a.Alpn}, {SayBehind, a.Behind}, {SayPort, a.Port},
	} {
		if said.value != "" {
			m.Fields[said.key] = structpb.NewStringValue(said.value)
		}
	}
	if a.Behind != "" {
		m.Fields[SayThere] = structpb.NewStringValue("")
	}
	return m
}

// Row answers the questions that match.
func (a Answer) Row(match *routev3.RouteMatch) *routev3.Route {
	return &routev3.Route{Name: a.Route, Match: match, Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
		Status: 200, Body: inlineBytes(a.body()),
	}}}
}

func inlineBytes(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}

// body is the message that the connection's filter takes.
func (a Answer) body() []byte {
	return answerBody(&servicev3.RateLimitResponse{OverallCode: servicev3.RateLimitResponse_OK, DynamicMetadata: a.metadata()})
}

func answerBody(m *servicev3.RateLimitResponse) []byte {
	body, err := stable.Marshal(m)
	if err != nil {
		panic("translate: an answer does not marshal: " + err.Error()) // only invalid UTF-8 can do that; admission refuses it
	}
	return body
}

// sayItLeaves has an answer say that what it is about leaves from here, so that its beginning is told of. Messages that follow one another are one.
func sayItLeaves(row *routev3.Route) {
	body := row.GetDirectResponse().GetBody()
	if body == nil { // it asks again
		return
	}
	more := answerBody(&servicev3.RateLimitResponse{DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{sayLeaves: structpb.NewStringValue(saysLeaves)}}})
	body.Specifier = &corev3.DataSource_InlineBytes{InlineBytes: slices.Concat(body.GetInlineBytes(), more)}
}

// ClosedAnswer is the answer for what is closed.
func ClosedAnswer(route, config, revision string) Answer {
	return Answer{Route: route, Config: config, Revision: revision, Cluster: wire.BlackHoleCluster}
}

// inAnyKind is in each kind of a question. Envoy has no cheaper way to ask whether there is one: an expression takes more of its memory than the rest of a
// row does, and each row has one (docs/adr/0203-what-a-row-takes.md).
const inAnyKind = "t"

// MatchQuestion matches questions; kind may be "" for all of them. No request of a client's has this in its filter state.
func MatchQuestion(kind string) *routev3.RouteMatch {
	m := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	of := Exact(kind)
	if kind == "" {
		of = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Contains{Contains: inAnyKind}}
	}
	m.FilterState = []*matcherv3.FilterStateMatcher{{Key: wire.StateQuestion, Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: of}}}
	return m
}

// IsAnswer says whether a route answers questions about connections, rather than taking requests.
func IsAnswer(r *routev3.Route) bool {
	return slices.ContainsFunc(r.GetMatch().GetFilterState(), func(f *matcherv3.FilterStateMatcher) bool { return f.Key == wire.StateQuestion })
}

// AnswerFormat is a format string for one of an answer's values.
func AnswerFormat(value string) string { return "%DYNAMIC_METADATA(" + FilterAsk + ":" + value + ")%" }

// AnswerExpression is the same in an expression. Where it was not said the expression fails, and gives nothing.
func AnswerExpression(value string) string {
	return "metadata.filter_metadata['" + FilterAsk + "']['" + value + "']"
}

// TunnelProtocols is what a connection to an egress gateway offers (ALPN): what is in it, which the gateway takes, and the cluster that it is for, which gateways
// between networks go by, since its TLS name is that of a host outside. Nothing is said where the answer names no protocol.
func TunnelProtocols() *statev3.FilterStateValue {
	return ComputedState(wire.StateProtocols, AnswerExpression(SayALPN)+" + ',' + "+AnswerExpression(sayCluster), NotShared)
}

// ShareRulings tells the internal listener behind, which logs the connection, what policies said when it was asked about.
func ShareRulings() *statev3.FilterStateValue {
	return ComputedState(wire.StateRules, AnswerExpression(SayThere)+" + "+AnswerExpression(wire.AnswerRules), SharedOnce)
}

// ComputedState is a value of the filter state from an expression (CEL).
func ComputedState(key, expression string, shared statev3.FilterStateValue_SharedWithUpstream) *statev3.FilterStateValue {
	v := State(key, "%CEL("+expression+")%", shared)
	v.GetFormatString().Formatters = celFormatters()
	return v
}

// celFormatters let a format string hold expressions (CEL).
func celFormatters() []*corev3.TypedExtensionConfig {
	return []*corev3.TypedExtensionConfig{{Name: "envoy.formatter.cel", TypedConfig: ToAny(&celv3.Cel{CelConfig: celConfig()})}}
}

// celConfig is what expressions may use.
func celConfig() *corev3.CelExpressionConfig {
	return &corev3.CelExpressionConfig{EnableStringConcat: true, EnableStringConversion: true, EnableStringFunctions: true}
}

// RouteByAnswer sets what a TCP proxy goes by, from the answer.
func RouteByAnswer(more ...*statev3.FilterStateValue) *listenerv3.Filter {
	return SetFilterState(append([]*statev3.FilterStateValue{State(wire.StateTCPCluster, AnswerFormat(sayCluster), NotShared)}, more...)...)
}

// sayHeader puts a header of a question into the filter state.
func sayHeader(key, header string) *statev3.FilterStateValue {
	return State(key, "%REQ("+header+")%", NotShared)
}
