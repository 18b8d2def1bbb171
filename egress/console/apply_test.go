package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/egress/audit/actions"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/console/login"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// applying is an API server that takes objects from one person, and what happens, in order.
type applying struct {
	may   string
	fails error
	did   []string
	// tries and writes, if any, are called meanwhile.
	tries  func()
	writes func(context.Context) error
}

func (a *applying) prepare(_ context.Context, token string, changes []suggest.Change) (Prepared, error) {
	if token != a.may {
		return nil, errors.New("your own rights do not allow it")
	}
	if a.tries != nil {
		a.tries()
	}
	a.did = append(a.did, "tried "+changes[0].Key().String())
	return prepared{a, changes[0].Key().String()}, nil
}

type prepared struct {
	*applying
	name string
}

func (p prepared) String() string { return p.name }

func (p prepared) Apply(ctx context.Context) error {
	if p.writes != nil {
		if err := p.writes(ctx); err != nil {
			return err
		}
	}
	p.did = append(p.did, "applied "+p.name)
	return p.fails
}

var digestIn = regexp.MustCompile(`name="digest" value="([0-9a-f]{32})"`)

// showFirst has the objects shown, and gives the form of who says yes.
func showFirst(t *testing.T, h http.Handler, who string, form url.Values) url.Values {
	t.Helper()
	code, text := tell(t, h, who, "/review", form)
	digest := digestIn.FindStringSubmatch(text)
	if code != http.StatusOK || digest == nil || !strings.Contains(text, "kind: ServiceEntry") || !strings.Contains(text, "Nothing is approved yet") {
		t.Fatalf("%d %.2000s", code, text)
	}
	yes := maps.Clone(form)
	yes.Set("digest", digest[1])
	return yes
}

// applies is the form of who wants to apply what lets a host through.
func applies(host string) url.Values {
	return url.Values{"id": {review.ID("legacy", "report", host, 443)}, "action": {"applied"}, "reason": {"OPS-7"}}
}

