package envoy

import (
	"strings"

	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/wire"
)

// What a node's proxy passes on to an address that a waypoint may stand before. No table of a port has pods' addresses, so one more is asked, of pods (wire.PodsTable): about
// connections by a question, which goes there from the port's table, and about requests by the filter for authorizers, since that is one which asks about a request and has its
// route found anew. Where no waypoint stands before the address nothing is said, and the request keeps the route that it had. See docs/adr/0079-waypoints-before-pods.md.

// filterPods is the HTTP filter by which a row asks. It comes before all others, so that those see the route that is found then.
const filterPods = "sallyport.pods"

// headerPod is where the answer is: the cluster of the waypoint, or, after podClosed, why nothing goes there. What a client says in it is not looked at (asksPods).
const (
	headerPod = "x-sallyport-pod"
	podClosed = "closed "
)

// asksPods has a connection manager's rows able to ask.
func asksPods(hcm *hcmv3.HttpConnectionManager) {
	hcm.EarlyHeaderMutationExtensions = append(hcm.EarlyHeaderMutationExtensions, early(&earlyv3.HeaderMutation{Mutations: []*mutationv3.HeaderMutation{{Action: &mutationv3.HeaderMutation_Remove{Remove: headerPod}}}}))
	hcm.HttpFilters = append([]*hcmv3.HttpFilter{off(askOfPods())}, hcm.HttpFilters...)
}

func askOfPods() *hcmv3.HttpFilter {
	said := func(name, value string) *corev3.HeaderValue { return &corev3.HeaderValue{Key: name, Value: value} }
	return httpFilter(filterPods, &authzv3.ExtAuthz{
		Services: &authzv3.ExtAuthz_HttpService{HttpService: &authzv3.HttpService{
			ServerUri: &corev3.HttpUri{
				Uri: "http://" + AllTables, Timeout: durationpb.New(patience), // of the URI nothing is read
				HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: AllTables},
			},
			AuthorizationRequest: &authzv3.AuthorizationRequest{HeadersToAdd: []*corev3.HeaderValue{
				said(HeaderTable, wire.PodsTable), said(HeaderKind, KindHTTP), said(HeaderTo, "%DOWNSTREAM_LOCAL_ADDRESS%"),
			}},
			AuthorizationResponse: &authzv3.AuthorizationResponse{AllowedUpstreamHeaders: headersLike([]string{headerPod})},
		}},
		StatPrefix:      wire.PodsTable,
		StatusOnError:   &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		ClearRouteCache: true,
	})
}

// AskOfPods has a row for what is passed on ask first, and turns on what the rows after the answer need: filters that no row turned on when a request came stay off.
func AskOfPods(row *routev3.Route) *routev3.Route {
	EnableFilters(row, filterPods)
	return WithoutHTTP11Only(WithState(row, State(wire.StateDialled, "%DOWNSTREAM_LOCAL_ADDRESS%", NotShared)))
}

// AnsweredByPod are the rows for requests of which it was said that a waypoint stands before their address: they go there, or end with what was said. What they match beside
// is the caller's to add.
func AnsweredByPod() (goes, ends *routev3.Route) {
	goes = Route(wire.PodRoute, MatchAnyRequest(), &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: headerPod}})
	goes.Match.Headers = []*routev3.HeaderMatcher{{Name: headerPod, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}}
	ends = Refuse(wire.ClosedRoute+"the waypoint before the pod's own address", MatchAnyRequest(), 503, "sallyport: nothing is sent to %REQ(:AUTHORITY)%: %REQ("+headerPod+")%\n", nil)
	ends.Match.Headers = []*routev3.HeaderMatcher{{Name: headerPod, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: Prefix(podClosed)}}}
	return ToPod(goes), ends
}

// ToPod has a row's requests say to the waypoint which address they are for.
func ToPod(row *routev3.Route) *routev3.Route {
	row.RequestHeadersToRemove = append(row.RequestHeadersToRemove, headerPod)
	return WithoutHTTP11Only(WithState(row,
		State(wire.StateServerName, wire.PodNameBegins+"%DOWNSTREAM_LOCAL_ADDRESS%"+wire.PodNameHTTP, NotShared),
		State(wire.StateProtocols, wire.ALPNPodHTTP, NotShared),
	))
}

// SaysPod answers what is asked about a request: its cluster, or, closed, why nothing goes there; neither where no waypoint is asked for.
func SaysPod(cluster, closed string) *routev3.Route {
	row := &routev3.Route{Name: wire.PodRoute, Match: MatchQuestion(KindHTTP), Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200}}}
	value := cluster
	if closed != "" {
		value = podClosed + closed
	}
	if value != "" {
		row.ResponseHeadersToAdd = []*corev3.HeaderValueOption{{
			Header: &corev3.HeaderValue{Key: headerPod, Value: strings.ReplaceAll(value, "%", "%%")}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}}
	}
	return row
}
