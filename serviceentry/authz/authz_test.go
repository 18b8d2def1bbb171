package authz

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	security "istio.io/api/security/v1"
	"sigs.k8s.io/yaml"

	"github.com/sallyport/sallyport/config"
	"google.golang.org/protobuf/encoding/protojson"
)

func policy(t *testing.T, name, spec string, dry bool) *Policy {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	p := &security.AuthorizationPolicy{}
	if err := protojson.Unmarshal(text, p); err != nil {
		t.Fatal(err)
	}
	o := &config.Object{Key: config.Key{Kind: config.KindAuthorizationPolicy, Namespace: "istio-system", Name: name}, Spec: p}
	if dry {
		o.Annotations = map[string]string{DryRunAnnotation: "true"}
	}
	return FromSpec(o, p)
}

var domains = []string{"mesh.test", "old.test"}

// asked is a request of shop/web's to a.com, as changed.
func asked(change func(*Attempt)) *Attempt {
	a := &Attempt{
		Domains: domains, Client: "spiffe://mesh.test/ns/shop/sa/web", From: netip.MustParseAddr("10.0.0.7"), Remote: netip.MustParseAddr("10.0.0.7"), Authority: "a.com",
		Request: &Request{Method: "GET", Path: "/api/x?y=1", Header: func(name string) (string, bool) { return "blue", name == "x-team" }},
	}
	if change != nil {
		change(a)
	}
	return a
}

// token is one of a request, of lists and of claims within others.
func token(a *Attempt) {
	a.Request.Claim = func(path []string) []string {
		return map[string][]string{
			"iss": {"https://issuer.test"}, "sub": {"anna"}, "aud": {"app-1", "app-2"}, "azp": {"client"}, "group": {"admin"}, "realm roles": {"reader", "writer"},
		}[strings.Join(path, " ")]
	}
}

func connection(a *Attempt) { a.Request, a.Authority = nil, "a.com:443" }
func tls(a *Attempt)        { connection(a); a.TLS = true }

// TestMethodsInOtherLetters: what denies, and what lets through all but some, means methods in all letters; what lets some through means these.
func TestMethodsInOtherLetters(t *testing.T) {
	for _, c := range []struct {
		action Action
		rule   string
		want   map[string]bool // whether the rule holds
	}{
		{Deny, `{to: [{operation: {methods: [DELETE, "PUR*"]}}]}`, map[string]bool{"DELETE": true, "delete": true, "Delete": true, "purge": true, "GET": false}},
		{Deny, `{to: [{operation: {notMethods: [GET]}}]}`, map[string]bool{"GET": false, "get": true, "DELETE": true}},
		{Custom, `{to: [{operation: {methods: [DELETE]}}]}`, map[string]bool{"delete": true, "GET": false}},
		{Allow, `{to: [{operation: {methods: [GET]}}]}`, map[string]bool{"GET": true, "get": false}},
		{Allow, `{to: [{operation: {notMethods: [DELETE]}}]}`, map[string]bool{"DELETE": false, "delete": false, "GET": true, "get": true}},
		{Allow, `{to: [{operation: {methods: ["*"], notMethods: [DELETE]}}]}`, map[string]bool{"delete": false, "get": true}},
	} {
		p := policy(t, "p", "{"+map[Action]string{Deny: "action: DENY", Custom: "action: CUSTOM, provider: {name: x}", Allow: "action: ALLOW"}[c.action]+", rules: ["+c.rule+"]}", false)
		for method, want := range c.want {
			if got := p.Rules[0].matches(asked(func(a *Attempt) { a.Request.Method = method }), p.Action); got != want {
				t.Errorf("%v %s: %s: %v", c.action, c.rule, method, got)
			}
		}
	}
}