// TestApplyGoesOn: nobody waits for the API server but who asked it, and what is recorded is done whether or not they are still there.
func TestApplyGoesOn(t *testing.T) {
	a, decisions := &applying{may: "owner"}, ""
	recorded := func() {}
	h := guardedBy(t, func(o *Options) {
		configured(t, tenants)(o)
		decisions, o.Apply = o.Decisions, a.prepare
		o.Act = func(context.Context, record.Record) error { recorded(); return nil }
	})
	look := func() {
		if code, text := as(t, h, "auditor", http.MethodGet, "/review"); code != http.StatusOK {
			t.Errorf("others wait for the API server: %d %.300s", code, text)
		}
		form := url.Values{"yaml": {tenants}, "since": {"30d"}}
		if code, text := tell(t, h, "auditor", "/simulate", form); code != http.StatusOK {
			t.Errorf("the registry is not given back: %d %.300s", code, text)
		}
	}
	a.tries = look
	yes := showFirst(t, h, "owner", applies("x1.tracker.example.net"))
	a.writes = func(ctx context.Context) error { look(); return ctx.Err() }
	ctx, leave := context.WithCancel(t.Context())
	recorded = leave
	form := httptest.NewRequest(http.MethodPost, "/review", strings.NewReader(yes.Encode())).WithContext(ctx)
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answerTo(t, h, "owner", form)
	if all, err := (review.Files{Dir: decisions}).Read(); ctx.Err() == nil || err != nil || len(all) != 1 || a.did[len(a.did)-1] != "applied ServiceEntry legacy/x1-tracker-example-net" {
		t.Errorf("who left stopped it halfway: %v %v %v", a.did, all, err)
	}

	recorded, a.tries = func() {}, nil
	yes = showFirst(t, h, "owner", applies("x2.tracker.example.net"))
	a.writes = func(context.Context) error { // the disk takes no decision after this
		file := filepath.Join(decisions, "decisions.jsonl")
		return errors.Join(os.Remove(file), os.Mkdir(file, 0o700))
	}
	if code, text := tell(t, h, "owner", "/review", yes); code != http.StatusInternalServerError || !strings.Contains(text, "its objects are applied: ServiceEntry legacy/x2-tracker-example-net") {
		t.Errorf("%d %.500s", code, text)
	}
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
	if _, text := as(t, h, "owner", http.MethodGet, "/review"); !strings.Contains(text, "Approve and apply") {
		t.Error("nothing can be applied")
	}
	if code, text := tell(t, h, "auditor", "/review", applies("x1.tracker.example.net")); code != http.StatusBadRequest || !strings.Contains(text, "your own rights do not allow it") || len(a.did) != 0 {
		t.Errorf("who may not: %d %v", code, a.did)
	}
	yes := showFirst(t, h, "owner", applies("x1.tracker.example.net"))
	name := "ServiceEntry legacy/x1-tracker-example-net"
	if strings.Join(a.did, "; ") != "tried "+name {
		t.Errorf("what was only shown is done: %v", a.did)
	}
	a.did = nil
	other := maps.Clone(yes)
	other.Set("digest", strings.Repeat("0", 32))
	if code, text := tell(t, h, "owner", "/review", other); code != http.StatusBadRequest || !strings.Contains(text, "not what you were shown") || len(a.did) != 0 {
		t.Errorf("what was not shown is applied: %d %v %.500s", code, a.did, text)
	}
	code, text := tell(t, h, "owner", "/review", yes)
	if code != http.StatusOK || !strings.Contains(text, "They are applied, with your rights") {
		t.Errorf("%d %.2000s", code, text)
	}
	if want := []string{"tried " + name, "recorded " + actions.Approved + " owner OPS-7", "recorded " + actions.Applied + " owner " + name, "applied " + name}; strings.Join(a.did, "; ") != strings.Join(want, "; ") {
		t.Errorf("%q, want %q", a.did, want)
	}
	a.fails = errors.New("gone")
	if code, text := tell(t, h, "owner", "/review", showFirst(t, h, "owner", applies("x2.tracker.example.net"))); code != http.StatusBadRequest || !strings.Contains(text, "applying it failed: gone") {
		t.Errorf("%d %.500s", code, text)
	}
	if all, err := (review.Files{Dir: decisions}).Read(); err != nil || len(all) != 1 || all[0].Action != review.StateApproved {
		t.Errorf("%v, %v", all, err)
	}
	a.fails = nil
	paged := httptest.NewRequest(http.MethodPost, "/review", strings.NewReader(showFirst(t, h, "owner", applies("x4.tracker.example.net")).Encode()))
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
	form := httptest.NewRequest(http.MethodPost, "/review", strings.NewReader(applies("x3.tracker.example.net").Encode()))
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

// TestDecidedIsNewestFirst: what was decided last is shown, of each namespace, and how much more there is.
func TestDecidedIsNewestFirst(t *testing.T) {
	l := looked{may: scope{Reader: login.Reader{All: true}}, log: &seen.Log{}, files: review.Files{Dir: t.TempDir()}, now: noon}
	var lines []byte
	word := func(namespace string, at int) {
		host := fmt.Sprintf("h%d.test", at)
		line, err := json.Marshal(review.Decision{ID: review.ID(namespace, "a", host, 443), Action: review.StateRejected, At: noon.Add(time.Duration(at) * time.Minute), Namespace: namespace, Workload: "a", Host: host, Port: 443})
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	word("quiet", 0)
	for at := range 300 {
		word("loud", 1+(at*7)%300)
	}
	if err := os.WriteFile(filepath.Join(l.files.Dir, "decisions.jsonl"), lines, 0o600); err != nil {
		t.Fatal(err)
	}
	l.may.config = &Config{Snapshot: registry.New(new(mesh.Config)).Snapshot()}
	v, err := l.page(reviewPage{})
	if err != nil {
		t.Fatal(err)
	}
	p := v.Data.(reviewPage)
	if len(p.Decided) != mostItems || p.Older != 101 || p.Decided[0].Host != "h300.test" || p.Decided[1].Host != "h299.test" || p.Decided[mostItems-1].Namespace != "quiet" {
		t.Errorf("%d, %d more: %v … %v", len(p.Decided), p.Older, p.Decided[0].Item, p.Decided[len(p.Decided)-1].Item)
	}
}
