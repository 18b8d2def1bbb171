package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/sallyport/sallyport/e2e/clock"
	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func TestMain(m *testing.M) {
	leaks.Verify(m, goleak.IgnoreTopFunction("github.com/sallyport/sallyport/e2e/world.startForever"))
}

var noon = time.Date(2027, 5, 1, 12, 0, 0, 0, time.UTC)

// roles are a cluster: whose tokens there are, and what they read.
type roles struct {
	mu       sync.Mutex
	tokens   map[string]string   // whose
	readable map[string][]string // namespaces; "" for all
	away     bool
	asked    int
}

func (c *roles) Who(_ context.Context, token string) (User, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	switch name := c.tokens[token]; {
	case c.away:
		return User{}, fmt.Errorf("%w: away", ErrUnasked)
	case name == "":
		return User{}, ErrUnknown
	default:
		return User{Name: name, Groups: []string{"people"}}, nil
	}
}

func (c *roles) May(_ context.Context, u User, namespace string) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if c.away {
		return true, fmt.Errorf("%w: away", ErrUnasked)
	}
	return slices.Contains(c.readable[u.Name], namespace), nil
}

func (c *roles) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// scene is a gate before a cluster, at a time that the test moves.
type scene struct {
	*Gate
	*roles
	now *clock.Clock
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{now: clock.At(noon), roles: &roles{
		tokens:   map[string]string{"A": "anna", "B": "bert", "N": "nora"},
		readable: map[string][]string{"anna": {""}, "bert": {"shop", "bank", "not in the log"}},
	}}
	s.Gate = New(Options{Cluster: s.roles, Now: s.now.Now, Namespaces: func(context.Context) ([]string, error) {
		return []string{"shop", "legacy", "bank", "no namespace", ""}, nil
	}})
	return s
}

func request(cookies ...*http.Cookie) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/log", nil)
	for _, c := range cookies {
		r.AddCookie(c)
	}
	return r
}

func bearer(token string) *http.Request {
	r := request()
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// enter logs in, and gives the browser's cookies.
func (s *scene) enter(t *testing.T, token string) []*http.Cookie {
	t.Helper()
	w := httptest.NewRecorder()
	if _, err := s.ByToken(w, request(), token); err != nil {
		t.Fatal(err)
	}
	cookies := w.Result().Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode || !strings.HasPrefix(cookies[0].Name, "__Host-") || cookies[0].Path != "/" {
		t.Fatalf("cookies %v", cookies)
	}
	return cookies
}

func TestWhoReadsWhat(t *testing.T) {
	s := newScene(t)
	for name, c := range map[string]struct {
		request *http.Request
		want    Reader
		err     error
	}{
		"all":            {bearer("A"), Reader{Name: "anna", By: record.ByToken, All: true}, nil},
		"some":           {bearer("B"), Reader{Name: "bert", By: record.ByToken, Namespaces: []string{"bank", "shop"}}, nil},
		"nothing":        {bearer("N"), Reader{}, ErrNothing},
		"nobody's token": {bearer("X"), Reader{}, ErrUnknown},
		"no token":       {request(), Reader{}, ErrNobody},
		"made-up cookie": {request(&http.Cookie{Name: cookie, Value: "x"}), Reader{}, ErrNobody},
		"too long":       {bearer(strings.Repeat("x", maxToken+1)), Reader{}, errTooLong},
	} {
		if got, err := s.Reader(c.request); !errors.Is(err, c.err) || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if r := request(); true {
		r.SetBasicAuth("anna", "A")
		if _, err := s.Reader(r); !errors.Is(err, ErrNobody) {
			t.Errorf("a password: %v", err)
		}
	}
}

func TestSessions(t *testing.T) {
	s := newScene(t)
	in := s.enter(t, "B")
	reads := func(want error) {
		t.Helper()
		if _, err := s.Reader(request(in...)); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
	reads(nil)
	before := s.asked
	if reads(nil); s.asked != before {
		t.Error("what was answered just now is asked again")
	}
	s.now.Advance(sessionRests - time.Second)
	reads(nil)
	s.now.Advance(sessionRests)
	reads(ErrNobody) // not used for too long

	in = s.enter(t, "B")
	for range 11 {
		s.now.Advance(sessionRests - time.Second)
		reads(nil)
	}
	s.now.Advance(time.Hour)
	reads(ErrNobody) // it has to end at some time

	in = s.enter(t, "B")
	w := httptest.NewRecorder()
	s.Leave(w, request(in...))
	reads(ErrNobody)
	if c := w.Result().Cookies(); len(c) != 1 || c[0].MaxAge >= 0 {
		t.Errorf("cookies after leaving: %v", c)
	}
}

// TestRightsEnd: what a role or a token no longer says is over after a minute.
func TestRightsEnd(t *testing.T) {
	s := newScene(t)
	in := s.enter(t, "A")
	s.change(func() { s.readable["anna"] = []string{"legacy"} })
	s.now.Advance(answersFor)
	if got, err := s.Reader(request(in...)); err != nil || got.All || !slices.Equal(got.Namespaces, []string{"legacy"}) {
		t.Errorf("%+v, %v", got, err)
	}
	s.change(func() { s.away = true })
	s.now.Advance(answersFor)
	if got, err := s.Reader(request(in...)); !errors.Is(err, ErrUnasked) {
		t.Errorf("with the API server away: %+v, %v", got, err)
	}
	s.change(func() { s.away = false; delete(s.tokens, "A") })
	if _, err := s.Reader(request(in...)); !errors.Is(err, ErrNobody) {
		t.Errorf("with a token that ended: %v", err)
	}
	s.change(func() { s.tokens["A"] = "anna" })
	if _, err := s.Reader(request(in...)); !errors.Is(err, ErrNobody) {
		t.Errorf("a session that ended: %v", err)
	}
}

// TestGuessing: one address does not make the API server look at ever new tokens, and its neighbours log in meanwhile.
func TestGuessing(t *testing.T) {
	s := newScene(t)
	held := false
	for i := range atFirst + 5 {
		_, err := s.Reader(bearer(fmt.Sprint("guess ", i)))
		held = held || errors.Is(err, ErrTooMany)
	}
	if !held {
		t.Error("every guess was asked about")
	}
	other := bearer("A")
	other.RemoteAddr = "192.0.2.77:1234"
	if _, err := s.Reader(other); err != nil {
		t.Error(err)
	}
}

// TestGuessesAtOnce: guesses that begin at the same time count each.
func TestGuessesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, r := newAttempts(), request()
		for range 5 * atFirst {
			if !a.left(r) {
				t.Fatal("one that began with the others is held back")
			}
		}
		for range 5 * atFirst {
			a.failed(r)
		}
		const wait = 4 * atFirst / perSecond * time.Second
		if time.Sleep(wait); a.left(r) {
			t.Error("some of them did not count")
		}
		if time.Sleep(time.Second); !a.left(r) {
			t.Error("an address is held back for longer than its guesses")
		}
	})
}

