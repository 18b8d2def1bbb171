package suggest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
)

// denied is a flow that was closed.
func denied(f *seen.Flow) *seen.Flow {
	f.Verdict, f.Way = record.Denied, record.PathBlackhole
	return f
}

func siblings(n int, domain string) (out []*seen.Flow) {
	for i := range n {
		out = append(out, flow("shop", "cart", "", fmt.Sprintf("n%d.%s", i, domain), 443, "tls"))
	}
	return out
}

func with(change func(*suggest.Options)) suggest.Options {
	o := options()
	change(&o)
	return o
}

func TestCases(t *testing.T) {
	plain := flow("shop", "cart", "", "new.test", 443, "tls")
	for _, tt := range []struct {
		name  string
		flows []*seen.Flow
		o     suggest.Options
		has   []string // in this order
		not   []string
	}{
		{"a host by TLS", []*seen.Flow{plain}, options(), []string{
			"# new: ServiceEntry shop/new-test",
			"# shop/cart to new.test:443 (tls, allowed): 2026-05-30T12:00Z to 2026-05-31T12:00Z, on 2 days, by 1 pod, 7 records, 100 B out and 2.0 KiB in",
			"hosts: [new.test]", "location: MESH_EXTERNAL", "resolution: DNS", "name: https-443", "exportTo: [.]",
			"kind: EgressPolicy", "name: cart", "serviceAccounts: [cart]", "name: new-test-443", "hosts: [new.test]", "ports: [443]", "protocols: [TLS]", "action: Allow", "reason: seen in the audit log",
		}, []string{"Observe"}},
		{"requests", []*seen.Flow{flow("shop", "cart", "", "new.test", 8080, "http", "GET /v1/users/17", "GET /v1/users/18", "POST /v1/orders")}, options(), []string{
			"name: http-8080", "name: new-test-8080-get", "methods: [GET]", "paths: [/v1/users/*]", "name: new-test-8080-post", "paths: [/v1/orders]",
		}, nil},
		{"requests, without their paths", []*seen.Flow{flow("shop", "cart", "", "new.test", 8080, "http", "GET /v1/users/17")}, with(func(o *suggest.Options) { o.Paths = false }),
			[]string{"name: new-test-8080", "protocols: [HTTP]"}, []string{"/v1/users", "GET"}},
		{"a path of two meanings", []*seen.Flow{flow("shop", "cart", "", "new.test", 80, "http", "GET /a//b", "GET /c", "POST /d")}, options(),
			[]string{"name: new-test-80-get", "methods: [GET]", "action", "name: new-test-80-post", "paths: [/d]"}, []string{"paths: [/c"}},
		{"several namespaces", []*seen.Flow{plain, flow("bank", "teller", "", "new.test", 443, "tls")}, options(), []string{"ServiceEntry istio-system/new-test", "exportTo: [bank, shop]"}, []string{"exportTo: [.]"}},
		{"an address", []*seen.Flow{flow("shop", "cart", "", "203.0.113.9", 5432, "tcp")}, options(), []string{
			"hosts: [203-0-113-9.address.internal]", "addresses: [203.0.113.9]", "resolution: STATIC", "protocol: TCP", "- address: 203.0.113.9",
		}, []string{"Observe"}},
		{"a port more", []*seen.Flow{denied(flow("shop", "cart", "", "own.test", 8443, "tls"))}, with(func(o *suggest.Options) { o.Denied = true }), []string{"# changed: ServiceEntry shop/own", "name: https\n", "name: tls-8443"}, nil},
		{"denied, unasked", []*seen.Flow{denied(flow("shop", "cart", "", "new.test", 443, "tls"))}, options(), []string{"# nothing is suggested"}, []string{"kind:"}},
		{"refused by DNS", []*seen.Flow{denied(flow("shop", "cart", "", "new.test", 0, "dns"))}, with(func(o *suggest.Options) { o.Denied = true }), []string{"# port 443 is a guess", "hosts: [new.test]"}, nil},
		{"denied for good", []*seen.Flow{denied(flow("bank", "vault", "", "never.test", 443, "tls"))}, with(func(o *suggest.Options) { o.Denied = true }),
			[]string{"# left out: bank/vault to never.test:443 (7 records): denied by EgressPolicy bank/closed (never)"}, []string{"kind:"}},
		{"denied by a default", []*seen.Flow{denied(flow("bank", "vault", "", "registered.test", 80, "http", "GET /x"))}, with(func(o *suggest.Options) { o.Denied = true }),
			[]string{"# changed: EgressPolicy bank/closed", "name: never", "name: registered-test-80-get"}, nil},
		{"would be denied", []*seen.Flow{flow("media", "player", "", "a.wild.test", 443, "tls")}, options(), []string{"kind: EgressPolicy", "name: player", "mode: Observe", "a.wild.test"}, []string{"ServiceEntry"}},
		{"inside", []*seen.Flow{flow("shop", "cart", "", "10.1.2.3", 5432, "tcp"), plain}, options(), []string{
			"left out: shop/cart to 10.1.2.3:5432 (7 records): the address is private", "# it only observes: enforced, it would deny 10.1.2.3:5432", "mode: Observe",
		}, nil},
		{"a name that was inside", []*seen.Flow{func() *seen.Flow {
			f := flow("shop", "cart", "", "new.test", 443, "tls")
			f.Destinations = []string{"169.254.169.254"}
			return f
		}()}, options(),
			[]string{"it was reached at 169.254.169.254"}, []string{"ServiceEntry"}},
		{"no name", []*seen.Flow{flow("shop", "cart", "", "x\nkind: Secret\r", 80, "http", "GET /")}, options(), []string{`left out: shop/cart to "x\nkind: Secret\r":80`}, []string{"\nkind"}},
		{"no workload", []*seen.Flow{flow("shop", "x\x1b]0;y\nkind: Secret", "", "new.test", 443, "tls")}, options(), []string{`left out: "shop/x\x1b]0;y\nkind: Secret" to new.test:443`}, []string{"\nkind", "\x1b"}},
		{"one port, two protocols", []*seen.Flow{flow("shop", "cart", "", "new.test", 8080, "tls"), flow("shop", "cart", "", "new.test", 8080, "http", "GET /")}, options(),
			[]string{"port 8080 was seen with HTTP and with TLS"}, []string{"ServiceEntry"}},
		{"siblings", siblings(6, "many.example"), options(), []string{
			"# new: ServiceEntry shop/below-many-example", "*.many.example is for 6 names that were seen", "It also admits every other name below many.example", "resolution: DYNAMIC_DNS", "kind: EgressPolicy", "hosts: ['*.many.example']",
		}, []string{"n1-many"}},
		{"few siblings", siblings(4, "many.example"), options(), []string{"n1.many.example"}, []string{"*."}},
		{"no wildcards", siblings(6, "many.example"), with(func(o *suggest.Options) { o.Siblings = 0 }), []string{"n1.many.example"}, []string{"*."}},
		{"siblings on shared hosting", append(siblings(9, "github.io"), siblings(9, "s3.amazonaws.com")...), options(), []string{"n1.github.io", "n1.s3.amazonaws.com"}, []string{"*."}},
		{"siblings at whoever's service", slices.Concat(siblings(9, "ingest.sentry.io"), siblings(9, "eu.auth0.com"), siblings(9, "z01.azurefd.net"), siblings(9, "webhook.site"), siblings(9, "blob.core.windows.net"), siblings(9, "vercel.app")),
			options(), []string{"n1.blob.core.windows.net", "n1.eu.auth0.com", "n1.ingest.sentry.io", "n1.vercel.app", "n1.webhook.site", "n1.z01.azurefd.net"}, []string{"*."}},
		{"siblings of one customer", siblings(6, "acme.github.io"), options(), []string{"n1.acme.github.io"}, []string{"*."}},
		{"names as clients write them", []*seen.Flow{flow("shop", "cart", "", "xn--bcher-kva.example", 443, "tls"), flow("shop", "cart", "", "b\u00fccher.example", 443, "tls"), flow("shop", "cart", "", "new.test:8443", 80, "http", "GET /"), flow("shop", "cart", "", "new..test", 443, "tls"), flow("shop", "cart", "", "*.test", 443, "tls")}, options(),
			[]string{"b\\u00fccher.example", "hosts: [xn--bcher-kva.example]"}, []string{"hosts: ['*", "new..test]", "8443]"}},
		{"addresses are no siblings", func() (out []*seen.Flow) {
			for i := range 9 {
				out = append(out, flow("shop", "cart", "", fmt.Sprintf("203.0.113.%d", i+1), 443, "tls"), flow("shop", "cart", "", fmt.Sprintf("2001:db8::%d", i+1), 443, "tls"))
			}
			return out
		}(), options(), []string{"addresses: [", "203.0.113.1", "2001:db8::1"}, []string{"*."}},
		{"one host of many workloads", func() (out []*seen.Flow) {
			for i := range 40 {
				out = append(out, flow(fmt.Sprintf("team-%d", i%3), fmt.Sprintf("w%d", i), "", "new.test", 443, "tls"))
			}
			return out
		}(), options(), []string{"ServiceEntry istio-system/new-test", "exportTo: [team-0, team-1, team-2]"}, []string{"ServiceEntry team-0"}},
		{"siblings below a top-level domain", append(siblings(9, "co.uk"), siblings(9, "test")...), options(), []string{"n1.co.uk", "n1.test"}, []string{"*."}},
		{"siblings of something inside", append(siblings(6, "many.example"), func() *seen.Flow {
			f := flow("shop", "cart", "", "in.many.example", 443, "tls")
			f.Destinations = []string{"10.0.0.9"}
			return f
		}()), options(), []string{"n1.many.example"}, []string{"*."}},
		{"by application", []*seen.Flow{flow("shop", "cart", "app=web", "new.test", 443, "tls")}, with(func(o *suggest.Options) { o.ByApp = true }), []string{"selector:", "matchLabels:", "app: web"}, []string{"serviceAccounts"}},
		{"labels tell workloads apart", []*seen.Flow{flow("shop", "cart", "app=strict", "registered.test", 80, "http", "GET /ok/x"), plain}, options(), []string{"no policy is suggested for shop/cart", "try --by app"}, []string{"kind: EgressPolicy"}},
		{"one workload", []*seen.Flow{plain, flow("shop", "front", "", "other.test", 443, "tls")}, with(func(o *suggest.Options) { o.Namespace, o.Workload = "shop", "front" }), []string{"other.test"}, []string{"new.test"}},
		{"words of rules", []*seen.Flow{plain}, with(func(o *suggest.Options) { o.Owner, o.Ticket, o.Expires = "me: #1", "T-1", now.AddDate(0, 1, 0) }),
			[]string{`expires: "2026-07-01T12:00:00Z"`, "owner: 'me: #1'", "ticket: T-1"}, nil},
		{"at most one", []*seen.Flow{plain, flow("shop", "cart", "", "zzz.test", 443, "tls")}, with(func(o *suggest.Options) { o.Limit = 1 }), []string{"zzz.test:443 (7 records): more than 1 hosts", "name: new-test"}, []string{"name: zzz-test\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := configOf(t, true, inForce)
			r := suggest.Suggest(c, logOf(tt.flows...), tt.o)
			sound(t, c, r)
			text := yamlOf(t, r)
			rest := text
			for _, want := range tt.has {
				i := strings.Index(rest, want)
				if i < 0 {
					t.Fatalf("%q is not in it, or too early:\n%s", want, text)
				}
				rest = rest[i+len(want):]
			}
			for _, bad := range tt.not {
				if strings.Contains(text, bad) {
					t.Errorf("%q is in it:\n%s", bad, text)
				}
			}
		})
	}
}

