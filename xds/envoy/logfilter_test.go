package envoy

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filelogv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/file/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	typematcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestWhatSidecarsLog asks the real Envoy which requests a sidecar's filter keeps: all but those that a gateway answered, whether their rows say so or
// not; and what a pod answered, where the mesh's settings ask for it.
func TestWhatSidecarsLog(t *testing.T) {
	t.Parallel()
	for _, mesh := range []bool{false, true} {
		t.Run(fmt.Sprintf("mesh=%v", mesh), func(t *testing.T) { testWhatSidecarsLog(t, mesh) })
	}
}

func testWhatSidecarsLog(t *testing.T, mesh bool) {
	address, lines := logging(t, wire.SidecarHTTP, answering(t), mesh)
	for _, c := range []struct {
		path   string
		status int // 0: the client does not wait
		logged bool
	}{
		{"/gateway/200", 200, false},
		{"/gateway/404", 404, false},
		{"/gateway/503", 503, false},
		{"/gateway/reset", 503, true},
		{"/gateway/late", 504, true},
		{"/gateway/silent", 0, true},
		{"/marked/200", 200, false},
		{"/marked/404", 404, false},
		{"/marked/503", 503, false},
		{"/marked/reset", 503, true},
		{"/marked/late", 504, true},
		{"/marked/silent", 0, true},
		{"/marked/preflight", 200, true}, // answered before it went anywhere
		{"/marked/aborted", 418, true},
		{"/markednone", 503, true},
		{"/pod/200", 200, mesh},
		{"/pod/503", 503, mesh},
		{"/pod/reset", 503, true},
		{"/unmarkedpod/200", 200, true},
		{"/nogateway", 503, true},
		{"/unreachable", 503, true},
		{"/external/200", 200, true},
		{"/external/503", 503, true},
		{"/external/reset", 503, true},
		{"/refused", 403, true},
		{"/answered", 200, true},
		{"/gone", 410, true},
		{"/elsewhere", 404, true}, // no route
		{"/missing", 503, true},   // no such cluster
	} {
		method := "GET "
		if strings.HasSuffix(c.path, "/preflight") {
			method = "OPTIONS "
		}
		if got := status(t, address, method+c.path); c.status != got {
			t.Errorf("%s: status %d, want %d", c.path, got, c.status)
		}
		lines.expect(t, c.path, c.logged)
	}
	status(t, address, "GET /external/last")
	lines.end(t, "/external/last")
}

// TestWhatGatewaysLog does the same at a gateway: all but tunnels that an internal listener took.
func TestWhatGatewaysLog(t *testing.T) {
	t.Parallel()
	address, lines := logging(t, wire.GatewayHTTP, answering(t), true)
	for _, c := range []struct {
		request, line string
		status        int
		logged        bool
	}{
		{"GET /external/200", "/external/200", 200, true},
		{"GET /external/503", "/external/503", 503, true},
		{"GET /refused", "/refused", 403, true},
		{"CONNECT taken.test:443", "taken.test:443", 200, false},
		{"CONNECT refused.test:443", "refused.test:443", 403, true},
		{"CONNECT unreachable.test:443", "unreachable.test:443", 503, true},
	} {
		if got := status(t, address, c.request); c.status != got {
			t.Errorf("%s: status %d, want %d", c.request, got, c.status)
		}
		lines.expect(t, c.line, c.logged)
	}
	status(t, address, "GET /external/last")
	lines.end(t, "/external/last")
}

// status makes a request and gives the answer's status. Where the server would be silent it leaves: 0.
func status(t *testing.T, address, request string) int {
	t.Helper()
	conn, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	host := "a.test"
	if target, ok := strings.CutPrefix(request, "CONNECT "); ok {
		host = target
	}
	browser := ""
	if strings.HasPrefix(request, "OPTIONS ") {
		browser = "Origin: http://a.test\r\nAccess-Control-Request-Method: GET\r\n"
	}
	if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", request, host, browser); err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(request, "/silent") {
		<-arrived
		return 0
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// arrived tells that a request for something silent has reached its server.
var arrived = make(chan struct{})

// answering is a server that does what the last element of the path says.
func answering(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch filepath.Base(r.URL.Path) {
		case "404":
			w.WriteHeader(404)
		case "503":
			w.WriteHeader(503)
		case "reset":
			panic(http.ErrAbortHandler)
		case "silent":
			arrived <- struct{}{}
			<-r.Context().Done()
		case "late":
			<-r.Context().Done()
		}
	})}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// logged reads the paths in a log.
type logged struct {
	file     string
	unwanted []string
}

func (l *logged) read(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(l.file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(content))
}

func (l *logged) expect(t *testing.T, line string, logged bool) {
	t.Helper()
	if !logged {
		l.unwanted = append(l.unwanted, line)
		return
	}
	for began := time.Now(); time.Since(began) < time.Minute; <-time.After(20 * time.Millisecond) {
		if slices.Contains(l.read(t), line) {
			return
		}
	}
	t.Errorf("%s is not logged", line)
}

// end waits for the last entry: they are in order, so what is not there then does not come.
func (l *logged) end(t *testing.T, last string) {
	t.Helper()
	l.expect(t, last, true)
	for _, line := range l.unwanted {
		if slices.Contains(l.read(t), line) {
			t.Errorf("%s is logged, but another entry tells that", line)
		}
	}
}

