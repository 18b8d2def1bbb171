package translate

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
)

// answer is what a row says to a question (see there). Each of its values reaches the connection's filters as dynamic
// metadata; what is empty is left out.
type answer struct {
	route    string // its name, for the log
	config   string // the object that decides, where the cluster has none to say
	revision string // of the object that decides
	cluster  string // where to
	told     string // who else logs the connection, and knows more: toldByGateway or toldInside
	by       string // accesslog.ByAddress, where it was not the name

	// What goes by a gateway says whereto by the TLS name of its connection, see serverName. One of the three.
	sni     string // the whole of it
	sniOf   string // its beginning; what the client's TLS names comes after it
	dialled string // its beginning; the address that the client connected to comes after it, and then
	host    string //   the rest
	alpn    string

	// What an internal listener behind is told: of a pattern's hosts, the name is looked up there.
	behind string // the cluster after it
	port   string // of the server
}

// The names of an answer's values.
const (
	sayRoute    = "route"
	sayConfig   = "config"
	sayCluster  = "cluster"
	sayRevision = "revision"
	sayTold     = "told"
	sayBy       = "by"
	saySNI      = "sni"
	saySNIOf    = "sni_of"
	sayDialled  = "dialled"
	sayHost     = "host"
	sayALPN     = "alpn"
	sayBehind   = "behind"
	sayPort     = "port"
	sayThere    = "there" // "", where an internal listener behind is told more
)

// Who logs a connection that is not logged where it was asked about.
const (
	toldAtGateway = "gateway"
	toldInside    = "inside"
)

// metadata are the values.
func (a answer) metadata() *structpb.Struct {
	m := &structpb.Struct{Fields: map[string]*structpb.Value{sayCluster: structpb.NewStringValue(a.cluster)}}
	for k, v := range map[string]string{
		sayRoute: a.route, sayConfig: a.config, sayRevision: a.revision, sayTold: a.told, sayBy: a.by, saySNI: a.sni, saySNIOf: a.sniOf,
		sayDialled: a.dialled, sayHost: a.host, sayALPN: a.alpn, sayBehind: a.behind, sayPort: a.port,
	} {
		if v != "" {
			m.Fields[k] = structpb.NewStringValue(v)
		}
	}
	if a.behind != "" {
		m.Fields[sayThere] = structpb.NewStringValue("")
	}
	return m
}

// row answers the questions that match.
func (a answer) row(match *routev3.RouteMatch) *routev3.Route {
	body, err := deterministic.Marshal(&servicev3.RateLimitResponse{OverallCode: servicev3.RateLimitResponse_OK, DynamicMetadata: a.metadata()})
	if err != nil {
		panic("translate: an answer does not marshal: " + err.Error()) // only invalid UTF-8 can do that; admission refuses it
	}
	return &routev3.Route{Name: a.route, Match: match, Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{
		Status: 200, Body: &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: body}},
	}}}
}

// nothing is the answer for what is closed.
func nothing(route, config, revision string) answer {
	return answer{route: route, config: config, revision: revision, cluster: blackHoleCluster}
}

// asksAbout matches questions; kind may be "" for all of them. No request of a client's has this in its filter state.
func asksAbout(kind string) *routev3.RouteMatch {
	m := &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
	state := holds(stateQuestion, ".+")
	if kind != "" {
		state.Matcher = &matcherv3.FilterStateMatcher_StringMatch{StringMatch: exact(kind)}
	}
	m.FilterState = []*matcherv3.FilterStateMatcher{state}
	return m
}

// IsAnswer says whether a route answers questions about connections, rather than taking requests.
func IsAnswer(r *routev3.Route) bool {
	return slices.ContainsFunc(r.GetMatch().GetFilterState(), func(f *matcherv3.FilterStateMatcher) bool { return f.Key == stateQuestion })
}

// said is a format string for one of an answer's values.
func said(value string) string { return "%DYNAMIC_METADATA(" + filterAsk + ":" + value + ")%" }

// saidIn is the same in an expression. Where it was not said the expression fails, and gives nothing.
func saidIn(value string) string {
	return "metadata.filter_metadata['" + filterAsk + "']['" + value + "']"
}

// computed is a value of the filter state from an expression (CEL).
func computed(key, expression string, shared statev3.FilterStateValue_SharedWithUpstream) *statev3.FilterStateValue {
	v := state(key, "%CEL("+expression+")%", shared)
	v.GetFormatString().Formatters = []*corev3.TypedExtensionConfig{{Name: "envoy.formatter.cel", TypedConfig: packed(&celv3.Cel{
		CelConfig: &corev3.CelExpressionConfig{EnableStringConcat: true, EnableStringConversion: true, EnableStringFunctions: true},
	})}}
	return v
}

// goesBy sets what a TCP proxy goes by, from the answer.
func goesBy(more ...*statev3.FilterStateValue) *listenerv3.Filter {
	return setState(append([]*statev3.FilterStateValue{state(stateTCPCluster, said(sayCluster), stay)}, more...)...)
}

// sayHeader puts a header of a question into the filter state.
func sayHeader(key, header string) []*statev3.FilterStateValue {
	return []*statev3.FilterStateValue{state(key, "%REQ("+header+")%", stay)}
}

// tunnelName is the TLS name by which a tunnel says whereto it wants, "outbound_.PORT_.SUBSET_.HOST", in its parts: what
// comes before the subset, and before the host. The subset is the namespace whose registration is meant, where several
// registered the host, and the address that the client connected to, where that counts: "NAMESPACE~ADDRESS:PORT".
func tunnelName(port uint32, subset string) (toSubset, toHost string) {
	toSubset = "outbound_." + routeName(port) + "_." + subset
	return toSubset, toSubset + "_."
}