func TestLogIsTold(t *testing.T) {
	log := logOf()
	log.Oldest, log.Gaps, log.Nameless, log.Claimed, log.Cut = now.AddDate(0, 0, -3), 5, 6, 7, map[string]bool{"shop": true}
	text := yamlOf(t, suggest.Suggest(configOf(t, true, inForce), log, options()))
	for _, want := range []string{"reaches back to 2026-05-29T12:00Z only (3 days)", "5 records are missing", "6 records are of nobody", "7 records are what gateways claim", "more than 100000 flows"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in it:\n%s", want, text)
		}
	}
}

const toPrune = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: two, namespace: shop}
spec:
  hosts: [used.test, unused.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: https, protocol: HTTPS}, {number: 80, name: http, protocol: HTTP}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: none, namespace: shop}
spec:
  hosts: [nobody.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: routed, namespace: shop}
spec:
  hosts: [routed.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 443, name: https, protocol: HTTPS}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: routes, namespace: shop}
spec:
  hosts: [used.test]
  http: [{route: [{destination: {host: routed.test}}]}]
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: list, namespace: shop}
spec:
  rules:
  - {name: used, hosts: [used.test, old.test], ports: [443, 8443], action: Allow}
  - {name: unused, hosts: [nobody.test], action: Allow}
  - {name: named, hosts: [x.test], paths: [/x], action: Allow}
  - {name: headers, hosts: [x.test], headers: [{name: a, value: b}], action: Allow}
  - {name: never, hosts: [never.test], action: Deny}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: gone, namespace: bank}
