package route_test

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// parse reads the spec of a VirtualService of namespace shop.
func parse(t *testing.T, spec string) route.Routes {
	t.Helper()
	f := decode.File("v.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v, namespace: shop}\nspec: "+spec))
	if len(f.Findings) > 0 || len(f.Objects) != 1 {
		t.Fatalf("%v\n%s", f.Findings, spec)
	}
	return route.Parse(&f.Objects[0], f.Objects[0].Spec.(*networking.VirtualService))
}

func request(change func(*route.Request)) *route.Request {
	r := &route.Request{
		Place: route.At(80, "team", route.Labels{"app": "web"}), Method: "GET", Scheme: "http", Authority: "a.com:8080", Path: "/api/v1?x=1&y=&x=2&z",
		Headers: map[string][]string{"one": {"a"}, "two": {"a", "b"}, "empty": {""}, "raw": {"\xff"}},
	}
	if change != nil {
		change(r)
	}
	return r
}

// TestHTTPMatch holds matches to what Envoy makes of them; xds/translate tries the same cases with a real one.
func TestHTTPMatch(t *testing.T) {
	for match, want := range map[string]bool{
		"{}": true, "{uri: {prefix: ''}}": true, "{uri: {prefix: /}}": true,
		"{uri: {prefix: /api}}": true, "{uri: {prefix: /ap}}": true, "{uri: {prefix: /API}}": false, "{uri: {prefix: '/api/v1?'}}": false,
		"{uri: {prefix: /API}, ignoreUriCase: true}": true, "{uri: {exact: /API/v1}, ignoreUriCase: true}": true, "{uri: {regex: '/API/.*'}, ignoreUriCase: true}": false,
		"{uri: {exact: /api/v1}}": true, "{uri: {exact: '/api/v1?x=1'}}": false, "{uri: {exact: /api}}": false,
		"{uri: {regex: /api/v1}}": true, "{uri: {regex: /api}}": false, "{uri: {regex: '/api/v[0-9]'}}": true, "{uri: {regex: '/b|/api/v1'}}": true, "{uri: {regex: '('}}": false,
		"{scheme: {exact: http}}": true, "{scheme: {exact: https}}": false, "{method: {exact: GET}}": true, "{method: {exact: get}}": false, "{method: {regex: 'GET|PUT'}}": true,
		"{authority: {exact: a.com}}": false, "{authority: {exact: 'a.com:8080'}}": true, "{authority: {prefix: a.com}}": true,
		"{headers: {one: {}}}": true, "{headers: {One: {exact: a}}}": true, "{headers: {one: {exact: b}}}": false, "{headers: {none: {}}}": false, "{headers: {none: {exact: ''}}}": false,
		"{headers: {empty: {}}}": true, "{headers: {empty: {exact: ''}}}": true, "{headers: {one: {regex: '*'}}}": true, "{headers: {none: {regex: '*'}}}": false,
		"{headers: {two: {exact: 'a,b'}}}": false, "{headers: {two: {exact: b}}}": true, "{withoutHeaders: {two: {exact: b}}}": false, "{headers: {two: {prefix: a}}}": true, "{headers: {one: {regex: '[ab]'}}}": true,
		"{headers: {raw: {}}}": true, "{headers: {raw: {regex: '.*'}}}": true, "{headers: {one: {exact: a}, two: {exact: x}}}": false,
		"{headers: {uri: {exact: x}, method: {exact: x}}}": true, // which the API ignores
		"{withoutHeaders: {one: {}}}":                      false, "{withoutHeaders: {none: {}}}": true, "{withoutHeaders: {one: {exact: b}}}": true, "{withoutHeaders: {one: {exact: a}}}": false,
		"{withoutHeaders: {none: {exact: a}}}": true, "{withoutHeaders: {none: {exact: ''}}}": false, "{withoutHeaders: {none: {regex: '*'}}}": true, "{withoutHeaders: {one: {regex: '*'}}}": false,
		"{queryParams: {x: {exact: '1'}}}": true, "{queryParams: {x: {exact: '2'}}}": false, `{queryParams: {"y": {exact: ''}}}`: true, "{queryParams: {z: {exact: ''}}}": true,
		`{queryParams: {"n": {exact: ''}}}`: false, "{queryParams: {x: {prefix: '1'}}}": true, "{queryParams: {x: {regex: '[0-9]+'}}}": true, "{queryParams: {X: {exact: '1'}}}": false,
		"{port: 80}": true, "{port: 81}": false, "{sourceLabels: {app: web}}": true, "{sourceLabels: {app: web, v: '1'}}": false, "{sourceNamespace: team}": true, "{sourceNamespace: shop}": false,
		"{gateways: [mesh]}": true, "{gateways: [g]}": false, "{gateways: [g, mesh], sourceLabels: {app: x}}": false,
	} {
		r := parse(t, "{hosts: [a.com], http: [{match: ["+match+"], route: [{destination: {host: b.com}}]}]}")
		if got := len(r.HTTP) > 0 && r.HTTP[0].Means(request(nil)); got != want {
			t.Errorf("%s: %v", match, got)
		}
	}
	star := parse(t, "{hosts: [a.com], http: [{route: [{destination: {host: b.com}}]}]}")
	if star.HTTP[0].Means(request(func(r *route.Request) { r.Path = "*" })) {
		t.Error("a path without a slash is meant")
	}
}