// TestRules: what a rule that allows matches, and one that denies.
func TestRules(t *testing.T) {
	path := func(p string) func(*Attempt) { return func(a *Attempt) { a.Request.Path = p } }
	to := func(authority string) func(*Attempt) { return func(a *Attempt) { a.Authority = authority } }
	for _, c := range []struct {
		rule          string
		change        func(*Attempt)
		allow, denies bool
	}{
		{`{}`, nil, true, true},
		{`{from: [{source: {principals: [mesh.test/ns/shop/sa/web]}}]}`, nil, true, true},
		{`{from: [{source: {principals: [cluster.local/ns/shop/sa/web]}}]}`, nil, true, true},
		{`{from: [{source: {principals: [old.test/ns/shop/sa/web]}}]}`, nil, true, true},
		{`{from: [{source: {principals: [else.test/ns/shop/sa/web]}}]}`, nil, false, false},
		{`{from: [{source: {principals: ["mesh.test/ns/shop/*"]}}]}`, nil, true, true},
		{`{from: [{source: {principals: ["*d.test/ns/shop/sa/web"]}}]}`, nil, true, true},
		{`{from: [{source: {notPrincipals: ["*d.test/ns/shop/sa/web"]}}]}`, nil, false, false},
		{`{from: [{source: {principals: ["*se.test/ns/shop/sa/web"]}}]}`, nil, false, false},
		{`{from: [{source: {principals: ["*d.test/ns/shop/sa/other"]}}]}`, nil, false, false},
		{`{from: [{source: {principals: ["*/sa/web"]}}]}`, nil, true, true},
		{`{from: [{source: {principals: ["*"]}}]}`, func(a *Attempt) { a.Client = "" }, false, false},
		{`{from: [{source: {notPrincipals: ["*"]}}]}`, func(a *Attempt) { a.Client = "" }, true, true},
		{`{from: [{source: {namespaces: [shop]}}]}`, nil, true, true},
		{`{from: [{source: {namespaces: [sh]}}]}`, nil, false, false},
		{`{from: [{source: {namespaces: ["sh*"]}}]}`, nil, true, true},
		{`{from: [{source: {namespaces: [shop], notPrincipals: ["*/sa/web"]}}]}`, nil, false, false},
		{`{from: [{source: {serviceAccounts: [shop/web]}}]}`, nil, true, true},
		{`{from: [{source: {serviceAccounts: [web]}}]}`, nil, false, false}, // of the policy's own namespace
		{`{from: [{source: {trustDomains: [mesh.test]}}]}`, nil, true, true},
		{`{from: [{source: {trustDomains: ["old*"]}}]}`, nil, false, false},
		{`{from: [{source: {ipBlocks: [10.0.0.0/8]}}]}`, nil, true, true},
		{`{from: [{source: {notIpBlocks: [10.0.0.7]}}]}`, nil, false, false},
		{`{from: [{source: {ipBlocks: ["::ffff:10.0.0.0/104"]}}]}`, nil, true, true},
		{`{from: [{source: {namespaces: [else]}}, {source: {namespaces: [shop]}}]}`, nil, true, true},
		{`{to: [{operation: {hosts: [a.com]}}]}`, nil, true, true},
		{`{to: [{operation: {hosts: [A.com]}}]}`, to("a.COM:8080"), true, true},
		{`{to: [{operation: {hosts: ["a.com:80"]}}]}`, nil, false, false},
		{`{to: [{operation: {hosts: ["a.com:*"]}}]}`, to("a.com:8080"), true, true},
		{`{to: [{operation: {hosts: [a.com]}}]}`, to("xa.com"), false, false},
		{`{to: [{operation: {hosts: [a.com]}}]}`, to("a.com."), true, true},
		{`{to: [{operation: {hosts: ["*.com"]}}]}`, nil, true, true},
		{`{to: [{operation: {notHosts: ["*.com"]}}]}`, nil, false, false},
		{`{to: [{operation: {ports: ["80"]}}]}`, nil, true, true},
		{`{to: [{operation: {ports: ["80"]}}]}`, to("[2001:db8::1]"), true, true},
		{`{to: [{operation: {ports: ["80"]}}]}`, to("a.com:8080"), false, false},
		{`{to: [{operation: {ports: ["8080"]}}]}`, to("a.com:8080"), true, true},
		{`{to: [{operation: {methods: [GET], notPaths: [/admin]}}]}`, nil, true, true},
		{`{to: [{operation: {paths: ["/api/*"]}}]}`, nil, true, true},
		{`{to: [{operation: {paths: ["/api/x"]}}]}`, nil, true, true},
		{`{to: [{operation: {paths: ["*/x"]}}]}`, nil, true, true},
		{`{to: [{operation: {paths: ["/api"]}}]}`, nil, false, false},
		{`{to: [{operation: {paths: ["/api/{*}"]}}]}`, nil, true, true},
		{`{to: [{operation: {paths: ["/{*}"]}}]}`, nil, false, false},
		{`{to: [{operation: {paths: ["/{**}"]}}]}`, nil, true, true},
		{`{to: [{operation: {paths: ["*/x"]}}]}`, path("/z?/x"), false, false},
		// what servers may take for another path denies, and allows nothing
		{`{to: [{operation: {paths: ["/admin"]}}]}`, path("/x/../admin"), false, true},
		{`{to: [{operation: {notPaths: ["/admin"]}}]}`, path("//admin"), false, true},
		{`{to: [{operation: {paths: ["/admin"]}}]}`, path("/%61dmin"), false, true},
		{`{when: [{key: "request.headers[X-Team]", values: ["blue"]}]}`, nil, true, true},
		{`{when: [{key: "request.headers[x-team]", notValues: ["bl*"]}]}`, nil, false, false},
		{`{when: [{key: "request.headers[x-none]", values: ["*"]}]}`, nil, false, false},
		{`{when: [{key: source.ip, values: [10.0.0.7/32]}, {key: destination.port, values: ["80"]}]}`, nil, true, true},
		{`{when: [{key: remote.ip, values: [10.0.1.0/24]}]}`, nil, false, false},
		{`{when: [{key: request.auth.claims, values: [x]}]}`, nil, false, true}, // nobody can tell
		{`{from: [{source: {requestPrincipals: ["*"]}}]}`, nil, false, false},
		{`{from: [{source: {notRequestPrincipals: ["*"]}}]}`, nil, true, true},
		{`{from: [{source: {requestPrincipals: ["*"]}}]}`, token, true, true},
		{`{from: [{source: {notRequestPrincipals: ["*"]}}]}`, token, false, false},
		{`{from: [{source: {requestPrincipals: ["https://issuer.test/anna"]}}]}`, token, true, true},
		{`{from: [{source: {requestPrincipals: ["https://issuer.test/an*"]}}]}`, token, true, true},
		{`{from: [{source: {requestPrincipals: ["https://issuer.test/*"]}}]}`, token, true, true},
		{`{from: [{source: {requestPrincipals: ["*issuer.test/anna"]}}]}`, token, true, true},
		{`{from: [{source: {requestPrincipals: ["*anna"]}}]}`, token, true, true},
		{`{from: [{source: {requestPrincipals: ["https://issuer.test"]}}]}`, token, false, false},
		{`{from: [{source: {requestPrincipals: ["https:*"]}}]}`, token, true, true},
		{`{from: [{source: {requestPrincipals: ["issuer*"]}}]}`, token, false, false},
		{`{from: [{source: {requestPrincipals: ["https://issuer.test/bert", "else/anna"]}}]}`, token, false, false},
		{`{from: [{source: {requestPrincipals: ["https://*"]}}]}`, token, false, false}, // an issuer "https:/", any subject
		{`{when: [{key: request.auth.principal, values: ["https://issuer.test/anna"]}]}`, token, true, true},
		{`{when: [{key: request.auth.audiences, values: [app-2]}]}`, token, true, true},
		{`{when: [{key: request.auth.audiences, notValues: [app-2]}]}`, token, false, false},
		{`{when: [{key: request.auth.presenter, values: ["cli*"]}]}`, token, true, true},
		{`{when: [{key: "request.auth.claims[group]", values: [admin]}]}`, token, true, true},
		{`{when: [{key: "request.auth.claims[realm][roles]", values: ["r*"]}]}`, token, true, true},
		{`{when: [{key: "request.auth.claims[realm]", values: ["*"]}]}`, token, false, false},
		{`{when: [{key: "request.auth.claims[group]", notValues: ["*"]}]}`, nil, true, true},
		{`{when: [{key: "request.auth.claims[a.b/c]", values: ["*"]}]}`, token, false, false},
		{`{when: [{key: "request.auth.claims[group", values: ["*"]}]}`, token, false, true}, // no key
		// of connections, requests' attributes allow nothing, and deny what is left of the rule
		{`{to: [{operation: {ports: ["443"]}}]}`, connection, true, true},
		{`{to: [{operation: {ports: ["443"], methods: [GET]}}]}`, connection, false, true},
		{`{to: [{operation: {ports: ["444"], methods: [GET]}}]}`, connection, false, false},
		{`{to: [{operation: {methods: [GET]}}, {operation: {ports: ["444"]}}]}`, connection, false, true},
		{`{from: [{source: {namespaces: [else]}}], to: [{operation: {hosts: [a.com]}}]}`, connection, false, false},
		{`{when: [{key: "request.headers[x-team]", values: [red]}]}`, connection, false, true},
		{`{from: [{source: {requestPrincipals: ["*"]}}]}`, connection, false, true},
		{`{from: [{source: {notRequestPrincipals: ["*"], namespaces: [else]}}]}`, connection, false, false},
		{`{when: [{key: connection.sni, values: ["*.com"]}]}`, tls, true, true},
		{`{when: [{key: connection.sni, values: ["*.com"]}]}`, connection, false, false},
		{`{when: [{key: connection.sni, values: ["*.com"]}]}`, nil, false, false},
		{`{when: [{key: connection.sni, notValues: [b.com]}]}`, tls, true, true},
	} {
		allow := Set{policy(t, "allow", "{rules: ["+c.rule+"]}", false)}
		if got := allow.Rule(asked(c.change)); got.Allows != c.allow || !got.Decides {
			t.Errorf("%s allows: %v", c.rule, got.Allows)
		}
		deny := Set{policy(t, "deny", "{action: DENY, rules: ["+c.rule+"]}", false)}
		if got := deny.Rule(asked(c.change)); got.Decides != c.denies || got.Allows {
			t.Errorf("%s denies: %v", c.rule, got.Decides)
		}
	}
}

