package httproute_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/translate/httproute"
)

// matches are those that are tried with each of the requests.
var matches = []string{
	"{}", "{uri: {prefix: ''}}", "{uri: {prefix: /}}", "{uri: {prefix: /api}}", "{uri: {prefix: /API}}", "{uri: {prefix: '/api/v1?'}}",
	"{uri: {prefix: /API}, ignoreUriCase: true}", "{uri: {exact: /API/v1}, ignoreUriCase: true}", "{uri: {regex: '/API/.*'}, ignoreUriCase: true}",
	"{uri: {exact: /api/v1}}", "{uri: {exact: '/api/v1?x=1'}}", "{uri: {exact: /api}}", "{uri: {regex: /api/v1}}", "{uri: {regex: /api}}", "{uri: {regex: '/api/v[0-9]'}}",
	"{uri: {regex: '/b|/api/v1'}}", "{uri: {regex: '/api/v1$'}}", "{uri: {regex: '^/api.*'}}", "{uri: {regex: '(?i)/API/V1'}}", "{uri: {exact: /a%20b}}", "{uri: {exact: '/a b'}}", "{uri: {prefix: /a;}}",
	"{scheme: {exact: http}}", "{scheme: {exact: https}}", "{method: {exact: GET}}", "{method: {exact: get}}", "{method: {regex: 'GET|PUT'}}", "{method: {exact: OPTIONS}}",
	"{authority: {exact: a.com}}", "{authority: {exact: 'a.com:8080'}}", "{authority: {prefix: a.com}}", "{authority: {regex: '[a-z.]+'}}",
	"{headers: {one: {}}}", "{headers: {One: {exact: a}}}", "{headers: {one: {exact: b}}}", "{headers: {none: {}}}", "{headers: {none: {exact: ''}}}", "{headers: {one: {prefix: A}}}",
	"{headers: {empty: {}}}", "{headers: {empty: {exact: ''}}}", "{headers: {one: {regex: '*'}}}", "{headers: {none: {regex: '*'}}}", "{headers: {none: {regex: '.*'}}}",
	"{headers: {two: {exact: 'a,b'}}}", "{headers: {two: {exact: a}}}", "{headers: {two: {prefix: a}}}", "{headers: {one: {regex: '[ab]'}}}", "{headers: {one: {prefix: ''}}}",
	"{headers: {raw: {}}}", "{headers: {raw: {regex: '.*'}}}", "{headers: {raw: {regex: '..'}}}", "{headers: {raw: {regex: '.'}}}", "{headers: {raw: {regex: '[^a][^b]'}}}", "{headers: {raw: {regex: 'ÿþ'}}}", "{headers: {raw: {regex: '\\W+'}}}", "{headers: {raw: {regex: '[^a]*'}}}", "{headers: {raw: {regex: '.*a|.*'}}}", "{headers: {raw: {regex: '(?s).*'}}}", "{headers: {two: {exact: b}}}", "{headers: {two: {regex: 'a,b'}}}", "{headers: {two: {regex: b}}}", "{withoutHeaders: {two: {exact: b}}}", "{withoutHeaders: {two: {exact: a}}}", "{headers: {raw: {prefix: a}}}",
	"{headers: {utf: {regex: '.'}}}", "{headers: {utf: {regex: '..'}}}", "{headers: {utf: {regex: 'ä'}}}", "{headers: {utf: {regex: '[ä]'}}}", "{headers: {utf: {regex: '[ä]+'}}}", "{headers: {utf: {regex: '(?i)Ä'}}}", "{headers: {utf: {regex: '\\pL.'}}}", "{headers: {utf: {regex: '\\W*'}}}", "{headers: {one: {exact: a}, two: {exact: x}}}", "{headers: {uri: {exact: x}, method: {exact: x}}}",
	"{withoutHeaders: {one: {}}}", "{withoutHeaders: {none: {}}}", "{withoutHeaders: {one: {exact: b}}}", "{withoutHeaders: {one: {exact: a}}}", "{withoutHeaders: {raw: {regex: '.*'}}}",
	"{withoutHeaders: {none: {exact: a}}}", "{withoutHeaders: {none: {exact: ''}}}", "{withoutHeaders: {none: {regex: '*'}}}", "{withoutHeaders: {one: {regex: '*'}}}", "{withoutHeaders: {none: {regex: '.*'}}}",
	"{queryParams: {x: {exact: '1'}}}", "{queryParams: {x: {exact: '2'}}}", "{queryParams: {yy: {exact: ''}}}", "{queryParams: {zz: {exact: ''}}}",
	"{queryParams: {none: {exact: ''}}}", "{queryParams: {x: {prefix: '1'}}}", "{queryParams: {x: {regex: '[0-9]+'}}}", "{queryParams: {X: {exact: '1'}}}", "{queryParams: {x: {}}}", "{queryParams: {e: {exact: 'a=b'}}}", "{queryParams: {e: {exact: '%20'}}}",
}