// TestPlaces: where a match counts, at sidecars and at Gateways.
func TestPlaces(t *testing.T) {
	r := parse(t, `{hosts: [a.com], gateways: [mesh, g, other/h, ./i, j.ns.svc.cluster.local], http: [
		{name: port, match: [{port: 443, uri: {prefix: /x}}], route: [{destination: {host: b.com}}]},
		{name: mesh, match: [{gateways: [mesh], port: 80, uri: {prefix: /x}}], route: [{destination: {host: b.com}}]},
		{name: named, match: [{gateways: [g], sourceNamespace: team, uri: {prefix: /x}}], route: [{destination: {host: b.com}}]},
		{name: labels, match: [{sourceLabels: {app: web}, uri: {prefix: /x}}], route: [{destination: {host: b.com}}]},
		{name: all, route: [{destination: {host: b.com}}]},
		{name: never, route: [{destination: {host: b.com}}]}]}`)
	for _, c := range []struct {
		place route.Scope
		want  string
	}{
		{route.At(80, "team", nil), "mesh all"},
		{route.At(81, "team", route.Labels{"app": "web"}), "labels all"},
		{route.Scope{Gateway: "shop/g", Ports: []uint32{80, 443}}, "port named all"},
		{route.Scope{Gateway: "other/h", Ports: []uint32{80}}, "all"}, {route.Scope{Gateway: "shop/i"}, "all"}, {route.Scope{Gateway: "ns/j"}, "all"},
		{route.Scope{Gateway: "shop/k"}, ""}, {route.Scope{Gateway: "g/shop"}, ""},
	} {
		var names []string
		for _, h := range route.HTTPAt(r.HTTP, c.place) {
			names = append(names, h.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("at %+v: %s, want %s", c.place, got, c.want)
		}
	}
}

// TestL4: TLS by name and by where the client connected to, TCP by the latter.
func TestL4(t *testing.T) {
	r := parse(t, `{hosts: ['*.a.com', b.com], tls: [
		{match: [{sniHosts: ['*.x.a.com'], port: 443}], route: [{destination: {host: one.com}}]},
		{match: [{sniHosts: ['*.a.com', B.com], destinationSubnets: [10.0.0.0/8, bad]}], route: [{destination: {host: two.com}}]}],
		tcp: [{match: [{destinationSubnets: [192.0.2.7]}], route: [{destination: {host: three.com}}]}, {route: [{destination: {host: four}, weight: 3}, {destination: {host: five}, weight: 1}, {destination: {host: six}}]}]}`)
	for _, c := range []struct {
		sni, to string
		port    uint32
		want    int
	}{{"y.x.a.com", "192.0.2.1", 443, 0}, {"y.x.a.com", "10.1.1.1", 444, 1}, {"x.a.com", "10.1.1.1", 443, 1}, {"b.com", "10.1.1.1", 1, 1}, {"b.com", "11.1.1.1", 1, -1}, {"a.com", "10.1.1.1", 1, -1}} {
		got := -1
		for i := range r.TLS {
			if r.TLS[i].Means(&route.Request{Place: route.At(c.port, "x", nil), SNI: c.sni, Dialled: netip.MustParseAddr(c.to)}) {
				got = i
				break
			}
		}
		if got != c.want {
			t.Errorf("%+v: the route is %d", c, got)
		}
	}
	tcp := route.L4At(r.TCP, route.At(1, "x", nil))
	if len(tcp) != 2 || tcp[0].Means(&route.Request{Place: route.At(1, "x", nil), Dialled: netip.MustParseAddr("192.0.2.8")}) || len(tcp[1].Destinations) != 2 || tcp[1].Destinations[0].Host != "four.shop.svc.cluster.local" {
		t.Errorf("%+v", tcp)
	}
}

// TestParse holds what is read of a route's actions, as JSON.
func TestParse(t *testing.T) {
	for spec, want := range map[string]string{
		"{route: [{destination: {host: b}}]}": `"Destinations":[{"Host":"b.shop.svc.cluster.local","Weight":1}]`,
		"{route: [{destination: {host: b.com, subset: v, port: {number: 8}}, weight: 0}, {destination: {host: c.com}, weight: 7}]}": `"Destinations":[{"Host":"c.com","Weight":7}]`,
		"{redirect: {uri: /x, authority: h, derivePort: FROM_REQUEST_PORT, redirectCode: 308, scheme: https}}":                      `"Redirect":{"URI":"/x","PrefixRewrite":"","Authority":"h","Scheme":"https","FromRequest":true,"Code":308}`,
		"{redirect: {prefixRewrite: /x, port: 8}}":                                                                                                                                `"Redirect":{"URI":"","PrefixRewrite":"/x","Authority":"","Scheme":"","Port":8,"Code":301}`,
		"{directResponse: {status: 503, body: {string: nope}}}":                                                                                                                   `"DirectResponse":{"Status":503,"Body":"bm9wZQ=="}`,
		"{route: [{destination: {host: b.com}}], rewrite: {authority: x, uriRegexRewrite: {match: a, rewrite: b}}}":                                                               `"Rewrite":{"Authority":"x","Regex":{"Match":"a","Rewrite":"b"}}`,
		"{route: [{destination: {host: b.com}}], timeout: 2s, retries: {attempts: 3, perTryTimeout: 1s, retryOn: '503,reset'}}":                                                   `"Timeout":2000000000,"Retries":{"Attempts":3,"PerTry":1000000000,"Backoff":0,"On":["reset"],"OnStatus":[503]}`,
		"{route: [{destination: {host: b.com}}], retries: {attempts: 0}}":                                                                                                         `"Retries":{"Attempts":0,"PerTry":0,"Backoff":0,"On":["connect-failure","refused-stream","unavailable","cancelled"]}`,
		"{route: [{destination: {host: b.com}}], fault: {delay: {fixedDelay: 1s, percentage: {value: 0.5}}, abort: {grpcStatus: NOT_FOUND, percentage: {value: 100}}}}":           `"Delay":{"For":1000000000,"Share":5000},"Abort":{"GRPC":5,"Share":1000000}`,
		"{route: [{destination: {host: b.com}}], fault: {abort: {httpStatus: 500, percentage: {value: 0}}}}":                                                                      `"Weight":1}]}`,
		"{route: [{destination: {host: b.com}}], mirror: {host: c}, mirrorPercentage: {value: 10}}":                                                                               `"Mirrors":[{"Host":"c.shop.svc.cluster.local","Share":100000}]`,
		"{route: [{destination: {host: b.com}}], mirrors: [{destination: {host: c.com}, percentage: {value: 0}}, {destination: {host: d.com}}]}":                                  `"Mirrors":[{"Host":"d.com","Share":1000000}]`,
		"{route: [{destination: {host: b.com}}], corsPolicy: {allowOrigins: [{regex: x}], allowMethods: [GET], maxAge: 1s, allowCredentials: true, unmatchedPreflights: IGNORE}}": `"CORS":{"Origins":[{"Kind":3,"Value":"x"}],"Methods":["GET"],"MaxAge":1000000000,"Credentials":true,"ForwardOthers":false}`,
		"{route: [{destination: {host: b.com}}], headers: {request: {set: {Host: x, B: '1', A: '%REQ(x)%'}, remove: [C]}, response: {add: {d: '2'}}}}":                            `"Headers":{"Request":{"Set":[{"Name":"a","Value":"%REQ(x)%"},{"Name":"b","Value":"1"}],"Remove":["c"],"Authority":"x"},"Response":{"Add":[{"Name":"d","Value":"2"}]}}`,
	} {
		text, err := json.Marshal(parse(t, "{hosts: [a.com], http: ["+spec+"]}").HTTP[0])
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s\n%s\nwant %s", spec, text, want)
		}
	}
}

