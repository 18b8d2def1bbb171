package console

import (
	"context"
	"errors"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

const objects = `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: partners, namespace: shop}
spec: {hosts: [api.partner.example, pay.partner.example, old.partner.example], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}, {number: 80, name: http, protocol: HTTP}]}
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: checkout, namespace: shop}
spec:
  serviceAccounts: [checkout]
  rules:
  - {name: partners, action: Allow, hosts: ["*.partner.example"]}
  - {name: gone, action: Allow, hosts: [b.test], expires: "2027-05-02T00:00:00Z"}
`

// configured gives the console a configuration, and a folder of decisions.
func configured(t testing.TB, text string) func(*Options) {
	t.Helper()
	cfg := mesh.Default()
	cfg.OutboundAllowAny = false
	read := decode.File("objects.yaml", []byte(text))
	for _, f := range read.Findings {
		t.Fatal(f)
	}
	var changes []config.Change
	for i := range read.Objects {
		changes = append(changes, config.Change{Key: read.Objects[i].Key, Object: &read.Objects[i]})
	}
	r := registry.New(&cfg)
	r.Apply(changes)
	c, dir := (&Config{Objects: changes}).Lending(r), t.TempDir()
	return func(o *Options) {
		o.Config = func(context.Context) (*Config, error) { return c, nil }
		o.Decisions = dir
	}
}

// post sends a form, as a page of this site does or as another's.
func post(t testing.TB, h http.Handler, path, site string, form url.Values) (int, string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	request.Host = "localhost"
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", site)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	text, _ := io.ReadAll(w.Result().Body)
	return w.Code, strings.ReplaceAll(string(text), "<wbr>", "")
}

func TestPagesOfTheConfiguration(t *testing.T) {
	h := served(t, scene(t), configured(t, objects))
	for path, want := range map[string][]string{
		"/policies":                          {"shop/checkout", "partners", "unused", ", soon", "120"},
		"/policies?host=api.partner.example": {"shop/checkout", "EgressPolicy shop/checkout (partners)", "allow"},
		"/policies?host=a%20b":               {"note"},
		"/policies?from=shop/checkout":       {"pay.partner.example"},
		"/explain?from=shop/cart&url=https://x1.tracker.example.net": {"deny", "What would let it through", "kind: ServiceEntry"},
		"/explain?from=shop/cart&url=https://api.partner.example":    {"allow", "ServiceEntry shop/partners"},
		"/explain?from=nobody&url=https://api.partner.example":       {"must be NAMESPACE/WORKLOAD"},
		"/review":   {"x1.tracker.example.net", "nobody registered it", "Nothing was decided yet"},
		"/simulate": {"textarea"},
		"/findings": {"Regular connections", "interval: 660", "&lt;img src=x"},
	} {
		text := body(t, h, path)
		for _, w := range want {
			if !strings.Contains(text, w) {
				t.Errorf("%s does not say %q\n%.9000s", path, w, text[strings.Index(text, "<main"):])
			}
		}
	}
	text := body(t, h, "/log?q=verdict:denied+host:x1.*")
	record := body(t, h, strings.ReplaceAll(regexp.MustCompile(`/record\?[^"#]*`).FindString(text), "&amp;", "&"))
	if !strings.Contains(record, `id="allow"`) || !strings.Contains(record, "kind: ServiceEntry") {
		t.Errorf("a denial is not told how to be allowed: %.6000s", record)
	}
}

// TestReviewOnThePage: a word is taken once, from our own pages, and kept with who said it; a stale id is refused.
func TestReviewOnThePage(t *testing.T) {
	set := configured(t, objects)
	var o Options
	set(&o)
	h := served(t, scene(t), set)
	id := func(host string) string { return review.ID("legacy", "report", host, 443) }
	one := url.Values{"id": {id("x1.tracker.example.net")}, "action": {"approved"}, "reason": {"asked for"}}
	for _, site := range []string{"cross-site", "same-site"} {
		if code, _ := post(t, h, "/review", site, one); code != http.StatusForbidden {
			t.Errorf("a page of another site may decide: %s %d", site, code)
		}
	}
	if got, err := (review.Files{Dir: o.Decisions}).Read(); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	code, text := post(t, h, "/review", "same-origin", one)
	if code != http.StatusOK || !strings.Contains(text, "is approved.") || !strings.Contains(text, "kind: ServiceEntry") || !strings.Contains(text, "name: x1-tracker-example-net") {
		t.Errorf("%d %.3000s", code, text)
	}
	for name, form := range map[string]url.Values{
		"twice":         one,
		"no such id":    {"id": {"0123456789ab"}, "action": {"approved"}},
		"no id":         {"id": {"../etc"}, "action": {"approved"}},
		"no reason":     {"id": {id("x2.tracker.example.net")}, "action": {"rejected"}},
		"control":       {"id": {id("x2.tracker.example.net")}, "action": {"rejected"}, "reason": {"a\x1b"}},
		"unknown":       {"id": {id("x2.tracker.example.net")}, "action": {"granted"}},
		"a huge reason": {"id": {id("x2.tracker.example.net")}, "action": {"rejected"}, "reason": {strings.Repeat("x", mostPasted)}},
	} {
		if code, text := post(t, h, "/review", "same-origin", form); code != http.StatusBadRequest {
			t.Errorf("%s: %d %.300s", name, code, text)
		}
	}
	if code, _ := post(t, h, "/review", "same-origin", url.Values{"id": {id("x3.tracker.example.net")}, "action": {"snoozed"}}); code != http.StatusOK {
		t.Error(code)
	}
	got, err := (review.Files{Dir: o.Decisions}).Read()
	if err != nil || len(got) != 2 || got[0].By != byPage || got[0].Reason != "asked for" || got[1].Action != review.StateSnoozed || !got[1].Until.After(noon) {
		t.Error(got, err)
	}
	if code := get(t, served(t, nil, nil), "localhost", "/review").StatusCode; code != http.StatusNotFound {
		t.Errorf("without a configuration: %d", code)
	}
}

// TestBrokenIsNotLent: after a question that did not come back as it should nobody is lent what it left.
func TestBrokenIsNotLent(t *testing.T) {
	settings := mesh.Default()
	c := (&Config{}).Lending(registry.New(&settings))
	fine := func(*Config, *registry.Registry) error { return nil }
	if err := c.Try(t.Context(), fine); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = c.Try(t.Context(), func(*Config, *registry.Registry) error { panic("broken") })
	}()
	if err := c.Try(t.Context(), fine); !errors.Is(err, missing{errBroken}) {
		t.Errorf("what may be broken is lent: %v", err)
	}
}

