package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/review"
)

// enters logs a browser in.
func enters(h http.Handler, token string) *http.Response {
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// TestActionsAreRecords: a word and a login are in the log, with who it was by whose word; each reader sees those about their namespaces.
func TestActionsAreRecords(t *testing.T) {
	s := stored(t, scene(t))
	var decisions string
	h := console(t, s, func(o *Options) {
		configured(t, tenants)(o)
		decisions = o.Decisions
		o.Act = actions.New(s, noon).Add
		o.Login = &login.Options{Cluster: roles{"auditor": {""}, "owner": {"legacy"}}}
	})
	if r := enters(h, "auditor"); r.StatusCode != http.StatusSeeOther {
		t.Fatal(r.Status)
	}
	one := url.Values{"id": {review.ID("legacy", "report", "x1.tracker.example.net", 443)}, "action": {"approved"}, "reason": {"asked for in OPS-7"}}
	if status, text := tell(t, h, "owner", "/review", one); status != http.StatusOK {
		t.Fatalf("%d %.2000s", status, text)
	}
	other := url.Values{"id": {review.ID("shop", "cart", "cdn.example.org", 443)}, "action": {"rejected"}, "reason": {"not ours"}}
	if status, text := tell(t, h, "auditor", "/review", other); status != http.StatusOK {
		t.Fatalf("%d %.2000s", status, text)
	}
	if status, _ := tell(t, h, "owner", "/review", one); status != http.StatusBadRequest {
		t.Errorf("a stale id: %d", status)
	}
	var got []record.Record
	filter := query.Filter{Terms: []query.Term{{Key: "class", Values: []string{"action"}}}}
	if err := query.Each(t.Context(), s.DB(), filter, func(r record.Record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(got) != 3 {
		t.Fatalf("%d actions: %+v", len(got), got)
	}
	for i, want := range []record.Record{
		{Action: "login", Actor: "auditor", URLPath: "/login"},
		{Action: "approved", Actor: "owner", URLPath: "/review", Reason: "asked for in OPS-7", Host: "x1.tracker.example.net", Port: 443, Workload: record.Workload{Namespace: "legacy", ServiceAccount: "report"}},
		{Action: "rejected", Actor: "auditor", URLPath: "/review", Reason: "not ours", Host: "cdn.example.org", Port: 443, Workload: record.Workload{Namespace: "shop", ServiceAccount: "cart"}},
	} {
		r := got[i]
		if r.Action != want.Action || r.Actor != want.Actor || r.ActorBy != record.ByToken || r.URLPath != want.URLPath || r.Reason != want.Reason || r.Host != want.Host ||
			r.Port != want.Port || r.Workload != want.Workload || r.Reporter != record.ReporterConsole || r.Source == "" || !r.Time.Equal(noon) {
			t.Errorf("%+v", r)
		}
	}
	for who, words := range map[string][2]string{"auditor": {"rejected by auditor; not ours", "nobody logs in"}, "owner": {"approved by owner; asked for in OPS-7", "by auditor"}} {
		_, text := as(t, h, who, http.MethodGet, "/log?q=class:action+since:2d+until:2027-06-01")
		if !strings.Contains(text, words[0]) || strings.Contains(text, words[1]) {
			t.Errorf("%s sees %.3000s", who, text[strings.Index(text, "<main"):])
		}
	}
	if _, text := as(t, h, "auditor", http.MethodGet, "/log?q=actor:own*+action:approved+until:2027-06-01"); !strings.Contains(text, "OPS-7") {
		t.Error("it is not found by who did it")
	}
	if _, text := as(t, h, "auditor", http.MethodGet, "/flows?q=class:action+until:2027-06-01"); strings.Contains(text, "x1.tracker") {
		t.Error("what somebody did counts as traffic")
	}
	if all, err := (review.Files{Dir: decisions}).Read(); err != nil || len(all) != 2 {
		t.Error(all, err)
	}
}

// TestWhatIsNotRecordedIsNotDone: neither a word nor a login counts that the log does not take; reading goes on.
func TestWhatIsNotRecordedIsNotDone(t *testing.T) {
	var decisions string
	h := guardedBy(t, func(o *Options) {
		configured(t, tenants)(o)
		decisions = o.Decisions
		o.Act = func(context.Context, record.Record) error { return errors.New("the disk is full") }
	})
	r := enters(h, "owner")
	if text, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusServiceUnavailable || len(r.Cookies()) != 0 || !strings.Contains(string(text), "could not be recorded") {
		t.Errorf("a login: %s", r.Status)
	}
	status, text := tell(t, h, "owner", "/review", url.Values{"id": {review.ID("legacy", "report", "x1.tracker.example.net", 443)}, "action": {"approved"}})
	if status != http.StatusInternalServerError || strings.Contains(text, "is approved") {
		t.Errorf("a word: %d", status)
	}
	if all, err := (review.Files{Dir: decisions}).Read(); err != nil || len(all) != 0 {
		t.Error(all, err)
	}
	if status, _ := as(t, h, "owner", http.MethodGet, "/log"); status != http.StatusOK {
		t.Errorf("the log: %d", status)
	}
}
