package envoy

import (
	"context"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	upstreamsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	processv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestWhatIsTold: a real Envoy tells of requests that may be long, when they come or when their answers begin, as what they came; of no others, and of no body.
func TestWhatIsTold(t *testing.T) {
	address, told, _ := telling(t)
	const atRequest, atAnswer = "request", "answer"
	for _, c := range []struct {
		method, body, path string
		want               string
	}{
		{"GET", "", "/short", ""},
		{"GET", "", "/none", ""},
		{"GET", "", "/long", atAnswer},
		{"GET", "", "/unsaid", atAnswer},
		{"HEAD", "", "/long", ""},
		{"DELETE", "", "/short", ""},
		{"POST", "", "/short", ""},
		{"POST", "short", "/short", ""},
		{"POST", "short", "/unsaid", atAnswer},
		{"POST", strings.Repeat("x", 99_999), "/short", ""},
		{"POST", strings.Repeat("x", 100_000), "/short", atRequest},
		{"POST", strings.Repeat("x", 100_000), "/long", atRequest},
		{"POST", "unsaid", "/short", atRequest},
		{"GET", "unsaid", "/short", atRequest},
		{"DELETE", "unsaid", "/long", atRequest},
	} {
		for _, version := range []int{1, 2} {
			told.take()
			client := clientOf(address, version)
			var body io.Reader
			switch c.body {
			case "":
			case "unsaid":
				body = io.MultiReader(strings.NewReader(c.body)) // of which nobody knows the length
			default:
				body = strings.NewReader(c.body)
			}
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://host.test"+c.path+"?q#", body)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set(wire.HeaderRegisteredIn, "shop")
			resp, err := client.Do(req)
			if err != nil {
				t.Fatalf("%s %s: %v", c.method, c.path, err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			_ = resp.Body.Close()
			var want string
			if c.want != "" {
				want = c.want + " of " + c.method + " shop host.test " + c.path + "?q"
			}
			if got := told.take(); got != want {
				t.Errorf("HTTP/%d, %s %s with a body of %d bytes (%.6s): told %q, want %q", version, c.method, c.path, len(c.body), c.body, got, want)
			}
		}
	}
}

// TestUntoldDoesNotGoOn: what nobody takes note of is answered by Envoy, before any of it has gone on; what is not told of needs nobody.
func TestUntoldDoesNotGoOn(t *testing.T) {
	address, _, stop := telling(t)
	stop()
	for _, c := range []struct {
		method, body, path string
		status             int
	}{
		{"GET", "", "/short", http.StatusOK},
		{"GET", "", "/long", http.StatusServiceUnavailable},
		{"POST", "unsaid", "/short", http.StatusServiceUnavailable},
		{"GET", "unsaid", "/short", http.StatusServiceUnavailable},
	} {
		for _, version := range []int{1, 2} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, "http://host.test"+c.path, io.MultiReader(strings.NewReader(c.body)))
			if err != nil {
				t.Fatal(err)
			}
			if c.body == "" {
				req.Body = nil
			}
			resp, err := clientOf(address, version).Do(req)
			if err != nil {
				t.Fatalf("%s %s: %v", c.method, c.path, err)
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != c.status {
				t.Errorf("HTTP/%d, %s %s with a body of %d bytes: %d, %v, want %d", version, c.method, c.path, len(c.body), resp.StatusCode, err, c.status)
			}
			_ = resp.Body.Close()
		}
	}
}

func clientOf(address string, version int) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{Protocols: onlyHTTP(version), DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", address)
	}}}
}

func onlyHTTP(version int) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(version == 1)
	p.SetUnencryptedHTTP2(version == 2)
	return p
}

