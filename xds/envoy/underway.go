package envoy

import (
	"time"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// The filters by which an agent is told of requests that are under way, and can end each by itself (docs/adr/0108-requests-under-way-end.md, 0112).
const (
	filterUnderWay = wire.StateUnderWay
	filterTells    = filterUnderWay + ".request"
)

// tellWithin is how long the agent may take to take note of a request, before that is answered that it cannot go on.
const tellWithin = 10 * time.Second

// aFew is a length of a body, in bytes, that is too short for anybody to end it: fewer than 100,000.
const aFew = "[0-9]{1,5}"

// untilWhole ends what is noted of a request whose body has not come yet: how long it took to come, which Envoy says of those alone that have come whole, is after it. It is where a
// path's query or fragment would be, of which agents read nothing.
const untilWhole = "#"

// underWay are the filters of an exit. They tell of requests whose body, or whose answer's, has no length that is said and short: a download, an upload, events, calls of gRPC, what is
// upgraded. The agent takes note, and says yes at once; where it says something more, while the request is under way, that ends. No body passes it.
//
// A request is told of when it comes, where its own body may be long, else when its answer begins, as what it was when policies judged it: a route may make another of it.
// What tells is made for what is told of, and for no other request: making one costs more than all else that policies do (docs/adr/0112-what-tells-is-made-for-what-is-told.md).
//
// They are off where nobody is to be ended (Keep).
func underWay() []*hcmv3.HttpFilter {
	as := cameAs("%REQ(" + wire.HeaderRegisteredIn + ")% %REQ(:AUTHORITY)%")
	return []*hcmv3.HttpFilter{
		off(httpFilter(filterUnderWay, &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{as}})),
		off(httpFilter(filterTells, tells("%DOWNSTREAM_PEER_URI_SAN%", "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%", HeaderKind, "%FILTER_STATE("+wire.StateSpoken+":PLAIN)%"))),
	}
}

// cameAs notes as what a request came, for which host is a format string of two words.
func cameAs(host string) *statev3.FilterStateValue {
	return State(wire.StateUnderWay, "%REQ(:METHOD)% "+host+" %REQ(:PATH)%"+untilWhole+"%REQUEST_DURATION%", NotShared)
}

// tells is what tells of requests whose client, and whose address, are format strings, and so is what else is told, as a header.
func tells(client, from, header, more string) *matchingv3.ExtensionWithMatcher {
	method := HeaderInput(":method")
	whole := Not(InputHasSuffix(StateInput(wire.StateUnderWay), untilWhole))
	connect := InputIs(method, "CONNECT") // whatever length its client says
	short := AllOf(InputMatches(HeaderInput("content-length"), aFew), Not(InputMatches(HeaderInput("upgrade"), ".+")), Not(connect))
	tunnel := AllOf(connect, InputMatches(StateInput(wire.StateTunnel), ".+")) // it has its connection to itself, and what is inside is told of by itself (package tunnels)
	answer := AnyOf(InputMatches(answerInput("content-length"), aFew), InputMatches(answerInput(":status"), "204|304"), InputIs(method, "HEAD"), tunnel)
	return madeWhen(MatchList([]*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{
		MatchCase(Not(AnyOf(whole, short, tunnel)), tell(client, from, header, more, &extprocv3.ProcessingMode{
			RequestHeaderMode: extprocv3.ProcessingMode_SEND, ResponseHeaderMode: extprocv3.ProcessingMode_SKIP, ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		})),
		MatchCase(Not(answer), tell(client, from, header, more, &extprocv3.ProcessingMode{ // waits for the answer
			RequestHeaderMode: extprocv3.ProcessingMode_SKIP, ResponseHeaderMode: extprocv3.ProcessingMode_SEND, ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		})),
	}, nil))
}

// madeWhen makes the filter that a matcher leads to.
func madeWhen(m *cncfmatcherv3.Matcher) *matchingv3.ExtensionWithMatcher {
	return &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.composite", TypedConfig: ToAny(&compositev3.Composite{})},
		XdsMatcher:      m,
	}
}

// answerInput is a header of an answer.
func answerInput(name string) *cncfcorev3.TypedExtensionConfig {
	return extension("header", &typematcherv3.HttpResponseHeaderMatchInput{HeaderName: name})
}

// tell makes what tells the agent of a request. What it waits for at the end keeps its stream open as long as the request is.
func tell(client, from, header, more string, mode *extprocv3.ProcessingMode) *OnMatch {
	told := func(key, value string) *corev3.HeaderValue { return &corev3.HeaderValue{Key: key, Value: value} }
	says := []*corev3.HeaderValue{
		told(wire.HeaderUnderWay, "%FILTER_STATE("+wire.StateUnderWay+":PLAIN)%"),
		told(wire.HeaderPeer, client),
		told(wire.HeaderFrom, from),
		told(wire.HeaderBegan, "%START_TIME(%s.%9f)%"),
		told(header, more),
	}
	return OnMatchAction("tell", &compositev3.ExecuteFilterAction{TypedConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.ext_proc", TypedConfig: ToAny(&extprocv3.ExternalProcessor{
		GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.UnderWayCluster}},
			InitialMetadata: says,
		},
		ProcessingMode:   mode,
		MessageTimeout:   durationpb.New(tellWithin),
		StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		ForwardRules:     &extprocv3.HeaderForwardingRules{AllowedHeaders: &typematcherv3.ListStringMatcher{Patterns: []*typematcherv3.StringMatcher{Exact("-")}}}, // none
		MutationRules:    &mutationv3.HeaderMutationRules{DisallowAll: wrapperspb.Bool(true)},
		RouteCacheAction: extprocv3.ExternalProcessor_RETAIN,
	})}})
}
