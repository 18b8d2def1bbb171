package route

import (
	"slices"
	"strings"
	"testing"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
)

// parseRules reads rules of an HTTPRoute shop/web. Service gone is none that may be named.
func parseRules(t *testing.T, rules string) (*gatewayv1.HTTPRouteSpec, []HTTP) {
	t.Helper()
	spec := &gatewayv1.HTTPRouteSpec{}
	if err := yaml.UnmarshalStrict([]byte("rules:\n"+rules), spec); err != nil {
		t.Fatal(err)
	}
	o := &config.Object{Key: config.Key{Kind: config.KindHTTPRoute, Namespace: "shop", Name: "web"}, Spec: spec}
	return spec, ParseGatewayAPI(o, Where{Gateways: []string{"g"}}, func(b gatewayv1.BackendObjectReference) Destination {
		if b.Name == "gone" {
			return Destination{}
		}
		return Destination{Host: string(b.Name), Port: uint32(*b.Port)}
	}).HTTP
}

// TestUnsupportedSessions: what proxies cannot keep of sessions is said by its field.
func TestUnsupportedSessions(t *testing.T) {
	const to = "backendRefs: [{name: a, port: 80}]"
	for _, c := range []struct{ rule, field, why string }{
		{"{" + to + ", sessionPersistence: {}}", "", ""},
		{"{" + to + ", sessionPersistence: {type: Cookie, sessionName: JSESSIONID}}", "", ""},
		{"{" + to + ", sessionPersistence: {type: Cookie, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}}", "", ""},
		{"{" + to + ", sessionPersistence: {type: Header, sessionName: X-Session}}", "", ""},
		{"{backendRefs: [{name: a, port: 80}, {name: b, port: 80}], sessionPersistence: {}}", "", ""},
		{"{" + to + ", sessionPersistence: {type: Url}}", "sessionPersistence.type", "neither"},
		{"{" + to + ", sessionPersistence: {sessionName: a b}}", "sessionPersistence.sessionName", `"a b"`},
		{"{" + to + ", sessionPersistence: {sessionName: ''}}", "sessionPersistence.sessionName", `""`},
		{"{" + to + ", sessionPersistence: {type: Header, sessionName: Host}}", "sessionPersistence.sessionName", "header host"},
		{"{" + to + ", sessionPersistence: {type: Header, sessionName: X-Envoy-Retry-On}}", "sessionPersistence.sessionName", "x-envoy-retry-on"},
		{"{" + to + ", sessionPersistence: {type: Header, cookieConfig: {lifetimeType: Session}}}", "sessionPersistence.cookieConfig", "no cookie"},
		{"{" + to + ", sessionPersistence: {type: Header, absoluteTimeout: 1h}}", "sessionPersistence.absoluteTimeout", "does not end"},
		{"{" + to + ", sessionPersistence: {absoluteTimeout: 1h}}", "sessionPersistence.absoluteTimeout", "lifetimeType: Permanent"},
		{"{" + to + ", sessionPersistence: {cookieConfig: {lifetimeType: Permanent}}}", "sessionPersistence.absoluteTimeout", "1s"},
		{"{" + to + ", sessionPersistence: {absoluteTimeout: 900ms, cookieConfig: {lifetimeType: Permanent}}}", "sessionPersistence.absoluteTimeout", "1s"},
		{"{backendRefs: [{name: a, port: 80}, {name: b, port: 80}], sessionPersistence: {type: Header}}", "sessionPersistence.type", "several"},
		{"{backendRefs: [{group: networking.istio.io, kind: Hostname, name: a.test, port: 80}], sessionPersistence: {}}", "sessionPersistence", "a.test"},
		{"{filters: [{type: RequestRedirect, requestRedirect: {hostname: b.test}}], sessionPersistence: {}}", "sessionPersistence", "redirects"},
	} {
		spec, _ := parseRules(t, "- "+c.rule)
		field, why := Unsupported(spec)
		if c.field != "" {
			c.field = "rules[0]." + c.field
		}
		if field != c.field || !strings.Contains(why, c.why) || (why == "") != (field == "") {
			t.Errorf("%s: %q %q, want %q %q", c.rule, field, why, c.field, c.why)
		}
	}
}

