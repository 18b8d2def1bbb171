package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/suggest"
)

// applying is an API server that takes objects from one person, and what happens, in order.
type applying struct {
	may   string
	fails error
	did   []string
}

func (a *applying) prepare(_ context.Context, token string, changes []suggest.Change) (Prepared, error) {
	if token != a.may {
		return nil, errors.New("your own rights do not allow it")
	}
	a.did = append(a.did, "tried "+changes[0].Key().String())
	return prepared{a, changes[0].Key().String()}, nil
}

type prepared struct {
	*applying
	name string
}

func (p prepared) String() string { return p.name }

func (p prepared) Apply(context.Context) error {
	p.did = append(p.did, "applied "+p.name)
	return p.fails
}

// TestApplyOnThePage: what is approved is applied with the reader's own token, after it was tried and recorded, and by nobody else.
func TestApplyOnThePage(t *testing.T) {
	a, decisions := &applying{may: "owner"}, ""
	h := guardedBy(t, func(o *Options) {
		configured(t, tenants)(o)
		decisions, o.Apply = o.Decisions, a.prepare
		o.Act = func(_ context.Context, r record.Record) error {
			a.did = append(a.did, "recorded "+r.Action+" "+r.Actor+" "+r.Reason)
			return nil
		}
	})
	about := func(host string) url.Values {
		return url.Values{"id": {review.ID("legacy", "report", host, 443)}, "action": {"applied"}, "reason": {"OPS-7"}}
	}
	if _, text := as(t, h, "owner", http.MethodGet, "/review"); !strings.Contains(text, "Approve and apply") {
		t.Error("nothing can be applied")
	}
	if code, text := tell(t, h, "auditor", "/review", about("x1.tracker.example.net")); code != http.StatusBadRequest || !strings.Contains(text, "your own rights do not allow it") || len(a.did) != 0 {
		t.Errorf("who may not: %d %v", code, a.did)
	}
	code, text := tell(t, h, "owner", "/review", about("x1.tracker.example.net"))
	if code != http.StatusOK || !strings.Contains(text, "They are applied, with your rights") {
		t.Errorf("%d %.2000s", code, text)
	}
	name := "ServiceEntry legacy/x1-tracker-example-net"
	if want := []string{"tried " + name, "recorded " + actions.Approved + " owner OPS-7", "recorded " + actions.Applied + " owner " + name, "applied " + name}; strings.Join(a.did, "; ") != strings.Join(want, "; ") {
		t.Errorf("%q, want %q", a.did, want)
	}
	a.fails = errors.New("gone")
	if code, text := tell(t, h, "owner", "/review", about("x2.tracker.example.net")); code != http.StatusBadRequest || !strings.Contains(text, "and it is not: gone") {
		t.Errorf("%d %.500s", code, text)
	}
	if all, err := (review.Files{Dir: decisions}).Read(); err != nil || len(all) != 1 || all[0].Action != review.StateApproved {
		t.Errorf("%v, %v", all, err)
	}
	a.fails = nil
	paged := httptest.NewRequest(http.MethodPost, "/review", strings.NewReader(about("x4.tracker.example.net").Encode()))
	paged.Host = "localhost"
	paged.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	paged.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, c := range enters(h, "owner").Cookies() { // the session has the token that it began with
		paged.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, paged)
	if last := a.did[len(a.did)-1]; w.Code != http.StatusOK || last != "applied ServiceEntry legacy/x4-tracker-example-net" {
		t.Errorf("in a session: %d, %s", w.Code, last)
	}
	form := httptest.NewRequest(http.MethodPost, "/review", strings.NewReader(about("x3.tracker.example.net").Encode()))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	form.Header.Set("Sec-Fetch-Site", "cross-site")
	before := len(a.did)
	if code, _ := answerTo(t, h, "owner", form); code != http.StatusForbidden || len(a.did) != before {
		t.Errorf("another site's page: %d %v", code, a.did[before:])
	}
}

// TestNobodyApplies: where nobody logs in there are no rights to apply with, whatever the server itself may do.
func TestNobodyApplies(t *testing.T) {
	a := &applying{}
	h := served(t, scene(t), func(o *Options) {
		configured(t, objects)(o)
		o.Apply = a.prepare
	})
	one := url.Values{"id": {review.ID("legacy", "report", "x1.tracker.example.net", 443)}, "action": {"applied"}}
	if code, text := post(t, h, "/review", "same-origin", one); code != http.StatusBadRequest || !strings.Contains(text, "kubectl apply -f -") || len(a.did) != 0 {
		t.Errorf("%d %.500s", code, text)
	}
	one.Set("action", "approved")
	if code, text := post(t, h, "/review", "same-origin", one); code != http.StatusOK || !strings.Contains(text, "This page applies nothing") || strings.Contains(text, "Approve and apply") {
		t.Errorf("%d %.500s", code, text)
	}
}