// requests are "METHOD PATH HOST", and their headers.
var requests = []struct {
	line    string
	headers []string
}{
	{"GET /api/v1?x=1&yy=&x=2&zz a.com:8080", []string{"one: a", "two: a", "two: b", "empty:", "raw: \xff\xfe"}},
	{"GET /api/v1 a.com", []string{"one: b", "two: x", "utf: ä"}},
	{"PUT /API/v1?X=1&e=a=b a.com", nil},
	{"GET /api/v10?x=3&& A.com", []string{"one: Ab"}},
	{"OPTIONS /b?&=&e=%20 a.com", []string{"none:"}},
	{"GET /a%20b?x A.COM", nil},
	{"GET /a;b=c?x=1 a.com", []string{"ONE: a"}},
	{"OPTIONS * a.com", nil},
}

// TestEnvoyMatches holds what a match means to Decide to what a real Envoy makes of it, each with each.
func TestEnvoyMatches(t *testing.T) {
	t.Parallel()
	var rendered []*routev3.Route
	var meant []route.HTTP
	for i, m := range matches {
		f := decode.File("v.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v}\nspec: {hosts: [a.com], http: [{match: ["+m+"], directResponse: {status: 299}}]}"))
		if len(f.Findings) > 0 {
			t.Fatal(f.Findings)
		}
		h := route.Parse(&f.Objects[0], f.Objects[0].Spec.(*networking.VirtualService)).HTTP[0]
		r := httproute.Render(&h, &h.Matches[0], 80, nil, nil)
		r.Match.Headers = append(r.Match.Headers, &routev3.HeaderMatcher{Name: "case", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: envoy.Exact(strconv.Itoa(i))}})
		rendered, meant = append(rendered, r), append(meant, h)
	}
	address := start(t, rendered)
	for _, q := range requests {
		f := strings.Fields(q.line)
		asked := route.Request{Place: route.At(80, "", nil), Method: f[0], Path: f[1], Authority: f[2], Scheme: "http", Headers: map[string][]string{}}
		for _, line := range q.headers {
			name, value, _ := strings.Cut(line, ":")
			name = strings.ToLower(name)
			asked.Headers[name] = append(asked.Headers[name], strings.TrimSpace(value))
		}
		for i, m := range matches {
			status := ask(t, address, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\ncase: %d\r\n%s\r\n", f[0], f[1], f[2], i, lines(q.headers)))
			if got, want := meant[i].Means(&asked), status == 299; got != want {
				t.Errorf("%s\n%s %v: it means %v, and Envoy %v (status %d)", m, q.line, q.headers, got, want, status)
			}
		}
	}
}

// TestEnvoyTakesVariables: what may stand in a header's value is what Envoy formats.
func TestEnvoyTakesVariables(t *testing.T) {
	t.Parallel()
	h := route.HTTP{DirectResponse: &route.DirectResponse{Status: 299}, Matches: []route.HTTPMatch{{}}}
	for _, v := range route.Variables {
		arg := map[string]string{"REQ": "(x?:path):5", "RESP": "(x)", "TRAILER": "(x)"}[v]
		value := "100%% %" + v + arg + "%"
		if !route.Formats(value) {
			t.Errorf("%s is not a format", value)
		}
		h.Headers.Request.Set = append(h.Headers.Request.Set, route.Header{Name: "x", Value: value})
		h.Headers.Response.Add = append(h.Headers.Response.Add, route.Header{Name: "x", Value: value})
	}
	for _, value := range []string{"%START_TIME(%Y/%m/%dT%H:%M:%S%z %s)%", "%DOWNSTREAM_PEER_CERT_V_START(%b %d)%"} {
		if !route.Formats(value) {
			t.Errorf("%s is not a format", value)
		}
		h.Headers.Request.Set = append(h.Headers.Request.Set, route.Header{Name: "x", Value: value})
	}
	if status := ask(t, start(t, []*routev3.Route{httproute.Render(&h, &h.Matches[0], 80, nil, nil)}), "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n"); status != 299 {
		t.Errorf("status %d", status)
	}
}