spec:
  rules:
  - {name: unused, hosts: [nobody.test], action: Allow}
`

func TestUnused(t *testing.T) {
	c := configOf(t, true, toPrune)
	f := flow("shop", "cart", "", "used.test", 443, "tls")
	f.Way = record.PathGateway
	log := logOf(f)
	log.Rules = map[seen.Rule]bool{{Namespace: "shop", Policy: "list", Name: "named"}: true}
	log.Since = now.AddDate(0, 0, -90)
	r := suggest.Suggest(c, log, with(func(o *suggest.Options) { o.Unused = log }))
	sound(t, c, r)
	got := map[string]string{}
	for i := range r.Changes {
		x := &r.Changes[i]
		text := ""
		if x.After != nil {
			var err error
			if text, err = suggest.YAML(x.After); err != nil {
				t.Fatal(err)
			}
		}
		got[x.Key().String()+" "+x.Action()] = text
	}
	for key, want := range map[string][]string{
		"ServiceEntry shop/none remove": nil,
		"EgressPolicy shop/list change": {"hosts: [used.test]", "ports: [443]", "name: named", "name: headers", "name: never"},
		"EgressPolicy bank/gone change": {"default: Deny"},
	} {
		text, ok := got[key]
		if !ok {
			t.Errorf("%s is not suggested: %v", key, got)
		}
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s: %q is not in it:\n%s", key, w, text)
			}
		}
	}
	if text := got["EgressPolicy shop/list change"]; strings.Contains(text, "unused") || strings.Contains(text, "old.test") || strings.Contains(text, "8443") {
		t.Errorf("%s", text)
	}
	if len(got) != 3 { // the entry that a route leads from, and to, stay
		t.Errorf("%v", got)
	}
	text := yamlOf(t, r)
	for _, want := range []string{"# remove it: kubectl delete serviceentry -n shop none", "less than the 90 days that were asked for"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in it:\n%s", want, text)
		}
	}
	t.Run("with gaps nothing is removed", func(t *testing.T) {
		log := *log
		log.Gaps = 1
		r := suggest.Suggest(c, &log, with(func(o *suggest.Options) { o.Unused = &log }))
		if len(r.Changes) != 0 || !strings.Contains(yamlOf(t, r), "nothing is suggested to be removed") {
			t.Error(yamlOf(t, r))
		}
	})
	t.Run("what is young stays", func(t *testing.T) {
		young := configOf(t, true, toPrune)
		for i := range young.Objects {
			o := *young.Objects[i].Object
			o.Created = now.AddDate(0, 0, -2)
			young.Objects[i] = config.Change{Key: o.Key, Object: &o}
		}
		if r := suggest.Suggest(young, log, with(func(o *suggest.Options) { o.Unused = log })); len(r.Changes) != 0 {
			t.Error(yamlOf(t, r))
		}
	})
}
