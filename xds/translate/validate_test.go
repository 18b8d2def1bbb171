package translate_test

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	internallistenerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/bootstrap/internal_listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestEnvoyAcceptsGoldens runs the real Envoy over every golden: what it would be sent by xDS, written as one static
// configuration.
func TestEnvoyAcceptsGoldens(t *testing.T) {
	envoy := envoytest.Binary(t)
	for name, c := range cases(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := envoytest.Write(t, static(t, c.view()))
			out, err := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "-l", "error", "-c", file).CombinedOutput()
			if err != nil {
				t.Errorf("Envoy refuses it: %v\n%s", err, out)
			}
		})
	}
}

// static writes a view as a bootstrap: route tables move into their listeners, their hosts into them.
func static(t *testing.T, v *translate.View) *bootstrapv3.Bootstrap {
	t.Helper()
	tables := map[string]*routev3.RouteConfiguration{}
	each(t, v, resource.Route, func(r *routev3.RouteConfiguration) { tables[r.Name] = r })
	each(t, v, resource.VirtualHost, func(vh *routev3.VirtualHost) {
		table, _, _ := strings.Cut(vh.Name, "/")
		if tables[table] == nil {
			t.Fatalf("virtual host %q has no table %q", vh.Name, table)
		}
		if tables[table].Vhds != nil {
			tables[table].VirtualHosts = append(tables[table].VirtualHosts, vh)
		}
	})
	b := &bootstrapv3.Bootstrap{
		Node: &corev3.Node{Id: "golden", Cluster: "golden"},
		BootstrapExtensions: []*corev3.TypedExtensionConfig{{
			Name: "envoy.bootstrap.internal_listener", TypedConfig: wrap(t, &internallistenerv3.InternalListener{}),
		}},
		DynamicResources: &bootstrapv3.Bootstrap_DynamicResources{AdsConfig: &corev3.ApiConfigSource{
			ApiType: corev3.ApiConfigSource_DELTA_GRPC, TransportApiVersion: corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: "xds-grpc"}}}},
		}},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{},
	}
	for _, name := range []string{"xds-grpc", "sds-grpc", "als-grpc", "under-way-grpc"} {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, agentCluster(name))
	}
	each(t, v, resource.Cluster, func(c *clusterv3.Cluster) {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	})
	each(t, v, resource.OnDemandCluster, func(c *clusterv3.Cluster) {
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	})
	each(t, v, resource.Listener, func(l *listenerv3.Listener) {
		for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
			for _, f := range chain.GetFilters() {
				inlineRoutes(t, f, tables)
			}
		}
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, l)
	})
	return b
}

// inlineRoutes puts a connection manager's table in the place of its name.
func inlineRoutes(t *testing.T, f *listenerv3.Filter, tables map[string]*routev3.RouteConfiguration) {
	t.Helper()
	hcm := &hcmv3.HttpConnectionManager{}
	if f.GetTypedConfig().UnmarshalTo(hcm) != nil {
		return // another filter
	}
	if hcm.GetRouteConfig() != nil {
		return // of questions, which has no name
	}
	if s := hcm.GetScopedRoutes(); s != nil {
		inlineScopes(s, tables)
		f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: wrap(t, hcm)}
		return
	}
	table := tables[hcm.GetRds().GetRouteConfigName()]
	if table == nil {
		t.Fatalf("no route table %q", hcm.GetRds().GetRouteConfigName())
	}
	table = proto.Clone(table).(*routev3.RouteConfiguration)
	table.Vhds = nil
	hcm.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}
	f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: wrap(t, hcm)}
}

func agentCluster(name string) *clusterv3.Cluster {
	return &clusterv3.Cluster{
		Name: name, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name},
	}
}

func each[M proto.Message](t *testing.T, v *translate.View, kind resource.Type, f func(M)) {
	t.Helper()
	v.Walk(kind, func(r *resource.Resource) bool {
		m, err := r.Any().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		f(m.(M))
		return true
	})
}

func wrap(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// inlineScopes puts all tables in the place of the scopes that lead to them.
func inlineScopes(s *hcmv3.ScopedRoutes, tables map[string]*routev3.RouteConfiguration) {
	list := &hcmv3.ScopedRouteConfigurationsList{}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		table := proto.CloneOf(tables[name])
		table.Vhds = nil
		list.ScopedRouteConfigurations = append(list.ScopedRouteConfigurations, &routev3.ScopedRouteConfiguration{
			Name: name, RouteConfiguration: table, Key: &routev3.ScopedRouteConfiguration_Key{Fragments: []*routev3.ScopedRouteConfiguration_Key_Fragment{
				{Type: &routev3.ScopedRouteConfiguration_Key_Fragment_StringKey{StringKey: name}},
			}},
		})
	}
	s.ConfigSpecifier, s.RdsConfigSource = &hcmv3.ScopedRoutes_ScopedRouteConfigurationsList{ScopedRouteConfigurationsList: list}, nil
}