// logging starts an Envoy that logs paths to a file, with the filter of a place.
func logging(t *testing.T, place wire.Place, upstream string, mesh bool) (address string, lines *logged) {
	t.Helper()
	dir := t.TempDir()
	lines = &logged{file: filepath.Join(dir, "log")}
	address = filepath.Join(dir, "socket")
	envoytest.Start(t, loggingBootstrap(place, lines.file, address, upstream, mesh), address, "--file-flush-interval-msec", "50")
	return address, lines
}

func loggingBootstrap(place wire.Place, file, socket, upstream string, mesh bool) *bootstrapv3.Bootstrap {
	prefix := func(path string, action *routev3.RouteAction) *routev3.Route {
		return Route("default", &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: path}}, action)
	}
	late := ToCluster("gateway")
	late.Timeout = durationpb.New(100 * time.Millisecond)
	marked := func(path, cluster, by string) *routev3.Route {
		return MarkLoggedBy(prefix(path, ToCluster(cluster)), by)
	}
	markedLate := MarkLoggedBy(prefix("/marked/late", late), LoggedAtGateway)
	preflight := WithFilterConfig(marked("/marked/preflight", "gateway", LoggedAtGateway), FilterCORS, ToAny(&corsv3.CorsPolicy{
		AllowOriginStringMatch: []*typematcherv3.StringMatcher{{MatchPattern: &typematcherv3.StringMatcher_Prefix{Prefix: "http"}}},
	}))
	aborted := WithFilterConfig(marked("/marked/aborted", "gateway", LoggedAtGateway), FilterFault, ToAny(&faultv3.HTTPFault{Abort: &faultv3.FaultAbort{
		ErrorType: &faultv3.FaultAbort_HttpStatus{HttpStatus: 418}, Percentage: &typev3.FractionalPercent{Numerator: 100},
	}}))
	refused := Refuse(wire.BlockAllRoute, &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/refused"}}, 403, "no\n", nil)
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: "test",
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "test", IgnorePortInHostMatching: true,
			VirtualHosts: []*routev3.VirtualHost{tunnelTo("taken", TerminateConnect("external")), tunnelTo("unreachable", TerminateConnect("unreachable")), {
				Name: "refused", Domains: []string{"refused.test"},
				Routes: []*routev3.Route{Refuse(wire.BlockAllRoute, MatchAnyTunnel(), 403, "no\n", nil)},
			}, {Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{
				prefix("/gateway/late", late), prefix("/gateway/", ToCluster("gateway")), preflight, aborted, markedLate,
				marked("/marked/", "gateway", LoggedAtGateway), marked("/markednone", "nogateway", LoggedAtGateway),
				marked("/pod/", "pod", LoggedAtPod), prefix("/unmarkedpod/", ToCluster("pod")), prefix("/external/", ToCluster("external")), answered("/answered", 200), answered("/gone", 410),
				prefix("/nogateway", ToCluster("nogateway")), prefix("/unreachable", ToCluster("unreachable")), refused,
				{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/missing"}}, Action: &routev3.Route_Route{
					Route: &routev3.RouteAction{ClusterSpecifier: &routev3.RouteAction_ClusterHeader{ClusterHeader: "host"}},
				}},
			}}},
		}},
		HttpFilters:    slices.DeleteFunc(HCM{Log: place, Mesh: mesh}.filters(), func(f *hcmv3.HttpFilter) bool { return f.GetConfigDiscovery() != nil }), // nobody would say what those hold
		UpgradeConfigs: []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "CONNECT"}},
		AccessLog: []*accesslogv3.AccessLog{{
			Name: "file", Filter: worthTelling(place, nil, mesh),
			ConfigType: &accesslogv3.AccessLog_TypedConfig{TypedConfig: ToAny(&filelogv3.FileAccessLog{
				Path: file, AccessLogFormat: &filelogv3.FileAccessLog_LogFormat{LogFormat: text("%REQ(:PATH?:AUTHORITY)%\n")},
			})},
		}},
	}
	_, number, _ := net.SplitHostPort(upstream)
	var up uint32
	_, _ = fmt.Sscan(number, &up)
	return &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{
		Listeners: []*listenerv3.Listener{{
			Name: "test", Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: socket}}},
			FilterChains: []*listenerv3.FilterChain{FilterChain("http", nil, NetworkFilter("envoy.filters.network.http_connection_manager", m))},
		}},
		Clusters: []*clusterv3.Cluster{
			reached("gateway", wire.RoleGateway, up), reached("external", wire.RoleExternal, up), reached("pod", wire.RoleMesh, up),
			reached("nogateway", wire.RoleGateway), reached("unreachable", wire.RoleGateway, 1),
		},
	}}
}

// answered is a user's route that answers by itself.
func answered(path string, status uint32) *routev3.Route {
	return &routev3.Route{Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: path}}, Action: &routev3.Route_DirectResponse{
		DirectResponse: &routev3.DirectResponseAction{Status: status},
	}}
}

func tunnelTo(name string, action *routev3.RouteAction) *routev3.VirtualHost {
	return &routev3.VirtualHost{Name: name, Domains: []string{name + ".test"}, Routes: []*routev3.Route{Route("default", MatchAnyTunnel(), action)}}
}

// reached is a cluster of a port on this host, or of none.
func reached(name, role string, ports ...uint32) *clusterv3.Cluster {
	group := &endpointv3.LocalityLbEndpoints{}
	for _, p := range ports {
		group.LbEndpoints = append(group.LbEndpoints, LBEndpoint(TCPAddress("127.0.0.1", p), 0))
	}
	return &clusterv3.Cluster{
		Name: name, Metadata: Metadata(role, ""), ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{group}},
	}
}