// TestOrder: who denies comes first, one that allows is enough, and where some allow, the rest is denied.
func TestOrder(t *testing.T) {
	const other, this, all = `{rules: [{to: [{operation: {hosts: [b.com]}}]}]}`, `{action: DENY, rules: [{to: [{operation: {hosts: [a.com]}}]}]}`, `{rules: [{}]}`
	for _, c := range []struct {
		name string
		set  Set
		want string
	}{
		{"nothing", nil, "nothing"},
		{"audited", Set{policy(t, "p", `{action: AUDIT, rules: [{}]}`, false)}, "nothing"},
		{"denied", Set{policy(t, "a", all, false), policy(t, "b", this, false)}, "deny b rules[0]"},
		{"not denied", Set{policy(t, "a", `{action: DENY}`, false)}, "nothing"},
		{"one allows", Set{policy(t, "a", other, false), policy(t, "b", all, false)}, "allow b rules[0]"},
		{"none allows", Set{policy(t, "a", other, false), policy(t, "b", `{}`, false)}, "deny a default"},
		{"a dry run", Set{policy(t, "a", this, true)}.Enforced(), "nothing"},
		{"a dry run, enforced", Set{policy(t, "a", this, true)}, "deny a rules[0]"},
	} {
		r, got := c.set.Rule(asked(nil)), "nothing"
		if r.Decides {
			got = map[bool]string{true: "allow ", false: "deny "}[r.Allows] + r.Policy.Key.Name + " " + r.RuleName()
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestSelects: a policy of the root namespace is for all, others for their own, and targets are the policy's own.
func TestSelects(t *testing.T) {
	labels := map[string]string{"istio": "egressgateway", "x": "y"}
	for spec, want := range map[string]map[string]bool{
		`{}`: {"istio-system": true, "shop": true},
		`{selector: {matchLabels: {istio: egressgateway}}}`:       {"istio-system": true, "shop": true},
		`{selector: {matchLabels: {istio: other}}}`:               {"istio-system": false, "shop": false},
		`{targetRefs: [{kind: Service, name: gw}]}`:               {"istio-system": true, "shop": false},
		`{targetRefs: [{kind: Gateway, name: gw}]}`:               {"istio-system": false, "shop": false},
		`{targetRef: {kind: Service, name: none}}`:                {"istio-system": false, "shop": false},
		`{selector: {matchLabels: {istio: egressgateway, a: b}}}`: {"istio-system": false},
	} {
		p := policy(t, "p", spec, false)
		for ns, selects := range want {
			if got := p.Selects("istio-system", ns, labels, []string{"gw"}); got != selects {
				t.Errorf("%s, %s: %v", spec, ns, got)
			}
			if p.Selects("root", "else", labels, []string{"gw"}) {
				t.Errorf("%s is for another namespace", spec)
			}
		}
	}
}

// TestDepends: what is not asked about makes a difference only where the rest of a rule holds, and nothing else decides anyway.
func TestDepends(t *testing.T) {
	const all, posts, admin, other, near, nobodys = `{rules: [{}]}`, `{rules: [{to: [{operation: {methods: [POST]}}]}]}`,
		`{action: DENY, rules: [{to: [{operation: {paths: ["/admin*"], hosts: [a.com]}}]}]}`, `{action: DENY, rules: [{to: [{operation: {paths: ["/admin*"], hosts: [b.com]}}]}]}`,
		`{rules: [{from: [{source: {ipBlocks: [10.0.0.0/8]}}], when: [{key: "request.headers[x]", values: [z]}]}]}`, `{rules: [{from: [{source: {namespaces: [nobodys]}}]}]}`
	nowhere := func(a *Attempt) { a.From, a.Remote = netip.Addr{}, netip.Addr{} }
	for _, c := range []struct {
		specs  []string
		change func(*Attempt)
		want   string
	}{
		{nil, nil, "[]"},
		{[]string{all}, nil, "[]"},
		{[]string{posts}, nil, "[method]"},
		{[]string{posts, all}, nil, "[]"},
		{[]string{admin}, nil, "[path]"},
		{[]string{admin, all}, nil, "[path]"},
		{[]string{admin, nobodys}, nil, "[]"},
		{[]string{other, all}, nil, "[]"},
		{[]string{admin, posts}, nil, "[method path]"},
		{[]string{near}, nil, "[header]"},
		{[]string{near}, nowhere, "[address header]"},
		{[]string{near}, func(a *Attempt) { a.From = netip.MustParseAddr("192.0.2.1") }, "[]"},
		{[]string{`{action: DENY, rules: [{}]}`, posts}, nil, "[]"},
		{[]string{posts}, connection, "[]"},
		{[]string{`{rules: [{from: [{source: {notRemoteIpBlocks: [10.0.0.0/8]}}]}]}`}, func(a *Attempt) { connection(a); nowhere(a) }, "[address]"},
	} {
		var set Set
		for i, spec := range c.specs {
			set = append(set, policy(t, fmt.Sprint(i), spec, false))
		}
		if got := fmt.Sprint(set.Depends(asked(c.change))); got != c.want {
			t.Errorf("%v: %s, want %s", c.specs, got, c.want)
		}
	}
}

// TestDestination: a rule that asks for the address that something came to matches by that, and closes where nobody knows it.
func TestDestination(t *testing.T) {
	condition := func(values, not []string) *security.AuthorizationPolicy {
		return &security.AuthorizationPolicy{Rules: []*security.Rule{{When: []*security.Condition{{Key: "destination.ip", Values: values, NotValues: not}}}}}
	}
	in, out := netip.MustParseAddr("10.4.0.5"), netip.MustParseAddr("10.5.0.5")
	for _, tt := range []struct {
		values, not            []string
		in, out, unknownDenied bool // whether a rule that denies does so there
	}{
		{[]string{"10.4.0.0/16"}, nil, true, false, true},
		{[]string{"10.4.0.5", "::ffff:10.5.0.0/112"}, nil, true, true, true},
		{nil, []string{"10.4.0.0/16"}, false, true, true},
		{[]string{"10.0.0.0/8"}, []string{"10.4.0.5"}, false, true, true},
	} {
		for to, want := range map[netip.Addr]bool{in: tt.in, out: tt.out, {}: tt.unknownDenied} {
			spec := condition(tt.values, tt.not)
			spec.Action = security.AuthorizationPolicy_DENY
			asked := false
			r := Set{FromSpec(&config.Object{}, spec)}.Rule(&Attempt{To: to, DestinationAsked: func() { asked = true }})
			if denied := r.Decides && !r.Allows; denied != want || asked == to.IsValid() {
				t.Errorf("%v but %v, to %v: denied %v, told %v", tt.values, tt.not, to, denied, asked)
			}
			spec.Action = security.AuthorizationPolicy_ALLOW
			if r := (Set{FromSpec(&config.Object{}, spec)}).Rule(&Attempt{To: to}); r.Allows != (want && to.IsValid()) {
				t.Errorf("%v but %v, to %v: allowed %v", tt.values, tt.not, to, r.Allows)
			}
		}
	}
}
