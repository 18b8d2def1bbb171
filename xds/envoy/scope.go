package envoy

import (
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	listenerstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// A connection manager has its table's name in its configuration, so it takes one for each port, and at a node's proxy for each port of each pod. There, what pods send to
// any registered port is read by one connection manager a pod, and questions are answered at one place: which table is meant is in a header of what comes, by which
// Envoy finds the scope that leads to it (SRDS). See docs/adr/0106-a-port-costs-a-pod-nothing.md.

// AllTables is the internal listener, and the cluster in front of it, where all tables of a node's proxy answer questions.
const AllTables = "decide"

// headerRoutes names a request's table: what a client says in it is not looked at, and nobody behind is told (StripTableHeader).
const headerRoutes = "x-sallyport-routes"

// byScope takes routes by the table that a header names.
func byScope(header string) *hcmv3.HttpConnectionManager_ScopedRoutes {
	value := &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor{
		Name: header, ExtractType: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_Index{},
	}
	return &hcmv3.HttpConnectionManager_ScopedRoutes{ScopedRoutes: &hcmv3.ScopedRoutes{
		Name: "tables",
		ScopeKeyBuilder: &hcmv3.ScopedRoutes_ScopeKeyBuilder{Fragments: []*hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder{{
			Type: &hcmv3.ScopedRoutes_ScopeKeyBuilder_FragmentBuilder_HeaderValueExtractor_{HeaderValueExtractor: value},
		}}},
		RdsConfigSource: byADS(),
		ConfigSpecifier: &hcmv3.ScopedRoutes_ScopedRds{ScopedRds: &hcmv3.ScopedRds{ScopedRdsConfigSource: byADS()}},
	}}
}

// ScopedRoutes leads to a table what names it. All three have one name: an agent goes by that (sidecar/relay).
func ScopedRoutes(table string) *resource.Resource {
	return Seal(resource.Scope, table, &routev3.ScopedRouteConfiguration{
		Name: table, RouteConfigurationName: table,
		Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{{
			Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: table},
		}}},
	})
}

// namesTable has requests name their table (a format string), whatever their clients said.
func namesTable(table string) *corev3.TypedExtensionConfig {
	return early(&earlyv3.HeaderMutation{Mutations: []*mutationv3.HeaderMutation{
		{Action: &mutationv3.HeaderMutation_Remove{Remove: headerRoutes}},
		{Action: &mutationv3.HeaderMutation_Append{Append: &corev3.HeaderValueOption{
			Header: &corev3.HeaderValue{Key: headerRoutes, Value: table}, AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		}}},
	}})
}

// StripTableHeader takes the name out of what goes on.
func StripTableHeader(table *routev3.RouteConfiguration) *routev3.RouteConfiguration {
	table.RequestHeadersToRemove = append(table.RequestHeadersToRemove, headerRoutes)
	return table
}

// TableFormat is a format string: the name of the table of the port that a pod's connection goes to, as NameTables said.
const TableFormat = "%FILTER_STATE(" + wire.StateTable + ":PLAIN)%"

// PortTableFormat is a format string: the name of the table that the port of a connection has, or would have, among those of a namespace, or "" for everybody's.
func PortTableFormat(namespace string) string {
	return wire.OwnName(namespace, "%DOWNSTREAM_LOCAL_PORT%")
}

// NameTables says of each of a pod's connections which table is its port's: among those of a namespace, or "" for everybody's, where the port has one; otherwise the one
// for all other ports. The ports are in a string and not in a list, of which each element would cost each pod what an expression's operation does. A filter that is found by
// this name may come apart from its listener (ambient.TablesFilter): another port is then no other listener.
func NameTables(namespace string, ports []uint32) *listenerv3.ListenerFilter {
	list := " "
	for _, p := range ports {
		list += strconv.Itoa(int(p)) + " "
	}
	table := "string(destination.port)"
	if suffix := wire.OwnName(namespace, ""); suffix != "" {
		table += " + '" + suffix + "'"
	}
	return listenerFilter(ambient.TablesFilter, &listenerstatev3.Config{OnAccept: []*statev3.FilterStateValue{
		State(wire.StateTable, wire.CatchAllDecide, NotShared),
		ComputedState(wire.StateTable, "'"+list+"'.contains(' ' + string(destination.port) + ' ') ? "+table+" : ''", NotShared),
	}})
}

// SharedQuestionCluster is the cluster by which a table's rows ask it again, where all tables answer at one place.
func SharedQuestionCluster(name string) *clusterv3.Cluster {
	c := QuestionCluster(AllTables)
	c.Name, c.LoadAssignment.ClusterName = name, name
	return c
}
