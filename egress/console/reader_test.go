package console

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/console/login"
)

// roles are who reads which namespaces, by their tokens.
type roles map[string][]string

func (c roles) Who(_ context.Context, token string) (login.User, error) {
	if _, known := c[token]; !known {
		return login.User{}, login.ErrUnknown
	}
	return login.User{Name: token}, nil
}

func (c roles) May(_ context.Context, u login.User, namespace string) (bool, error) {
	return slices.Contains(c[u.Name], namespace), nil
}

// guarded is a console with a login, over a log that has what came to a pod, too.
func guarded(t *testing.T) http.Handler {
	t.Helper()
	return guardedBy(t, configured(t, tenants))
}

// guardedBy is the same with other options.
func guardedBy(t *testing.T, change func(*Options)) http.Handler {
	t.Helper()
	records := append(scene(t), record.Record{
		Proxy: "sidecar~10.0.0.5~db-0.legacy~legacy.svc.cluster.local", Epoch: 1, Seq: 1, Time: noon.Add(-time.Minute), Class: record.Network, Verdict: record.Denied,
		Reporter: record.ReporterDestination, Direction: "lateral", Claim: "spiffe://cluster.local/ns/strange/sa/mallory", Port: 5432, Protocol: "tcp",
		DestinationWorkload: record.Workload{Namespace: "legacy", ServiceAccount: "db", Name: "db-0"}, Reason: "came to db",
	})
	return served(t, records, func(o *Options) {
		guardedOptions(o)
		change(o)
	})
}

func guardedOptions(o *Options) {
	o.Login = &login.Options{Cluster: roles{"auditor": {""}, "owner": {"legacy"}, "stranger": {"elsewhere"}}}
}

// as gets an address as somebody, the way a program does.
func as(t *testing.T, h http.Handler, who, method, path string) (int, string) {
	t.Helper()
	return answerTo(t, h, who, httptest.NewRequest(method, path, nil))
}

// answerTo is the answer to somebody's request.
func answerTo(t *testing.T, h http.Handler, who string, r *http.Request) (int, string) {
	t.Helper()
	r.Host = "localhost"
	r.Header.Set("Authorization", "Bearer "+who)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, strings.ReplaceAll(string(text), "<wbr>", "")
}

// TestReadersSeeTheirNamespaces walks everything that somebody of one namespace is led to, and what they may try beside it.
func TestReadersSeeTheirNamespaces(t *testing.T) {
	h := guarded(t)
	others := []string{"shop", "cart", "checkout", "partner.example", "cdn.example.org", "the disk was full", "First seen host"}
	record598 := "/record?" + url.Values{"proxy": {"router~10.0.0.9~istio-egressgateway-7c.istio-system~istio-system.svc.cluster.local"}, "epoch": {"1"}, "seq": {"5"}}.Encode()
	queue := []string{
		"/", "/?q=since:30d", "/log", "/log?q=class:gap", "/log.json?q=since:30d", "/log.csv?q=since:30d", "/flows", "/flows?by=bytes", "/findings", record598,
		"/host?name=api.partner.example", "/workload?name=shop/cart", "/workload?name=legacy/report", "/host?name=x1.tracker.example.net",
		"/log?q=namespace:shop", "/log?q=workload:shop/cart", "/log?q=-namespace:legacy", "/log?group=namespace", "/policies", "/explain?from=legacy/report&url=https://a.test", "/review", "/simulate",
	}
	for _, d := range dimensions {
		queue = append(queue, "/log?group="+d.Name, "/log?q=since:30d&group="+d.Name)
	}
	for _, c := range columns {
		queue = append(queue, "/log?col="+c.Name)
	}
	seen := map[string]bool{}
	for n := 0; len(queue) > 0 && n < 160; n++ {
		at := queue[0]
		if queue = queue[1:]; seen[at] {
			continue
		}
		seen[at] = true
		status, text := as(t, h, "owner", http.MethodGet, at)
		asked, _ := url.QueryUnescape(at)
		text = strings.ReplaceAll(text, "host:*.example.com -workload:shop/cart verdict:denied since:7d", "") // the field says what can be written
		for _, word := range others {
			if strings.Contains(text, word) && !strings.Contains(asked, word) {
				t.Errorf("%s: %d, says %q", at, status, word)
			}
		}
		if status == http.StatusInternalServerError {
			t.Errorf("%s: %d\n%s", at, status, text)
		}
		if strings.HasPrefix(text, "<!doctype") {
			for _, to := range links(t, []byte(text)) {
				if to, _, _ := strings.Cut(to, "#"); to != "" {
					queue = append(queue, to)
				}
			}
		}
	}
	for at, want := range map[string]string{
		"/": "x1.tracker.example.net", "/log?q=since:30d": "60 records", "/log?q=verdict:denied+class:network": "came to db", "/findings": "Regular connections",
		"/workload?name=legacy/report": ">59<", "/flows": "owner", "/log?q=namespace:shop": "Nothing fits",
	} {
		if status, text := as(t, h, "owner", http.MethodGet, at); status != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %d, does not say %q: %.700s", at, status, want, text[max(0, strings.Index(text, "newest first")-120):])
		}
	}
	if status, text := as(t, h, "auditor", http.MethodGet, "/log?q=since:30d"); status != http.StatusOK || !strings.Contains(text, "shop/cart") {
		t.Errorf("who may read all: %d", status)
	}
}

