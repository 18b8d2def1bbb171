package envoy

import (
	"time"

	cncfcorev3 "github.com/cncf/xds/go/xds/core/v3"
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// The filters by which an exit's agent is told of requests that are under way, and can end each by itself (docs/adr/0108-requests-under-way-end.md).
const (
	filterUnderWay = wire.StateUnderWay
	filterSends    = filterUnderWay + ".request"
	filterBody     = filterUnderWay + ".body"
	filterAnswered = filterUnderWay + ".response"
)

// tellWithin is how long the agent may take to take note of a request, before that is answered that it cannot go on.
const tellWithin = 10 * time.Second

// aFew is a length of a body, in bytes, that is too short for anybody to end it: fewer than 100,000.
const aFew = "[0-9]{1,5}"

// underWay are the filters. They tell of requests whose body, or whose answer's, has no length that is said and short: a download, an upload, events, calls of gRPC, what is
// upgraded. The agent takes note, and says yes at once; where it says something more, while the request is under way, that ends. Bodies do not pass it, but for one that comes with a method
// that has none.
//
// A request is told of when it comes, where its own body may be long, else when its answer begins, as what it was when policies judged it: a route may make another of it.
//
// They are off where nobody is to be ended (Keep).
func underWay() []*hcmv3.HttpFilter {
	as := State(wire.StateUnderWay, "%REQ(:METHOD)% %REQ("+wire.HeaderRegisteredIn+")% %REQ(:AUTHORITY)% %REQ(:PATH)%", NotShared)
	method, length := HeaderInput(":method"), HeaderInput("content-length")
	upgrade := IsLike(HeaderInput("upgrade"), ".+")
	noBody := All(IsLike(method, "GET|HEAD|OPTIONS|TRACE|DELETE"), Not(IsLike(length, ".+")))
	short := All(Not(upgrade), Any(IsLike(length, aFew), noBody))
	connect := Is(method, "CONNECT") // what is inside is told of by itself (package tunnels)
	answer := Any(IsLike(answerInput("content-length"), aFew), IsLike(answerInput(":status"), "204|304"), Is(method, "HEAD"))
	filters := []*hcmv3.HttpFilter{
		httpFilter(filterUnderWay, &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{as}}),
		tellUnless(filterSends, Any(connect, short), &extprocv3.ProcessingMode{
			RequestHeaderMode: extprocv3.ProcessingMode_SEND, ResponseHeaderMode: extprocv3.ProcessingMode_SKIP, ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		}),
		tellUnless(filterBody, Any(upgrade, Not(noBody)), &extprocv3.ProcessingMode{
			RequestHeaderMode: extprocv3.ProcessingMode_SKIP, RequestBodyMode: extprocv3.ProcessingMode_STREAMED,
			ResponseHeaderMode: extprocv3.ProcessingMode_SKIP, ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		}),
		tellUnless(filterAnswered, Any(connect, Not(short), answer), &extprocv3.ProcessingMode{
			RequestHeaderMode: extprocv3.ProcessingMode_SKIP, ResponseHeaderMode: extprocv3.ProcessingMode_SEND, ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		}),
	}
	for _, f := range filters {
		off(f)
	}
	return filters
}

// answerInput is a header of an answer.
func answerInput(name string) *cncfcorev3.TypedExtensionConfig {
	return extension("header", &typematcherv3.HttpResponseHeaderMatchInput{HeaderName: name})
}

// tellUnless is the filter that tells the agent of requests of which something is not true. What it waits for at the end keeps its stream open as long as the request is.
func tellUnless(name string, is *Predicate, mode *extprocv3.ProcessingMode) *hcmv3.HttpFilter {
	told := func(key, value string) *corev3.HeaderValue { return &corev3.HeaderValue{Key: key, Value: value} }
	return httpFilter(name, &matchingv3.ExtensionWithMatcher{
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.ext_proc", TypedConfig: ToAny(&extprocv3.ExternalProcessor{
			GrpcService: &corev3.GrpcService{
				TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.UnderWayCluster}},
				InitialMetadata: []*corev3.HeaderValue{
					told(wire.HeaderUnderWay, "%FILTER_STATE("+wire.StateUnderWay+":PLAIN)%"),
					told(wire.HeaderPeer, "%DOWNSTREAM_PEER_URI_SAN%"),
					told(wire.HeaderFrom, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT%"),
					told(wire.HeaderBegan, "%START_TIME(%s.%9f)%"),
				},
			},
			ProcessingMode:   mode,
			MessageTimeout:   durationpb.New(tellWithin),
			StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
			ForwardRules:     &extprocv3.HeaderForwardingRules{AllowedHeaders: &typematcherv3.ListStringMatcher{Patterns: []*typematcherv3.StringMatcher{Exact("-")}}}, // none
			MutationRules:    &mutationv3.HeaderMutationRules{DisallowAll: wrapperspb.Bool(true)},
			RouteCacheAction: extprocv3.ExternalProcessor_RETAIN,
		})},
		XdsMatcher: InOrder([]*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{If(is, skipFilter())}, nil),
	})
}
