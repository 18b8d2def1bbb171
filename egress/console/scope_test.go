package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/serviceentry/policy"
)

// tenants is a configuration of two namespaces, and of the root's.
const tenants = objects + `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shared, namespace: shop}
spec: {hosts: [shared.example.com], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: floor, namespace: istio-system}
spec: {rules: [{name: evil, action: Deny, hosts: [evil.example.com], reason: nobody goes there}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: evil, namespace: legacy}
spec: {hosts: [evil.example.com], location: MESH_EXTERNAL, resolution: DNS, exportTo: ["."], ports: [{number: 443, name: tls, protocol: TLS}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: nightly, namespace: legacy}
spec: {serviceAccounts: [nightly], rules: [{name: fine, action: Allow, hosts: [fine.example.net]}]}
`

// tell sends a form as somebody, the way a program does.
func tell(t *testing.T, h http.Handler, who, path string, form url.Values) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return answerTo(t, h, who, r)
}

// TestReadersSeeTheirConfiguration: of the configuration's pages who reads one namespace has its own, and no name of others' objects.
func TestReadersSeeTheirConfiguration(t *testing.T) {
	h := guarded(t)
	others := []string{"shop", "checkout", "partners", "cdn.example.org"}
	for at, want := range map[string][]string{
		"/policies":                       {"legacy/nightly", "fine.example.net", "Only policies of your namespaces"},
		"/policies?from=legacy/report":    {"shared.example.com", "ServiceEntry of another namespace"},
		"/policies?host=evil.example.com": {"is for those who may read the records of all namespaces"},
		"/explain?from=legacy/report&url=https://shared.example.com": {"allow", "ServiceEntry of another namespace"},
		"/explain?from=legacy/report&url=https://evil.example.com":   {"deny", "EgressPolicy istio-system/floor", "nobody goes there"},
		"/explain?from=legacy/report&url=https://new.example.net":    {"deny", "What would let it through", "namespace: legacy"},
		"/explain?from=bank/vault&url=https://shared.example.com":    {errElsewhereAsked.Error()},
		"/policies?from=bank/vault":                                  {errElsewhereAsked.Error()},
		"/review":                                                    {"x1.tracker.example.net", "nobody registered it"},
		"/simulate":                                                  {"textarea"},
	} {
		status, text := as(t, h, "owner", http.MethodGet, at)
		for _, w := range want {
			if status != http.StatusOK || !strings.Contains(text, w) {
				t.Errorf("%s: %d, does not say %q\n%.3000s", at, status, w, text[max(0, strings.Index(text, "<main")):])
			}
		}
		for _, word := range others {
			if strings.Contains(text[max(0, strings.Index(text, "<main")):], word) {
				t.Errorf("%s says %q\n%.3000s", at, word, text[max(0, strings.Index(text, "<main")):])
			}
		}
	}
	for at, want := range map[string]string{
		"/policies": "shop/checkout", "/policies?from=shop/cart": "ServiceEntry shop/shared", "/explain?from=shop/cart&url=https://shared.example.com": "ServiceEntry shop/shared",
		"/review": "cdn.example.org",
	} {
		if status, text := as(t, h, "auditor", http.MethodGet, at); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("who may read all, %s: %d, does not say %q", at, status, want)
		}
	}
}

// TestReadersDecideAboutTheirs: a word, and a question of what would be, are taken about a reader's namespaces, and no others.
func TestReadersDecideAboutTheirs(t *testing.T) {
	h := guarded(t)
	theirs, own := review.ID("shop", "cart", "cdn.example.org", 443), review.ID("legacy", "report", "x1.tracker.example.net", 443)
	if status, text := tell(t, h, "auditor", "/review", url.Values{"id": {theirs}, "action": {"rejected"}, "reason": {"not ours"}}); status != http.StatusOK || !strings.Contains(text, "is rejected") {
		t.Fatalf("%d %.2000s", status, text)
	}
	for _, again := range []string{"approved", "snoozed"} {
		status, text := tell(t, h, "owner", "/review", url.Values{"id": {theirs}, "action": {again}})
		if status != http.StatusBadRequest || strings.Contains(text, "auditor") || strings.Contains(text, "rejected") {
			t.Errorf("a word about others' is taken, or what was said is told: %d %.2000s", status, text)
		}
	}
	status, text := tell(t, h, "owner", "/review", url.Values{"id": {own}, "action": {"approved"}})
	if status != http.StatusOK || !strings.Contains(text, "is approved") || !strings.Contains(text, "namespace: legacy") || strings.Contains(text, "shop") || strings.Contains(text, "not ours") {
		t.Errorf("%d %.4000s", status, text[max(0, strings.Index(text, "<main")):])
	}
	const denies = "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: closed, namespace: %}\nspec: {default: Deny, rules: [{name: none, action: Deny}]}\n"
	closes := func(who, namespace string) (int, string) {
		return tell(t, h, who, "/simulate", url.Values{"yaml": {strings.ReplaceAll(denies, "%", namespace)}, "since": {"30d"}})
	}
	for _, namespace := range []string{"shop", "istio-system", "bank"} {
		if status, text := closes("owner", namespace); status != http.StatusForbidden || strings.Contains(text, "<table") {
			t.Errorf("what would be in %s: %d %.2000s", namespace, status, text)
		}
	}
	if status, text := closes("owner", "legacy"); status != http.StatusOK || !strings.Contains(text, "60 records") || strings.Contains(text, "shop") {
		t.Errorf("%d %.3000s", status, text)
	}
	if status, text := closes("auditor", "istio-system"); status != http.StatusOK || !strings.Contains(text, "shop/checkout") {
		t.Errorf("%d %.3000s", status, text)
	}
}