// TestEnvoyTakesRegexes: the largest expressions that are taken are not too large for an Envoy with the bootstrap's limit.
func TestEnvoyTakesRegexes(t *testing.T) {
	t.Parallel()
	var rendered []*routev3.Route
	for _, part := range []string{".", `\pL`, `\PL`, `\w`, "[^a]", "ä", "(?i)k", "(?i)ä", "[а-я]", `[^\pL]`, `\p{Han}`, "(a|b)?", ".*x", "(?s).+", `[\x{80}-\x{0ff}]`, "(?i)[a-zß-ü]"} {
		largest := ""
		for _, times := range []int{1, 2, 5, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 999} {
			for _, again := range []int{1, 2, 3, 4, 5, 7, 10, 15, 20} {
				expr := fmt.Sprintf("((%s){%d}){%d}", part, times, again)
				if route.CheckRegex(expr) == nil && times*again > weightOf(largest) {
					largest = expr
				}
			}
		}
		h := route.HTTP{DirectResponse: &route.DirectResponse{Status: 299}, Matches: []route.HTTPMatch{{Headers: []route.HeaderMatch{{Name: "x", Text: route.NewText(route.Regex, largest)}}}}}
		t.Log(largest)
		rendered = append(rendered, httproute.Render(&h, &h.Matches[0], 80, nil, nil))
	}
	start(t, rendered)
	for _, expr := range []string{"(", `((\pL{100}){10}){10}`, "a{1001}", `\C`, "(?=a)", "(.{999}){50}", `\x{100}`, `[\x{80}-\x{10ffff}]`} {
		if route.CheckRegex(expr) == nil {
			t.Errorf("%s is taken", expr)
		}
	}
}

// weightOf is how often an expression of the test repeats its part.
func weightOf(expr string) int {
	at := strings.LastIndex(expr, "){")
	if at < 0 {
		return 0
	}
	var times, again int
	_, _ = fmt.Sscanf(expr[at:], "){%d}", &again)
	_, _ = fmt.Sscanf(expr[strings.LastIndex(expr[:at], "){"):], "){%d}", &times)
	return times * again
}

// asInBootstrap is the runtime that sidecar/bootstrap gives proxies.
func asInBootstrap() *bootstrapv3.LayeredRuntime {
	layer, err := structpb.NewStruct(map[string]any{"re2": map[string]any{"max_program_size": map[string]any{"error_level": 32768}}})
	if err != nil {
		panic(err)
	}
	return &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: layer}}}}
}

func lines(headers []string) string {
	if len(headers) == 0 {
		return ""
	}
	return strings.Join(headers, "\r\n") + "\r\n"
}

// start runs an Envoy with these routes, on a Unix socket.
func start(t *testing.T, routes []*routev3.Route) (address string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "socket")
	m := &hcmv3.HttpConnectionManager{
		StatPrefix:  "test",
		HttpFilters: []*hcmv3.HttpFilter{{Name: "envoy.filters.http.router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: envoy.ToAny(&routerv3.Router{})}}},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "test", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: routes}},
		}},
	}
	bootstrap := &bootstrapv3.Bootstrap{LayeredRuntime: asInBootstrap(), StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{{
		Name: "test", Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: address}}},
		FilterChains: []*listenerv3.FilterChain{envoy.FilterChain("http", nil, envoy.NetworkFilter("envoy.filters.network.http_connection_manager", m))},
	}}}}
	envoytest.Start(t, bootstrap, address)
	return address
}

// ask sends a request as it is written and gives the answer's status.
func ask(t *testing.T, address, request string) int {
	t.Helper()
	conn, err := net.Dial("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte(request)); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("%q: %v", request, err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}
