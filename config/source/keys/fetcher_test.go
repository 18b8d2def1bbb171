package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/e2e/freeport"
)

const limit = time.Minute

// issuerOf serves what a variable says, as keys and by discovery.
func issuerOf(t *testing.T, says *atomic.Value) *httptest.Server {
	t.Helper()
	var s *httptest.Server
	mux := http.NewServeMux()
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		if text := says.Load().(string); text != "" {
			_, _ = w.Write([]byte(text))
		} else {
			http.Error(w, "away", http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc(wellKnown, func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintf(w, `{"jwks_uri": %q}`, s.URL+"/keys") })
	mux.HandleFunc("/there", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/keys", http.StatusFound) })
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	mux.HandleFunc("/much", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, largest+1)) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func loopback(t *testing.T) inside.Allowed {
	t.Helper()
	a, err := inside.Parse([]string{"127.0.0.1", "::1"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFetch(t *testing.T) {
	var says atomic.Value
	says.Store("keys of a")
	s := issuerOf(t, &says)
	for _, c := range []struct {
		name    string
		from    Source
		allowed inside.Allowed
		want    string // the text, or a word of the error
	}{
		{"keys", Source{URI: s.URL + "/keys"}, loopback(t), "keys of a"},
		{"discovery", Source{URI: s.URL, Discover: true}, loopback(t), "keys of a"},
		{"discovery with a slash", Source{URI: s.URL + "/", Discover: true}, loopback(t), "keys of a"},
		{"a redirect", Source{URI: s.URL + "/there"}, loopback(t), "keys of a"},
		{"an address of the inside", Source{URI: s.URL + "/keys"}, inside.Allowed{}, "which is inside"},
		{"a name of the inside", Source{URI: strings.Replace(s.URL, "127.0.0.1", "localhost", 1) + "/keys"}, inside.Allowed{}, "which is inside"},
		{"metadata", Source{URI: "http://169.254.169.254/keys"}, inside.Allowed{}, "which is inside"},
		{"round and round", Source{URI: s.URL + "/round"}, loopback(t), "too often"},
		{"a file", Source{URI: s.URL + "/file"}, loopback(t), "unsupported protocol scheme"},
		{"a file at once", Source{URI: "file:///etc/passwd"}, loopback(t), "http and https"},
		{"too much", Source{URI: s.URL + "/much"}, loopback(t), "more than"},
		{"nothing there", Source{URI: s.URL + "/none"}, loopback(t), "404"},
		{"too slow", Source{URI: s.URL + "/slow", Timeout: 20 * time.Millisecond}, loopback(t), "deadline"},
		{"no discovery", Source{URI: s.URL + "/none", Discover: true}, loopback(t), "404"},
	} {
		got, err := fetch(t.Context(), c.from, c.allowed)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || (err == nil) != (c.want == "keys of a") {
			t.Errorf("%s: %q (%v)", c.name, got, err)
		}
	}
}

// TestFetcher: keys come, and others in their place; those that were fetched stay while the issuer is away, or says what is no set.
func TestFetcher(t *testing.T) {
	var says atomic.Value
	says.Store("keys of a")
	s := issuerOf(t, &says)
	f := NewFetcher(slog.New(slog.DiscardHandler), func(text string) (string, error) {
		text = strings.TrimPrefix(text, "padding of ")
		if !strings.HasPrefix(text, "keys") {
			return "", errors.New("no keys")
		}
		return text, nil
	})
	f.Fresh, f.First, f.Last = 10*time.Millisecond, time.Millisecond, 5*time.Millisecond
	go f.Run(t.Context())
	next := func() Batch {
		t.Helper()
		select {
		case b := <-f.Batches():
			return b
		case <-time.After(limit):
			t.Fatal("nothing comes")
			return Batch{}
		}
	}
	if f.Want(t.Context(), nil); !next().Tried {
		t.Error("nothing is wanted, and it waits")
	}
	of := Source{Key: config.Key{Kind: config.KindKeySet, Namespace: "shop", Name: "a"}, URI: s.URL + "/keys"}
	f.Want(t.Context(), []Wanted{{Source: of, Allowed: loopback(t)}})
	text := func(b Batch) string {
		t.Helper()
		if len(b.Changes) != 1 || b.Changes[0].Key != of.Key || b.Changes[0].Object == nil {
			t.Fatalf("%+v", b)
		}
		return b.Changes[0].Object.Spec.(string)
	}
	if b := next(); text(b) != "keys of a" || !b.Tried {
		t.Errorf("%+v", b)
	}
	for _, bad := range []string{"", "an error's page"} {
		says.Store(bad)
		if b := next(); len(b.Changes) > 0 || b.Failing[of.Key].URI != of.URI || b.Failing[of.Key].Err == "" || b.Failing[of.Key].Until.Before(time.Now()) {
			t.Errorf("%q: %+v", bad, b)
		}
		select { // it is asked for again many times, and says nothing
		case b := <-f.Batches():
			t.Errorf("%q: %+v", bad, b)
		case <-time.After(100 * time.Millisecond):
		}
	}
	says.Store("padding of keys of b") // which is not kept
	if b := next(); text(b) != "keys of b" || len(b.Failing) > 0 {
		t.Errorf("%+v", b)
	}
	f.Want(t.Context(), nil)
	if b := next(); len(b.Changes) != 1 || b.Changes[0].Object != nil || !b.Tried {
		t.Errorf("%+v", b)
	}
	bad := of
	bad.URI = s.URL + "/none"
	f.Want(t.Context(), []Wanted{{Source: bad, Allowed: loopback(t)}})
	if b := next(); len(b.Changes) != 0 || !b.Tried || !b.Failing[of.Key].Until.IsZero() || !strings.Contains(b.Failing[of.Key].Err, "404") {
		t.Errorf("what cannot be fetched was tried: %+v", b)
	}
}

// TestReasons: what is said of a failure is the same whenever the same goes wrong, and tells neither addresses nor what else errors do.
func TestReasons(t *testing.T) {
	gone, err := freeport.Addr()
	if err != nil {
		t.Fatal(err)
	}
	none, looping := httptest.NewServer(http.NotFoundHandler()), httptest.NewServer(http.RedirectHandler("/", http.StatusFound))
	defer none.Close()
	defer looping.Close()
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	secret.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	defer secret.Close()
	open := loopback(t)
	for _, c := range []struct {
		uri     string
		allowed inside.Allowed
		want    string
	}{
		{"http://" + gone, open, "it cannot be reached"},
		{"http://" + gone, inside.Allowed{}, leadsInside.words},
		{none.URL, open, "it answers 404"},
		{looping.URL, open, redirected.words},
		{secret.URL, open, "its certificate is not trusted"},
		{strings.Replace(none.URL, "http:", "https:", 1), open, "it cannot be reached"},
		{"http://none.invalid/keys", open, "its name is not resolved"},
		{"ftp://none.invalid/keys", open, nowhere.words},
	} {
		_, err := fetch(t.Context(), Source{URI: c.uri}, c.allowed)
		if err == nil {
			t.Fatalf("%s: fetched", c.uri)
		}
		if got := reason(err); got != c.want {
			t.Errorf("%s: %q of %v, want %q", c.uri, got, err, c.want)
		}
	}
}

// TestOneNamespaceKeepsNobodyWaiting: while the issuers of one say nothing, another's keys come at once, and after the fetcher's patience, which begins when keys are wanted first, nobody waits for them.
func TestOneNamespaceKeepsNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFetcher(slog.New(slog.DiscardHandler), func(text string) (string, error) { return text, nil })
		f.fetch = func(ctx context.Context, s Source, _ inside.Allowed) (string, error) {
			if s.Key.Namespace == "shop" {
				return "keys of a", nil
			}
			<-ctx.Done()
			return "", ctx.Err()
		}
		go f.Run(t.Context())
		synctest.Wait()
		time.Sleep(5 * time.Minute) // it has rested for long: time of the bubble
		var all []Wanted
		for i := range 10 * most {
			all = append(all, Wanted{Source: Source{Key: config.Key{Kind: config.KindKeySet, Namespace: "slow", Name: fmt.Sprint(i)}}})
		}
		own := config.Key{Kind: config.KindKeySet, Namespace: "shop", Name: "a"}
		all = append(all, Wanted{Source: Source{Key: own}})
		began := time.Now()
		f.Want(t.Context(), all)
		if b := <-f.Batches(); len(b.Changes) != 1 || b.Changes[0].Key != own || b.Tried || time.Since(began) != 0 {
			t.Errorf("after %s: %+v", time.Since(began), b)
		}
		if b := <-f.Batches(); len(b.Changes) != 0 || !b.Tried || time.Since(began) != f.Patience {
			t.Errorf("after %s: %+v", time.Since(began), b)
		}
	})
}
