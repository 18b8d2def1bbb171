package translate_test

import (
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestEnvoySaysWhatDecidedInOneTag: a real Envoy says in one tag what it says in four, of a row with a cluster and of what has none, or no endpoint, or no row.
func TestEnvoySaysWhatDecidedInOneTag(t *testing.T) {
	const noEndpoint, nobody, there = "outbound|80||none.test", "outbound|80||nobody.test", "outbound|80||there.test"
	row := func(path, policy, revision, to string) *routev3.Route {
		r := &routev3.Route{Name: path, Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Path{Path: path}}}
		if r.Action = (&routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 299}}); to != "" {
			r.Action = &routev3.Route_Route{Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: to}}}
		}
		if policy != "" {
			r.Metadata = envoy.DecidedByMetadata(policy)
		}
		return envoy.WithRevision(r, revision)
	}
	revision := strings.Repeat("0123456789abcdef", 2)
	routes := []*routev3.Route{
		row("/all", "VirtualService/a/v", revision, there),
		row("/no-revision", "VirtualService/a/v", "", there),
		row("/no-policy", "", revision, noEndpoint),
		row("/nothing-of-the-row", "", "", noEndpoint),
		row("/no-endpoint", "VirtualService/a/v", revision, noEndpoint),
		row("/no-cluster", "VirtualService/a/v", revision, nobody),
		row("/answered", "VirtualService/a/v", revision, ""),
		row("/odd", "VirtualService/ü %/\x1fv", revision, noEndpoint),
	}
	const unrouted = "/no-row"
	als := filepath.Join(t.TempDir(), "als")
	entries := receiveLogs(t, als)
	clusterAt := func(name string, at *corev3.Address, metadata *corev3.Metadata) *clusterv3.Cluster {
		c := agentCluster(name)
		c.Metadata = metadata
		if at != nil {
			c.LoadAssignment.Endpoints = []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: at}}}}}}
		}
		return c
	}
	logs := clusterAt(wire.ALSCluster, pipe(als), nil)
	logs.TypedExtensionProtocolOptions = envoy.HTTP2Options()
	nowhere := pipe(filepath.Join(t.TempDir(), "nowhere")) // an endpoint that takes no connection is one that was chosen
	address := startListening(t, bothLogs(t, routes), logs, clusterAt(noEndpoint, nil, envoy.Metadata(wire.RoleExternal, "ServiceEntry/a/none")), clusterAt(there, nowhere, envoy.Metadata(wire.RoleMesh, "Service/a/there")))
	paths := []string{unrouted}
	for _, r := range routes {
		paths = append(paths, r.Name)
	}
	for _, path := range paths {
		_ = askAt(t, address, path, "")
	}
	four, one := map[string]map[string]string{}, map[string]map[string]string{} // tags, by path
	for deadline := time.After(time.Minute); len(four) < len(paths) || len(one) < len(paths); {
		select {
		case e := <-entries:
			if tags, path := e.GetCommonProperties().GetCustomTags(), e.GetRequest().GetPath(); tags[wire.TagDecided] != "" {
				one[path] = tags
			} else {
				four[path] = tags
			}
		case <-deadline:
			t.Fatalf("of %d requests %d and %d are logged", len(paths), len(four), len(one))
		}
	}
	for _, path := range paths {
		for i, value := range wire.SplitDecided(one[path][wire.TagDecided]) {
			if want := four[path][wire.DecidedTags[i]]; value != want {
				t.Errorf("%s: %s is %q in one tag and %q in its own", path, wire.DecidedTags[i], value, want)
			}
		}
	}
	if all := one["/all"][wire.TagDecided]; !strings.Contains(all, wire.RoleMesh+"|"+revision) || !strings.HasSuffix(all, "|Service/a/there|VirtualService/a/v") {
		t.Errorf("where all is known it is %q", all)
	}
}

// bothLogs reads requests and logs them twice: what decided once in four tags and once in one.
func bothLogs(t *testing.T, routes []*routev3.Route) *hcmv3.HttpConnectionManager {
	t.Helper()
	log := func(oneTag bool) []*accesslogv3.AccessLog {
		l := &listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{envoy.FilterChain("", nil, envoy.HCM{Log: wire.ForwardHTTP, Exit: true}.Filter())}}
		if oneTag && !envoy.DecidedInOneTag(l) {
			t.Fatal("nothing says what decided")
		}
		m := &hcmv3.HttpConnectionManager{}
		must(l.FilterChains[0].Filters[0].GetTypedConfig().UnmarshalTo(m))
		return m.AccessLog
	}
	return &hcmv3.HttpConnectionManager{
		StatPrefix:  "test",
		HttpFilters: []*hcmv3.HttpFilter{{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, &routerv3.Router{})}}},
		AccessLog:   slices.Concat(log(false), log(true)),
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "test", ValidateClusters: wrapperspb.Bool(false), VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: routes}},
		}},
		RequestTimeout: durationpb.New(time.Minute),
	}
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

// receiveLogs takes what proxies log of requests, on a Unix socket.
func receiveLogs(t *testing.T, socket string) <-chan *datav3.HTTPAccessLogEntry {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(err)
	r := logReceiver{entries: make(chan *datav3.HTTPAccessLogEntry)}
	s := grpc.NewServer()
	alsv3.RegisterAccessLogServiceServer(s, r)
	ended := make(chan struct{})
	go func() { _ = s.Serve(l); close(ended) }()
	t.Cleanup(func() { s.Stop(); <-ended })
	return r.entries
}

type logReceiver struct {
	alsv3.UnimplementedAccessLogServiceServer
	entries chan *datav3.HTTPAccessLogEntry
}

// StreamAccessLogs takes a stream.
func (r logReceiver) StreamAccessLogs(from grpc.ClientStreamingServer[alsv3.StreamAccessLogsMessage, alsv3.StreamAccessLogsResponse]) error {
	for {
		m, err := from.Recv()
		if err != nil {
			return err
		}
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			select {
			case r.entries <- e:
			case <-from.Context().Done():
				return from.Context().Err()
			}
		}
	}
}