// onlyPay lets shop/cart go to one host alone.
const onlyPay = `
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: cart, namespace: shop}
spec: {serviceAccounts: [cart], rules: [{name: pay, action: Allow, hosts: [pay.partner.example]}]}
`

func TestSimulateOnThePage(t *testing.T) {
	h := served(t, scene(t), configured(t, objects))
	code, text := post(t, h, "/simulate", "same-origin", url.Values{"yaml": {onlyPay}, "since": {"30d"}})
	if code != http.StatusOK || !strings.Contains(text, "Newly denied") || !strings.Contains(text, "shop/cart") || !strings.Contains(text, "api.partner.example:443") {
		t.Errorf("%d %.3000s", code, text)
	}
	for name, yaml := range map[string]string{"no YAML": "a: [", "nothing": "", "refused": strings.ReplaceAll(onlyPay, "Allow", "Perhaps")} {
		if code, text := post(t, h, "/simulate", "same-origin", url.Values{"yaml": {yaml}, "since": {"30d"}}); code != http.StatusOK || !strings.Contains(text, "would be refused") {
			t.Errorf("%s: %d %.300s", name, code, text)
		}
	}
	for _, since := range []string{"soon", "2999-01-01", "-7d"} { // and what was pasted stays
		code, text := post(t, h, "/simulate", "same-origin", url.Values{"yaml": {onlyPay}, "since": {since}})
		if code != http.StatusBadRequest || !strings.Contains(text, `role="alert"`) || !strings.Contains(html.UnescapeString(text), onlyPay) || !strings.Contains(text, `value="`+since+`"`) {
			t.Errorf("since %s: %d %s", since, code, text)
		}
	}
}
