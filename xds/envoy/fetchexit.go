package envoy

import (
	"encoding/base64"

	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/wire"
)

// At an egress gateway what comes stays the stream that it is when its row is fetched (docs/adr/0206-gateways-rows-on-use.md): who the client is, what it says and what is asked of it is known of its own
// connection, and it is one record. A stream goes by its table as it was when it began, but by the table that its scope leads to whenever its route is looked for anew; so the gateway's table is found by a scope.
//
// Which filters a stream has, the row says that it begins with, and what they do, the row that it has when they are reached. So the row by which a stream waits has all filters that any row may need.

// filterFetchQuestion asks the agent about questions, which begin with the table's last row whatever they are about.
const filterFetchQuestion = FilterFetch + ".question"

// rowLacks is where a row says that it is there for those that there may be.
const rowLacks = "lacks"

// findAnew has a stream's route looked for again when the agent has said that it may: it says so by a header (HeaderFetched).
func findAnew(asks *authzv3.ExtAuthz) *authzv3.ExtAuthz {
	asks.ClearRouteCache = true
	return asks
}

// foundAnew has the table found by its scope, whatever what comes says.
func foundAnew(hcm *hcmv3.HttpConnectionManager, table string) {
	hcm.RouteSpecifier = byScope(headerRoutes)
	hcm.EarlyHeaderMutationExtensions = append(hcm.EarlyHeaderMutationExtensions, namesTable(table))
}

// FetchingTableListener is TableListener where the table's rows are fetched, without another stream.
func FetchingTableListener(name, table string, asked TableOwner) *listenerv3.Listener {
	return tableListener(name, table, asked, true)
}

// fetchForQuestion asks the agent about a question that has found the row for what is not there. Nothing else has to be asked about it before: no filter behind has looked at a row yet.
func fetchForQuestion() []*hcmv3.HttpFilter {
	found := MatchCase(Not(InputMatches(StateInput(wire.StateLacks), ".+")), skipFilter())
	return []*hcmv3.HttpFilter{
		httpFilter("sallyport.row", &httprbacv3.RBAC{}), // has the row found, see TableListener
		httpFilter(wire.StateLacks, &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{
			State(wire.StateLacks, "%METADATA(ROUTE:sallyport:"+rowLacks+")%", NotShared),
		}}),
		httpFilter(filterFetchQuestion, &matchingv3.ExtensionWithMatcher{
			ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.ext_authz", TypedConfig: ToAny(findAnew(asksAgent()))},
			XdsMatcher:      MatchList([]*cncfmatcherv3.Matcher_MatcherList_FieldMatcher{found}, nil),
		}),
	}
}

// filtersOfExitRows are the filters that rows of an exit turn on.
var filtersOfExitRows = []string{
	filterState, FilterCORS, FilterFault, FilterDynamicForwardProxy, FilterSession, filterAskedLed, FilterRootLed, FilterOwnLed,
}

// FetchAtExit is the last row of an exit's table whose rows are fetched: what comes for the first time waits until what there is for it is there, and is nobody's only when there is nothing. Each of these routes closes
// by itself, so that what nobody asked the agent about goes nowhere.
func FetchAtExit(last *routev3.VirtualHost, table string) *routev3.VirtualHost {
	first := func(r *routev3.Route) *routev3.Route {
		r.Match.Headers = append(r.Match.Headers, &routev3.HeaderMatcher{Name: HeaderFetched, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}, InvertMatch: true})
		return r
	}
	asks := func(r *routev3.Route, filter, key, value string) *routev3.Route {
		says := map[string]string{ondemand.FetchTable: table, ondemand.FetchAuthority: "yes"}
		if key != "" {
			says[key] = value
		}
		return WithFilterConfig(r, filter, ToAny(&authzv3.ExtAuthzPerRoute{Override: &authzv3.ExtAuthzPerRoute_CheckSettings{CheckSettings: &authzv3.CheckSettings{ContextExtensions: says}}}))
	}
	waits := func(match *routev3.RouteMatch) *routev3.Route {
		return first(Refuse(wire.FetchRoute, match, 503, "sallyport: what is registered for %REQ(:AUTHORITY)% could not be had. Try again.\n", nil))
	}
	closed := ClosedAnswer(wire.FetchRoute, "", "")
	question := first(closed.Row(MatchQuestion("")))
	question.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"sallyport": fields(rowLacks, "yes")}}
	asks(question, filterFetchQuestion, ondemand.FetchClosed, base64.StdEncoding.EncodeToString(closed.body()))
	// a filter that makes gRPC of such a request cannot be there for those alone whose row wants it
	web := waits(MatchAnyRequest())
	web.Match.Headers = append(web.Match.Headers, &routev3.HeaderMatcher{Name: "content-type", HeaderMatchSpecifier: HeaderMatches("(?i)application/grpc-web.*")})
	asks(web, FilterFetch, ondemand.FetchTwice, "yes")
	tunnel, request := waits(MatchAnyTunnel()), waits(MatchAnyRequest())
	for _, r := range []*routev3.Route{tunnel, request} {
		asks(EnableFilters(r, filtersOfExitRows...), FilterFetch, "", "")
	}
	last.Routes = append([]*routev3.Route{question, tunnel, web, request}, last.Routes...)
	return last
}

// StripFetchHeaders takes out of what goes on what was said of it for the sake of its row.
func StripFetchHeaders(table *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	table.RequestHeadersToRemove = append(table.RequestHeadersToRemove, HeaderFetched)
	return StripTableHeader(table)
}