// TestKnownReadersAreNotHeldBack: who guesses at an address holds back nobody who is logged in at it.
func TestKnownReadersAreNotHeldBack(t *testing.T) {
	s := newScene(t)
	in := s.enter(t, "B")
	for i := range atFirst + 5 {
		_, _ = s.Reader(bearer(fmt.Sprint("guess ", i)))
	}
	s.now.Advance(answersFor)
	if _, err := s.Reader(request(in...)); err != nil {
		t.Error(err)
	}
	if _, err := s.ByToken(httptest.NewRecorder(), request(), "A"); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more login at it: %v", err)
	}
	v6 := bearer("guess")
	v6.RemoteAddr = "[2001:db8:1:2:3::4]:1"
	for i := range atFirst + 5 {
		v6.RemoteAddr = fmt.Sprintf("[2001:db8:1:2::%x]:1", i)
		_, _ = s.Reader(v6)
	}
	if _, err := s.Reader(v6); !errors.Is(err, ErrTooMany) {
		t.Errorf("from a network of many addresses: %v", err)
	}
}

// TestManySessions: who logs in again and again puts out their own sessions, and nobody else's.
func TestManySessions(t *testing.T) {
	s := newScene(t)
	other, first := s.enter(t, "A"), s.enter(t, "B")
	for range mostEach {
		s.enter(t, "B")
	}
	if _, err := s.Reader(request(first...)); !errors.Is(err, ErrNobody) {
		t.Errorf("the oldest of too many: %v", err)
	}
	if _, err := s.Reader(request(other...)); err != nil {
		t.Errorf("another's: %v", err)
	}
	if n := s.sessions.known.Len(); n != mostEach+1 {
		t.Errorf("%d sessions are kept", n)
	}
}

// TestNothingIsRemembered: who may read nothing makes the API server answer once a minute.
func TestNothingIsRemembered(t *testing.T) {
	s := newScene(t)
	_, _ = s.Reader(bearer("N"))
	before := s.asked
	if _, err := s.Reader(bearer("N")); !errors.Is(err, ErrNothing) || s.asked != before {
		t.Errorf("%v, after %d questions more", err, s.asked-before)
	}
}

func TestManyNamespaces(t *testing.T) {
	s := newScene(t)
	s.Namespaces = func(context.Context) (out []string, err error) {
		for i := range Most + 1 {
			out = append(out, fmt.Sprint("n", i))
		}
		return out, nil
	}
	if got, err := s.Reader(bearer("B")); err == nil || !strings.Contains(err.Error(), "2000") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := s.Reader(bearer("A")); err != nil || !got.All {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWithin(t *testing.T) {
	for path, want := range map[string]string{
		"/log?q=a": "/log?q=a", "": "/", "//evil.test": "/", "https://evil.test/": "/", `/\evil.test`: "/", "/login": "/", "/a\nb": "/", "log": "/",
	} {
		if got := Within(path); got != want {
			t.Errorf("%q: %q", path, got)
		}
	}
}