// TestReservedHeaders: what would break decisions, or other people's messages, is not written, whoever let it through.
func TestReservedHeaders(t *testing.T) {
	r := parse(t, `{hosts: [a.com], http: [{route: [{destination: {host: b.com}, headers: {request: {set: {Sallyport-Registered-In: x, X-Sallyport-Name: x, x-envoy-retry-on: 5xx, Content-Length: '3',
		secret: '%ENVIRONMENT(HOME)%', state: '%FILTER_STATE(a)%', unknown: '%NO_SUCH%', open: '100%', "": x}, remove: [sallyport-hops, transfer-encoding, x]},
		response: {set: {Content-Length: '3'}, remove: [x-envoy-upstream-service-time]}}}]}]}`)
	h := r.HTTP[0].Destinations[0].Headers
	text, err := json.Marshal(h)
	if want := `{"Request":{"Remove":["x"]},"Response":{"Remove":["x-envoy-upstream-service-time"]}}`; err != nil || string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestFormats(t *testing.T) {
	for value, want := range map[string]bool{
		"": true, "plain": true, "100%%": true, "%REQ(X-A?:path):10%": true, "a%PROTOCOL%b%%": true, "%START_TIME(%Y/%m)%": true, "%START_TIME%": true,
		"%": false, "100%": false, "%PROTOCOL": false, "%ENVIRONMENT(X)%": false, "%PROTOCOL(x)%": false, "%REQ%": false, "%REQ(a b)%": false, "%REQ(a)(b)%": false,
		"%PROTOCOL:3%": false, "%%%": false, "%DYNAMIC_METADATA(a:b)%": false, "%req(a)%": false, "%CEL(request.path)%": false,
	} {
		if got := route.Formats(value); got != want {
			t.Errorf("%q: %v", value, got)
		}
	}
}

// TestMerge holds delegates to Istio's rules, case by case: a root's route, a delegate's, and what becomes of them.
func TestMerge(t *testing.T) {
	for _, c := range []struct{ root, delegate, want string }{
		{"", "", "any"},
		{"match: [{uri: {prefix: /a}}]", "", "/a"},
		{"", "match: [{uri: {prefix: /a}}]", "/a"},
		{"match: [{uri: {prefix: /a}}]", "match: [{uri: {prefix: /a/b}}, {uri: {exact: /a/c}}]", "/a/b /a/c"},
		{"match: [{uri: {prefix: /a}}]", "match: [{uri: {prefix: /a/b}}, {uri: {exact: /c}}]", "-"},
		{"match: [{uri: {prefix: /a}}, {uri: {prefix: /c}}]", "match: [{uri: {exact: /c/d}}]", "/c/d"},
		{"match: [{uri: {exact: /a}}]", "match: [{uri: {prefix: /a}}]", "-"},
		{"match: [{uri: {regex: a}}]", "match: [{uri: {exact: a}}]", "-"},
		{"match: [{uri: {regex: a}}]", "match: [{method: {exact: GET}}]", "a"},
		{"match: [{port: 80, uri: {prefix: /a}}]", "match: [{port: 81}]", "-"},
		{"match: [{headers: {h: {exact: x}}, uri: {prefix: /a}}]", "match: [{headers: {h: {exact: z}}}]", "-"},
		{"match: [{headers: {h: {prefix: x}}, uri: {prefix: /a}}]", "match: [{headers: {h: {exact: xy}}}]", "/a"},
		{"match: [{uri: {prefix: /a}, ignoreUriCase: true}]", "match: [{uri: {prefix: /a/b}}]", "-"},
		{"match: [{sourceNamespace: ns, uri: {prefix: /a}}]", "match: [{sourceNamespace: m}]", "-"},
		{"match: [{sourceLabels: {a: b}, uri: {prefix: /a}}]", "match: [{sourceLabels: {a: c}}]", "-"},
		{"match: [{gateways: [g], uri: {prefix: /a}}]", "match: [{gateways: [mesh]}]", "-"},
		{"match: [{queryParams: {q: {exact: x}}, uri: {prefix: /a}}]", "match: [{queryParams: {q: {exact: z}}}]", "-"},
	} {
		root := parse(t, "{hosts: [a.com], gateways: [g, mesh], http: [{"+strings.TrimPrefix(c.root+", ", ", ")+"delegate: {name: d, namespace: ns}}]}")
		of := parse(t, "{http: [{"+strings.TrimPrefix(c.delegate+", ", ", ")+"route: [{destination: {host: b.com}}]}]}")
		if d := root.Delegates(); len(d) != 1 || d[0] != (config.Key{Kind: config.KindVirtualService, Namespace: "ns", Name: "d"}) {
			t.Fatalf("delegates %v", d)
		}
		var got []string
		for _, h := range root.Resolve(1, func(config.Key) (route.Routes, bool) { return of, true }).HTTP {
			for _, m := range h.Matches {
				uri := "any"
				if m.URI != nil {
					uri = m.URI.Value
				}
				if got = append(got, uri); !m.At(route.Scope{Gateway: "shop/g", Ports: []uint32{80}, Namespace: "ns", Source: route.Labels{"a": "b"}}) {
					t.Errorf("%+v: it does not count at the root's gateway", c)
				}
			}
		}
		if text := strings.Join(got, " "); text != c.want && (c.want != "-" || text != "") {
			t.Errorf("%s, %s: %q, want %q", c.root, c.delegate, text, c.want)
		}
	}
}

// TestMergeActions: what a delegate's route does not say is the root's.
func TestMergeActions(t *testing.T) {
	root := parse(t, `{hosts: [a.com], http: [{name: r, delegate: {name: d}, timeout: 1s, retries: {attempts: 1}, rewrite: {uri: /r}, fault: {abort: {httpStatus: 500, percentage: {value: 100}}}, mirror: {host: m.com},
		corsPolicy: {allowMethods: [GET]}, headers: {request: {set: {a: r}}}}]}`)
	of := parse(t, `{http: [{name: d, route: [{destination: {host: b.com}}]}, {route: [{destination: {host: b.com}}], timeout: 2s, retries: {attempts: 2}, rewrite: {uri: /d}, fault: {delay: {fixedDelay: 1s, percentage: {value: 100}}},
		mirror: {host: n.com}, corsPolicy: {allowMethods: [PUT]}, headers: {request: {set: {b: d}}}}]}`)
	merged := root.Resolve(1, func(config.Key) (route.Routes, bool) { return of, true }).HTTP
	if len(merged) != 2 {
		t.Fatalf("%d routes", len(merged))
	}
	if h := merged[0]; h.Name != "r-d" || h.Timeout.Seconds() != 1 || h.Retries.Attempts != 1 || h.Rewrite.URI != "/r" || h.Abort == nil || h.Mirrors[0].Host != "m.com" || h.CORS.Methods[0] != "GET" || h.Headers.Request.Set[0].Name != "a" {
		t.Errorf("%+v", h)
	}
	if h := merged[1]; h.Name != "r" || h.Timeout.Seconds() != 2 || h.Retries.Attempts != 2 || h.Rewrite.URI != "/d" || h.Abort != nil || h.Delay == nil || h.Mirrors[0].Host != "n.com" || h.CORS.Methods[0] != "PUT" || h.Headers.Request.Set[0].Name != "b" {
		t.Errorf("%+v", h)
	}
}

// TestJoin: of several objects' routes, those that mean everything come last.
func TestJoin(t *testing.T) {
	one := parse(t, "{hosts: [a.com], http: [{name: all, match: [{uri: {prefix: /x}}, {}], route: [{destination: {host: b.com}}]}]}")
	two := parse(t, "{hosts: [a.com], http: [{name: some, match: [{uri: {prefix: /y}}], route: [{destination: {host: b.com}}]}]}")
	var names []string
	for _, h := range route.Join(one.HTTP, two.HTTP) {
		names = append(names, h.Name)
	}
	if got := strings.Join(names, " "); got != "all some all" {
		t.Error(got)
	}
}

// TestPortOf: a destination's port is the one that is written, or the only one, or the one that was asked for.
func TestPortOf(t *testing.T) {
	for _, c := range []struct {
		written, asked, want uint32
		has                  []uint32
	}{{8, 80, 8, []uint32{80, 8}}, {0, 80, 443, []uint32{443}}, {0, 80, 80, []uint32{80, 443}}, {0, 80, 80, nil}} {
		if got := (route.Destination{Port: c.written}).PortOf(c.has, c.asked); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