// TestVeil leaves out names, and nothing else.
func TestVeil(t *testing.T) {
	var o Options
	configured(t, tenants)(&o)
	c, err := o.Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := scopeOf(context.WithValue(t.Context(), readerKey{}, login.Reader{Name: "owner", Namespaces: []string{"legacy"}}), c)
	for text, want := range map[string]string{
		"by ServiceEntry shop/partners: registered":          "by ServiceEntry (another namespace's): registered",
		"by EgressPolicy legacy/nightly":                     "by EgressPolicy legacy/nightly",
		"by EgressPolicy istio-system/floor":                 "by EgressPolicy istio-system/floor",
		"it is of namespace shop":                            "it is of namespace (another namespace's)",
		"leads to db.shop.svc.cluster.local":                 "leads to (another namespace's)",
		"outbound|443||db.shop.svc.cluster.local":            "outbound|443||(another namespace's)",
		"GET /v1/orders of orders.example.com, registered":   "GET /v1/orders of orders.example.com, registered",
		"credentials.namespaces must hold shop":              "credentials.namespaces must hold (another namespace's)",
		"it lacks allowPrivateFor.shop; write it":            "it lacks (another namespace's); write it",
		"Secret Shop/x: spiffe://cluster.local/ns/shop/sa/a": "Secret (another namespace's): spiffe://(another namespace's)",
		"ServiceEntry/shop/partners, ServiceEntry legacy/x":  "(another namespace's), ServiceEntry legacy/x",
	} {
		if got := s.veil(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	e := s.explanation(policy.Explanation{DecidedBy: policy.DecidedBy{Kind: "VirtualService", Namespace: "shop", Name: "x"}, Gateway: "shop/out", Cluster: "outbound|1||out.shop.svc.cluster.local", Suggestion: "x",
		Policies: []policy.PolicyStep{{Namespace: "shop"}, {Namespace: "legacy"}}, WouldDeny: &policy.DecidedBy{Namespace: "shop", Name: "y"}})
	if strings.Contains(strings.Join([]string{e.DecidedBy.Namespace, e.DecidedBy.Name, e.Gateway, e.Cluster, e.Suggestion, e.WouldDeny.Name}, " "), "shop") || e.Suggestion != "" || e.WouldDeny.Name != "" || len(e.Policies) != 1 {
		t.Errorf("%+v", e)
	}
	all := scopeOf(t.Context(), c)
	if text := "ServiceEntry shop/partners"; all.veil(text) != text {
		t.Error("who may read all is told less")
	}
}

// TestOldConfiguration: what is in force no more for sure is given with its age; why it cannot be read is told to those who may know.
func TestOldConfiguration(t *testing.T) {
	h := served(t, scene(t), func(o *Options) {
		configured(t, objects)(o)
		read := o.Config
		o.Config = func(ctx context.Context) (*Config, error) {
			c, err := read(ctx)
			old := *c
			old.AsOf = noon.Add(-7 * time.Minute)
			return &old, err
		}
	})
	for _, at := range []string{"/policies", "/review", "/simulate", "/explain?from=shop/cart&url=https://a.test"} {
		if text := body(t, h, at); strings.Count(text, "2027-05-01 11:53:00") != 1 || !strings.Contains(text, "does not answer") {
			t.Errorf("%s does not say how old it is", at)
		}
	}
	if text := body(t, h, "/log"); strings.Contains(text, "does not answer") {
		t.Error("the log is not old")
	}
	broken := guardedBy(t, func(o *Options) {
		o.Config = func(context.Context) (*Config, error) { return nil, errors.New("the configuration of shop") }
	})
	for who, told := range map[string]bool{"auditor": true, "owner": false} {
		for _, at := range []string{"/policies", "/review", "/simulate", "/explain?from=legacy/report&url=https://a.test"} {
			if _, text := as(t, broken, who, http.MethodGet, at); strings.Contains(text, "of shop") != told || !strings.Contains(text, "cannot be read") {
				t.Errorf("%s of %s: %.2000s", at, who, text[strings.Index(text, "<main"):])
			}
		}
	}
	if status, _ := as(t, broken, "owner", http.MethodGet, "/log"); status != http.StatusOK {
		t.Errorf("the log without the configuration: %d", status)
	}
}

// TestNewObjectsOfAClusterAreYoung: of several for one host the oldest leads, and what is pasted is written now.
func TestNewObjectsOfAClusterAreYoung(t *testing.T) {
	there := []config.Object{{Key: config.Key{Kind: "Sidecar", Namespace: "a", Name: "old"}, Created: noon.Add(-time.Hour)}}
	for cluster, want := range map[bool]time.Time{true: noon, false: {}} {
		more := []config.Object{{Key: there[0].Key}, {Key: config.Key{Kind: "Sidecar", Namespace: "a", Name: "new"}}}
		(&Config{InCluster: cluster}).date(more, there, noon)
		if !more[0].Created.Equal(there[0].Created) || !more[1].Created.Equal(want) {
			t.Errorf("in a cluster %v: %v, %v", cluster, more[0].Created, more[1].Created)
		}
	}
}