// TestRefusedReadersAreLoggedInBounds: whoever asks with tokens that nobody knows fills no log, and the log says how often it was.
func TestRefusedReadersAreLoggedInBounds(t *testing.T) {
	var log bytes.Buffer
	h := guardedBy(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	synctest.Test(t, func(t *testing.T) {
		for i := range 100 {
			as(t, h, fmt.Sprint("guess", i), http.MethodGet, "/log")
		}
		if n := strings.Count(log.String(), "is not let in"); n != 20 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
		time.Sleep(time.Second)
		log.Reset()
		as(t, h, strings.Repeat("x", 20<<10), http.MethodGet, "/log")
		if !strings.Contains(log.String(), "unsaid=80\n") {
			t.Errorf("the next line does not tell of 80 that were not said: %s", log.String())
		}
	})
}

func TestNobodyComesInWithoutALogin(t *testing.T) {
	h := guarded(t)
	browser := func(method, path string, form url.Values, cookies ...*http.Cookie) *http.Response {
		r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Host = "localhost"
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, c := range cookies {
			r.AddCookie(c)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result()
	}
	for _, at := range []string{"/", "/log", "/log.json", "/log.parquet", "/flows", "/record", "/nothing"} {
		if r := browser(http.MethodGet, at+"?q=a", nil); r.StatusCode != http.StatusSeeOther || !strings.HasPrefix(r.Header.Get("Location"), "/login?next=%2F") {
			t.Errorf("%s: %s to %s", at, r.Status, r.Header.Get("Location"))
		}
		if r := get(t, h, "localhost", at); r.StatusCode != http.StatusUnauthorized || r.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s, a program: %s", at, r.Status)
		}
	}
	if r := browser(http.MethodPost, "/review", url.Values{"id": {"x"}}); r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/login" {
		t.Errorf("a word of nobody's: %s", r.Status)
	}
	r := browser(http.MethodPost, "/login", url.Values{"token": {"nobody's"}, "next": {"/flows"}})
	if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusUnauthorized || !strings.Contains(string(text), "does not know this token") || !strings.Contains(string(text), `value="/flows"`) || len(r.Cookies()) != 0 {
		t.Errorf("a wrong token: %s\n%s", r.Status, text)
	}
	if r := browser(http.MethodPost, "/login", url.Values{"token": {"stranger"}}); r.StatusCode != http.StatusForbidden || len(r.Cookies()) != 0 {
		t.Errorf("who may read nothing: %s", r.Status)
	}
	r = browser(http.MethodPost, "/login", url.Values{"token": {"owner"}, "next": {"/flows"}})
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "/flows" || len(r.Cookies()) != 1 {
		t.Fatalf("logging in: %s to %s", r.Status, r.Header.Get("Location"))
	}
	in := r.Cookies()[0]
	if r := browser(http.MethodGet, "/flows", nil, in); r.StatusCode != http.StatusOK || r.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("with the session: %s", r.Status)
	}
	if r := browser(http.MethodPost, "/logout", nil, in); r.StatusCode != http.StatusSeeOther {
		t.Errorf("logging out: %s", r.Status)
	}
	if r := browser(http.MethodGet, "/flows", nil, in); r.StatusCode != http.StatusSeeOther {
		t.Errorf("after it: %s", r.Status)
	}
}

// TestStatementsAreNarrowed: one that would show all is not run for who may not see all.
func TestStatementsAreNarrowed(t *testing.T) {
	ctx := context.WithValue(t.Context(), readerKey{}, login.Reader{Name: "owner", Namespaces: []string{"legacy"}})
	h := &handler{Options: Options{DB: stored(t, scene(t)).DB()}}
	if err := h.rows(ctx, "SELECT 1", nil, nil); err == nil || !strings.Contains(err.Error(), "owner") {
		t.Error(err)
	}
}

// unread fails the test when somebody reads it.
type unread struct{ *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.Error("what a stranger sends with a GET is read")
	return 0, io.EOF
}

// TestStrangersBodiesStayUnread: forms that nobody asked for take neither memory nor disk.
func TestStrangersBodiesStayUnread(t *testing.T) {
	h := guarded(t)
	for _, at := range []string{"/login", "/login?next=/flows", "/login/issuer", "/log", login.CallbackPath} {
		r := httptest.NewRequest(http.MethodGet, at, unread{t})
		r.Host = "localhost"
		r.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		r.Header.Set("Accept", "text/html")
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}