// telling runs an Envoy whose filters tell, with a route that makes another of each request, and what it tells; stop ends who takes note.
func telling(t *testing.T) (address string, told *notesOfRequests, stop func()) {
	t.Helper()
	dir := t.TempDir()
	address, told = filepath.Join(dir, "envoy"), &notesOfRequests{}
	listen := func(name string) net.Listener {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	agent := grpc.NewServer()
	processv3.RegisterExternalProcessorServer(agent, told)
	l := listen("agent")
	go func() { _ = agent.Serve(l) }()
	t.Cleanup(agent.Stop)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(answerAs)}
	s := listen("server")
	go func() { _ = server.Serve(s) }()
	t.Cleanup(func() { _ = server.Close() })

	filters := underWay()
	table := &routev3.RouteConfiguration{Name: "test", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
		Match: MatchAnyRequest(), RequestHeadersToRemove: []string{wire.HeaderRegisteredIn},
		Action: &routev3.Route_Route{Route: &routev3.RouteAction{
			ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: "server"}, PrefixRewrite: "/other/",
			HostRewriteSpecifier: &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: "other.test"},
		}},
	}}}}}
	EnableEnforcement(table, Enforcement{Authz: true, Told: true})
	for _, f := range []string{FilterCustom, FilterAuthorizer, FilterAuthz} {
		delete(table.TypedPerFilterConfig, f)
	}
	m := &hcmv3.HttpConnectionManager{StatPrefix: "test", HttpFilters: append(filters, router()), RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: table}}
	envoytest.Start(t, &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{
		Listeners: []*listenerv3.Listener{{
			Name: "test", Address: pipe(address),
			FilterChains: []*listenerv3.FilterChain{FilterChain("http", nil, NetworkFilter("envoy.filters.network.http_connection_manager", m))},
		}},
		Clusters: []*clusterv3.Cluster{atPipe("server", filepath.Join(dir, "server"), &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{}), atPipe(wire.UnderWayCluster, filepath.Join(dir, "agent"), &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
		})},
	}}, address)
	return address, told, agent.Stop
}

// answerAs answers as a path says.
func answerAs(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	switch strings.TrimPrefix(r.URL.Path, "/other/") {
	case "none":
		w.WriteHeader(http.StatusNoContent)
	case "long":
		w.Header().Set("Content-Length", "100000")
		_, _ = w.Write(make([]byte, 100_000))
	case "unsaid":
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "hello")
	default:
		_, _ = io.WriteString(w, "hello")
	}
}

func pipe(path string) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
}

func atPipe(name, path string, protocol *upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig) *clusterv3.Cluster {
	if protocol.ProtocolConfig == nil {
		protocol.ProtocolConfig = &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: &corev3.Http1ProtocolOptions{}}
	}
	return &clusterv3.Cluster{
		Name: name,
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: pipe(path)}},
		}}}}},
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": ToAny(&upstreamsv3.HttpProtocolOptions{
			UpstreamProtocolOptions: &upstreamsv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: protocol},
		})},
	}
}

// notesOfRequests are what it was told of, and by what, in place of an agent.
type notesOfRequests struct {
	processv3.UnimplementedExternalProcessorServer
	mu   sync.Mutex
	said []string
}

func (n *notesOfRequests) take() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	said := strings.Join(n.said, ", ")
	n.said = nil
	return said
}

// Process implements processv3.ExternalProcessorServer.
func (n *notesOfRequests) Process(stream processv3.ExternalProcessor_ProcessServer) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	as, _, _ := strings.Cut(strings.Join(md.Get(wire.HeaderUnderWay), "|"), "#")
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		out := &processv3.ProcessingResponse{}
		what := ""
		switch m.GetRequest().(type) {
		case *processv3.ProcessingRequest_RequestHeaders:
			what, out.Response = "request", &processv3.ProcessingResponse_RequestHeaders{RequestHeaders: &processv3.HeadersResponse{}}
		case *processv3.ProcessingRequest_ResponseHeaders:
			what, out.Response = "answer", &processv3.ProcessingResponse_ResponseHeaders{ResponseHeaders: &processv3.HeadersResponse{}}
		default:
			what = "more"
		}
		n.mu.Lock()
		n.said = append(n.said, what+" of "+as)
		n.mu.Unlock()
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}