// TestSessionOfOneBackend: the cookie is the rule's own, and counts below what the match is for.
func TestSessionOfOneBackend(t *testing.T) {
	for _, c := range []struct{ match, path string }{
		{"", "/"},
		{"{path: {value: /}}", "/"},
		{"{path: {value: /shop/cart/}}", "/shop/cart"},
		{"{path: {type: Exact, value: /login}}", "/login"},
		{"{path: {type: Exact, value: '/a/b;Domain=evil.test'}}", "/a"},
		{"{path: {type: RegularExpression, value: '/p1/p2/[a-z]+/p3'}}", "/p1/p2"},
		{"{path: {type: RegularExpression, value: '/p1/p2x?'}}", "/p1"},
		{"{path: {type: RegularExpression, value: /whole}}", "/whole"},
		{"{path: {type: RegularExpression, value: '(?i)/p'}}", "/"},
	} {
		_, got := parseRules(t, "- {matches: ["+c.match+"], backendRefs: [{name: a, port: 80}], sessionPersistence: {absoluteTimeout: 90500ms, cookieConfig: {lifetimeType: Permanent}}}")
		if len(got) != 1 || len(got[0].Destinations) != 1 {
			t.Fatalf("%s: %+v", c.match, got)
		}
		s := got[0].Destinations[0].Session
		if s == nil || s.Path != c.path || s.Lifetime != 90*time.Second || !strings.HasPrefix(s.Cookie, "session-") || s.Header != "" {
			t.Errorf("%s: %+v, want path %s", c.match, s, c.path)
		}
	}
	_, got := parseRules(t, `
- {name: first, matches: [{path: {value: /a}}], backendRefs: [{name: a, port: 80}], sessionPersistence: {}}
- {matches: [{path: {value: /b}}], backendRefs: [{name: a, port: 80}], sessionPersistence: {type: Cookie}}
- {matches: [{path: {value: /c}}], backendRefs: [{name: a, port: 80}], sessionPersistence: {type: Header, sessionName: X-Held}}
- {matches: [{path: {value: /d}}], backendRefs: [{name: a, port: 80}]}`)
	name := func(i int) Session { return *got[i].Destinations[0].Session }
	if name(0).Cookie == name(1).Cookie || name(2) != (Session{Header: "x-held"}) || got[3].Destinations[0].Session != nil {
		t.Errorf("%+v %+v %+v %+v", name(0), name(1), name(2), got[3])
	}
	_, moved := parseRules(t, `
- {matches: [{path: {value: /new}}], backendRefs: [{name: a, port: 80}]}
- {name: first, matches: [{path: {value: /a}}], backendRefs: [{name: a, port: 80}], sessionPersistence: {}}`)
	if *moved[1].Destinations[0].Session != name(0) {
		t.Errorf("a rule with a name that moved has another session: %+v, %+v", moved[1].Destinations[0].Session, name(0))
	}
}

// TestSessionOfSeveralBackends: who carries a backend's cookie goes there, whatever its weight, and nothing else is led otherwise.
func TestSessionOfSeveralBackends(t *testing.T) {
	_, got := parseRules(t, `
- matches: [{path: {value: /}, headers: [{name: x, value: "1"}]}]
  backendRefs: [{name: a, port: 80, weight: 9}, {name: b, port: 80, weight: 0}, {name: gone, port: 80}, {name: c, port: 81}]
  sessionPersistence: {sessionName: sid}`)
	var says []string
	for _, h := range got {
		text := h.Matches[0].Carries + ":"
		for _, d := range h.Destinations {
			text += " " + d.Host + "/" + d.Session.Cookie
		}
		says = append(says, text)
	}
	b, c := "sid-"+backendHash(Destination{Host: "b", Port: 80}), "sid-"+backendHash(Destination{Host: "c", Port: 81})
	gone := "sid-" + backendHash(Destination{})
	want := []string{"sid: a/sid", b + ": b/" + b, c + ": c/" + c, ": a/sid /" + gone + " c/" + c}
	if !slices.Equal(says, want) {
		t.Fatalf("%q, want %q", says, want)
	}
	for i := range got {
		if Precedence(&got[i], &got[3]) != 0 {
			t.Errorf("%q is put before others, or behind them", says[i])
		}
	}
	for _, x := range []struct {
		cookies []string
		to      int
	}{
		{nil, 3}, {[]string{"sid=x"}, 0}, {[]string{"theme=dark; " + b + "=x"}, 1}, {[]string{"theme=dark", c + "=x; a=b"}, 2},
		{[]string{"asid=x"}, 3}, {[]string{"x=sid"}, 3}, {[]string{"sid2=x"}, 3},
	} {
		r := &Request{Place: Scope{Gateway: "g"}, Method: "GET", Path: "/", Headers: map[string][]string{"x": {"1"}, "cookie": x.cookies}}
		i := slices.IndexFunc(got, func(h HTTP) bool { return h.Means(r) })
		if i != x.to {
			t.Errorf("%q goes by %d, want %d", x.cookies, i, x.to)
		}
	}
	if _, asked := parseRules(t, "- {filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: authz, port: 9000}}}], backendRefs: [{name: a, port: 80}, {name: b, port: 80}], sessionPersistence: {}}"); slices.ContainsFunc(asked, func(h HTTP) bool { return h.Asks == nil }) {
		t.Errorf("by a cookie nobody is asked: %+v", asked)
	}
	if _, all := parseRules(t, "- {backendRefs: [{name: a, port: 80, weight: 0}, {name: b, port: 80, weight: 0}], sessionPersistence: {}}"); len(all) != 3 || all[2].DirectResponse == nil || all[0].DirectResponse != nil {
		t.Errorf("backends without weight: %+v", all)
	}
}
