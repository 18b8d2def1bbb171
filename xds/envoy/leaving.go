package envoy

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// What ends requests that leave where no exit is: straight from a sidecar or from a node, or by a waypoint (docs/adr/0129-what-leaves-elsewhere-ends-too.md). Rows say what leaves
// (MarkOutside, OutsideFilterConfigs), and turn these filters on, wherever they are. What the filters do comes by ECDS, so that they do nothing, without
// a row or a listener that changes, where there are no policies.

// FilterLeaving notes what policies were asked about, and how long the rule that let it through may have it go on; FilterLeavingLasts tells Envoy's router
// that, and FilterLeavingTells the agent.
const (
	FilterLeaving      = "sallyport.leaving"
	FilterLeavingLasts = FilterLeaving + ".lasts"
	FilterLeavingTells = FilterLeaving + ".tells"
)

// The types of what they hold.
const (
	stateType  = "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config"
	headerType = "type.googleapis.com/envoy.extensions.filters.http.header_mutation.v3.HeaderMutation"
)

// filtersOfLeaving are on in rows of what leaves.
var filtersOfLeaving = []string{FilterLeaving, FilterLeavingLasts, FilterLeavingTells}

// leaving are the filters. They come after those that ask policies.
func leaving() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{leavingBy(FilterLeaving, stateType), leavingBy(FilterLeavingLasts, headerType), leavingBy(FilterLeavingTells, indexType)}
}

// leavingTold are those of them by which the agent is told.
func leavingTold() []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{leavingBy(FilterLeaving, stateType), leavingBy(FilterLeavingTells, indexType)}
}

func leavingBy(name, kind string) *hcmv3.HttpFilter {
	return off(&hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_ConfigDiscovery{ConfigDiscovery: ECDSSource(kind)}})
}

// Leaving is what they do: nothing where there are no policies; ends says whether rules of theirs end.
func Leaving(policies, ends bool) []*resource.Resource {
	notes, lasts, made := &httpstatev3.Config{}, &headersv3.HeaderMutation{}, madeWhen(&cncfmatcherv3.Matcher{})
	if policies {
		state := func(key string) string { return "%FILTER_STATE(" + key + ":PLAIN)%" }
		notes.OnRequestHeaders = append(notes.OnRequestHeaders, cameAs(state(wire.StateOutside)+" "+state(wire.StateHost)+state(wire.StateAt)))
		made = tells(state(wire.StateClient), state(wire.StateFrom), HeaderTable, TableFormat)
	}
	if ends {
		notes.OnRequestHeaders = append(notes.OnRequestHeaders, mayGoOn())
		lasts = saysHowLong()
	}
	return []*resource.Resource{SealExtension(FilterLeaving, notes), SealExtension(FilterLeavingLasts, lasts), SealExtension(FilterLeavingTells, made)}
}

// LeavingListener is the internal listener, and the cluster before it, where the agent asks whether what is under way may be: of requests policies alone are asked, about what they were
// asked about when it began. So whatever row led it, and whatever has become of that, the question is the same. What is asked of a connection's table is handed on there: to the cluster
// that the question names, or to one where all tables are asked.
func LeavingListener(tables string) []*resource.Resource {
	hcm := asksOnly(wire.LeavingDecide)
	hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
		Name: wire.LeavingDecide, VirtualHosts: []*routev3.VirtualHost{{Name: wire.LeavingDecide, Domains: []string{"*"}, Routes: []*routev3.Route{
			askTable(tables),
			Answer{Route: "default", Cluster: wire.PassthroughCluster}.Row(&routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}), // policies let it
		}}},
	}}
	asked := []*statev3.FilterStateValue{
		hostAsked(), portAsked(), sayHeader(wire.StateOutside, wire.HeaderOutside), sayHeader(wire.StateClient, HeaderPeer), sayHeader(wire.StateFrom, HeaderFrom),
		sayHeader(wire.StateSpoken, HeaderKind),
	}
	hcm.HttpFilters = []*hcmv3.HttpFilter{
		httpFilter(filterAsked, &httpstatev3.Config{OnRequestHeaders: asked}), byPolicy(FilterRoot), byPolicy(FilterOwn),
		httpFilter("envoy.filters.http.router", &routerv3.Router{SuppressEnvoyHeaders: true}),
	}
	hcm.LocalReplyConfig = deniedAnswers(false)
	l := InternalListener(wire.LeavingDecide, nil, FilterChain("questions", nil, NetworkFilter("envoy.filters.network.http_connection_manager", hcm)))
	return []*resource.Resource{SealCluster(QuestionCluster(wire.LeavingDecide)), Seal(resource.Listener, wire.LeavingDecide, l)}
}

// askTable hands a question on to its table. Of a table that is not there any more the agent reads that it is not found (package tunnels).
func askTable(tables string) *routev3.Route {
	action := &routev3.RouteAction{Timeout: durationpb.New(patience), ClusterNotFoundResponseCode: routev3.RouteAction_NOT_FOUND, ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: HeaderTable}}
	if tables != "" {
		action.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: tables}
	}
	return &routev3.Route{Name: "table", Action: &routev3.Route_Route{Route: action}, Match: &routev3.RouteMatch{
		PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"},
		Headers:       []*routev3.HeaderMatcher{{Name: HeaderTable, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}},
	}}
}
