package envoy

import (
	"encoding/base64"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// A table whose rows are fetched when they are used (docs/adr/0035-fetch-on-use.md) ends in rows that ask the agent for what
// there is for a name or an address, wait until Envoy has it, and have the table asked again. It is asked anew, by another
// stream, since a stream goes by the table as it was when it began. Where the agent says nothing it ends there: what is
// registered must not be taken for what nobody registered.

// FilterFetch is the HTTP filter by which a row asks the agent.
const FilterFetch = "sallyport.fetch"

// MarkFetchedOnUse notes in a table that its rows are fetched, how long one stays that is not used, and whether the control plane is asked for them by name.
func MarkFetchedOnUse(t *routev3.RouteConfiguration, keep time.Duration, named bool) *routev3.RouteConfiguration {
	says := fields(ondemand.KeepMetadata, strconv.Itoa(int(keep.Seconds())))
	if named {
		says.Fields[ondemand.ByNameMetadata] = structpb.NewStringValue("yes")
		says.Fields[ondemand.EchoMetadata] = structpb.NewStringValue("yes")
	}
	t.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"sallyport": says}}
	return t
}

// fetchRow asks the agent.
func fetchRow() *hcmv3.HttpFilter { return httpFilter(FilterFetch, asksAgent()) }

// asksAgent is what it is. No header of a client's goes with it: the host is enough.
func asksAgent() *authzv3.ExtAuthz {
	said := &matcherv3.ListStringMatcher{}
	for _, name := range []string{ondemand.TableHeader, ondemand.ToHeader, ondemand.RangeHeader} {
		said.Patterns = append(said.Patterns, Exact(name))
	}
	return &authzv3.ExtAuthz{
		Services: &authzv3.ExtAuthz_GrpcService{GrpcService: &corev3.GrpcService{
			TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.XDSCluster}},
			Timeout:         durationpb.New(patience),
		}},
		TransportApiVersion: corev3.ApiVersion_V3,
		StatusOnError:       &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
		AllowedHeaders:      said,
	}
}

// notFetched is what a client reads where the agent gave no answer. (What the agent answers says itself why.)
func notFetched() *hcmv3.ResponseMapper {
	body := text("sallyport: %REQ(:AUTHORITY)% has not been used by this pod before, and the proxy's agent, which has what is registered for it, does not answer. Try again.\n")
	body.ContentType = "text/plain; charset=utf-8"
	return &hcmv3.ResponseMapper{Filter: when(`response.code_details == "ext_authz_error"`), BodyFormatOverride: body}
}

// withFetching has a route ask the agent first, and tells it something beside.
func withFetching(r *routev3.Route, key, value string) *routev3.Route {
	return WithFilterConfig(r, FilterFetch, ToAny(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{
		CheckSettings: &authzv3.CheckSettings{ContextExtensions: map[string]string{key: value}},
	}}))
}

// FetchRequestRoute takes requests that come for the first time, and has them come again at an internal listener (ReentryListener) as if they
// came from their client. It is the last row of its table.
func FetchRequestRoute(table string, again string) *routev3.Route {
	r := Route(wire.FetchRoute, MatchAnyRequest(), ToCluster(again))
	return withFetching(WithState(r,
		State(stateLocal, "%DOWNSTREAM_LOCAL_ADDRESS%", SharedOnce),
		State(stateRemote, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", SharedOnce),
		State(wire.StateSource, "%DOWNSTREAM_DIRECT_REMOTE_ADDRESS%", SharedOnce), // which that filter does not give back
	), ondemand.FetchTable, table)
}

// againTags are what the record says of requests that come again: their connection is one inside of Envoy.
func againTags() map[string]string {
	return map[string]string{wire.TagSource: TagFormats[wire.TagSource]}
}

// What Envoy's filter of original destinations reads at an internal listener.
const (
	stateLocal  = "envoy.filters.listener.original_dst.local_ip"
	stateRemote = "envoy.filters.listener.original_dst.remote_ip"
)

// OnlyReentered keeps a row to requests that come again.
func OnlyReentered(r *routev3.Route) *routev3.Route {
	r.Match.FilterState = append(r.Match.FilterState, MatchState(wire.StateFetched, ".+"))
	return r
}

// ReentryListener is the internal listener, with the cluster in front of it, where requests come again.
func ReentryListener(name string, filters ...*listenerv3.Filter) []*resource.Resource {
	l := InternalListener(name, []*listenerv3.ListenerFilter{OriginalDst()}, FilterChain("http", nil, append(
		[]*listenerv3.Filter{SetFilterState(State(wire.StateFetched, "yes", NotShared))}, filters...)...))
	c := InternalCluster(name)
	c.TypedExtensionProtocolOptions = DownstreamProtocol()
	return []*resource.Resource{SealCluster(c), Seal(resource.Listener, name, l)}
}

// FetchQuestionRoute takes questions that come for the first time, and has them come again. It is the first row of its table.
func FetchQuestionRoute(decide string) *routev3.Route {
	r := Route(wire.FetchRoute, MatchQuestion(""), ToCluster(wire.FetchName))
	r.Match.Headers = []*routev3.HeaderMatcher{{Name: HeaderFetched, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}, InvertMatch: true}}
	for _, h := range [...]struct{ name, value string }{{HeaderFetched, "yes"}, {HeaderTable, decide}} {
		r.RequestHeadersToAdd = append(r.RequestHeadersToAdd, &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: h.name, Value: h.value}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return r
}

// FetchListeners is where questions come again: what asks the agent, and then the table that a question names. It is apart from the
// tables since a filter is turned on by the row that is found when a stream begins, when it is not known yet what a question says.
func FetchListeners() []*resource.Resource {
	row := withFetching(&routev3.Route{
		Name: wire.FetchName,
		Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}, Headers: []*routev3.HeaderMatcher{
			{Name: HeaderFetched, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}},
		}},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: HeaderTable}, Timeout: durationpb.New(patience),
		}},
	}, ondemand.FetchClosed, base64.StdEncoding.EncodeToString(ClosedAnswer(wire.FetchRoute, "", "").body()))
	hcm := asksOnly(wire.FetchName)
	hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name: wire.FetchName, VirtualHosts: []*routev3.VirtualHost{{Name: wire.FetchName, Domains: []string{"*"}, Routes: []*routev3.Route{row}}},
	}}
	hcm.HttpFilters = []*hcmv3.HttpFilter{fetchRow(), httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true})}
	l := InternalListener(wire.FetchName, nil, FilterChain("questions", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
	return []*resource.Resource{SealCluster(QuestionCluster(wire.FetchName)), Seal(resource.Listener, wire.FetchName, l)}
}
