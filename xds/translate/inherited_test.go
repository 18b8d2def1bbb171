package translate_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3" // what the texts below name
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

const (
	inheritedBootstrap = `{"node": {"id": "n", "cluster": "c"}, "admin": {"address": {"pipe": {"path": "%[1]s/admin"}}},
"dynamic_resources": {"lds_config": {"ads": {}, "resource_api_version": "V3"},
  "ads_config": {"api_type": "DELTA_GRPC", "transport_api_version": "V3", "grpc_services": [{"envoy_grpc": {"cluster_name": "xds"}}]}},
"static_resources": {"clusters": [{"name": "xds", "type": "STATIC",
  "typed_extension_protocol_options": {"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions", "explicit_http_config": {"http2_protocol_options": {}}}},
  "load_assignment": {"cluster_name": "xds", "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {"pipe": {"path": "%[1]s/xds"}}}}]}]}}]}}`

	// The filter of policies is in a chain that stays the same, beside one that has the edition's number.
	inheritedListener = `{"name": "in", "address": {"pipe": {"path": "%[1]s/in"}}, "filter_chains": [
{"name": "stays", "filters": [{"name": "hcm", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
  "stat_prefix": "x", "http_filters": [
    {"name": "state", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.set_filter_state.v3.Config", "on_request_headers": [
      {"object_key": "%[3]s", "factory_key": "envoy.string", "format_string": {"text_format_source": {"inline_string": "%[4]s"}}},
      {"object_key": "%[5]s", "factory_key": "envoy.string", "format_string": {"text_format_source": {"inline_string": "spiffe://cluster.local/ns/%%REQ(namespace)%%/sa/x"}}},
      {"object_key": "%[6]s", "factory_key": "envoy.string", "format_string": {"text_format_source": {"inline_string": "nobodys.test"}}}]}},
    {"name": "%[7]s", "config_discovery": {"config_source": {"ads": {}, "resource_api_version": "V3"}, "type_urls": ["type.googleapis.com/envoy.extensions.common.matching.v3.ExtensionWithMatcher"]}},
    {"name": "router", "typed_config": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
  "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "direct_response": {"status": 200}}]}]}}}]},
{"name": "changes", "filter_chain_match": {"application_protocols": ["x"]}, "filters": [{"name": "tcp", "typed_config": {
  "@type": "type.googleapis.com/envoy.extensions.filters.network.tcp_proxy.v3.TcpProxy", "stat_prefix": "x%[2]d", "cluster": "xds"}}]}]}`
)

type inheriting struct {
	dir                   string
	listeners, extensions *cachev3.LinearCache
	client                map[string]*http.Client
}

// TestNodePoliciesOutliveListeners holds, with a real Envoy, that policies of other namespaces come to a chain that it made for a listener that
// is gone by now, and that they count: a node's listeners change when a port comes, and hand on their other chains.
func TestNodePoliciesOutliveListeners(t *testing.T) {
	t.Parallel()
	in := inheriting{dir: t.TempDir(), client: map[string]*http.Client{}}
	for _, name := range []string{"in", "admin"} {
		in.client[name] = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", filepath.Join(in.dir, name))
		}}}
	}
	in.serve(t)
	cfg := mesh.Default()
	r := registry.New(&cfg)
	s, _ := r.Apply([]config.Change{policyAt("one", 0, 1)})
	kind := translate.PolicedBy(s, translate.Node{ID: "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local", Serves: "one,two"})
	view := translate.BuildPolicies(s, kind)
	in.give(t, view)
	in.listener(t, 0)
	b := &bootstrapv3.Bootstrap{}
	must(protojson.Unmarshal(fmt.Appendf(nil, inheritedBootstrap, in.dir), b))
	envoytest.Start(t, b, filepath.Join(in.dir, "in"), "--drain-time-s", "1")
	in.until(t, "one", 403)
	in.until(t, "two", 200)
	for i, now := range []string{"two", "one", "two"} {
		before := map[string]string{"one": "two", "two": "one"}[now]
		in.listener(t, i+1)
		in.untilStats(t, fmt.Sprintf("listener_manager.listener_in_place_updated: %d", i+1), "listener_manager.total_filter_chains_draining: 0")
		gone := config.Change{Key: policyAt(before, 0, 1).Key}
		next, changed := r.Apply([]config.Change{gone, policyAt(now, 0, i+2)})
		view, _ = translate.UpdatePolicies(view, next, kind, changed)
		in.give(t, view)
		in.until(t, now, 403)
		in.until(t, before, 200)
	}
}

func (in *inheriting) serve(t *testing.T) {
	t.Helper()
	listen, err := net.Listen("unix", filepath.Join(in.dir, "xds"))
	must(err)
	in.listeners, in.extensions = cachev3.NewLinearCache(resource.Listener.URL()), cachev3.NewLinearCache(resource.Extension.URL())
	all := &cachev3.MuxCache{
		ClassifyDelta: func(r *cachev3.DeltaRequest) string { return r.GetTypeUrl() },
		Caches:        map[string]cachev3.Cache{resource.Listener.URL(): in.listeners, resource.Extension.URL(): in.extensions},
	}
	g := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, serverv3.NewServer(t.Context(), all, nil))
	go func() { _ = g.Serve(listen) }()
	t.Cleanup(g.Stop)
}

// give has Envoy get all that a view has.
func (in *inheriting) give(t *testing.T, view *translate.View) {
	t.Helper()
	all := map[string]types.Resource{}
	view.Walk(resource.Extension, func(r *resource.Resource) bool {
		m := &corev3.TypedExtensionConfig{}
		must(proto.Unmarshal(r.Value(), m))
		all[r.Name] = m
		return true
	})
	in.extensions.SetResources(all)
}

func (in *inheriting) listener(t *testing.T, edition int) {
	t.Helper()
	l := &listenerv3.Listener{}
	must(protojson.Unmarshal(fmt.Appendf(nil, inheritedListener, in.dir, edition, wire.StateOutside, wire.Leaves, wire.StateClient, wire.StateHost, envoy.FilterOwn), l))
	must(in.listeners.UpdateResource(l.Name, l))
}

// until waits for what a namespace's requests are answered with.
func (in *inheriting) until(t *testing.T, namespace string, status int) {
	t.Helper()
	eventually(t, func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://in/", http.NoBody)
		must(err)
		r.Header.Set("namespace", namespace)
		resp, err := in.client["in"].Do(r)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != status {
			return fmt.Errorf("namespace %s: status %d, want %d", namespace, resp.StatusCode, status)
		}
		return nil
	})
}

// untilStats waits for lines of Envoy's statistics.
func (in *inheriting) untilStats(t *testing.T, lines ...string) {
	t.Helper()
	eventually(t, func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://admin/stats?filter=listener_manager", http.NoBody)
		must(err)
		resp, err := in.client["admin"].Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		for _, line := range lines {
			if err == nil && !strings.Contains(string(text), line+"\n") {
				err = fmt.Errorf("no %q in:\n%s", line, text)
			}
		}
		return err
	})
}

// eventually tries until it succeeds, for a minute at most.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); ; <-tick.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
