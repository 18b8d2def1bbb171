package hosts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/dnsproxy/name"
	"github.com/sallyport/sallyport/e2e/leaks"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

func TestParse(t *testing.T) {
	for _, c := range []struct{ path, content, want string }{
		{"n.yaml", "external.com: [240.240.0.1, \"2001:2::1\"]\n\"*.Example.com\": 240.240.0.2\ndb.test: {addresses: [10.0.0.7], ttl: 60, aliases: [db]}\nbare.test: []\n",
			"[{*.example.com [240.240.0.2] 0 []  <nil>} {bare.test [] 0 []  <nil>} {db.test [10.0.0.7] 60 [db]  <nil>} {external.com [240.240.0.1 2001:2::1] 0 []  <nil>}]"},
		{"n.json", `{"a.test": ["10.0.0.1"]}`, "[{a.test [10.0.0.1] 0 []  <nil>}]"},
		{"hosts", "# head\n127.0.0.1 localhost\n::1\tLocalhost ip6-localhost # tail\n\n10.0.0.1 a.test. b.test a2.test\n",
			"[{a.test [10.0.0.1] 0 [b.test a2.test]  <nil>} {localhost [127.0.0.1 ::1] 0 [ip6-localhost]  <nil>}]"},
		{"empty", "", "[]"},
	} {
		names, err := Parse(c.path, []byte(c.content))
		if got := fmt.Sprint(names); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.path, got, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ path, content, want string }{
		{"n.yaml", "a.test: [10.0.0]", `addresses[0] "10.0.0"`},
		{"n.yaml", "a.test: [10.0.0.1]\nA.test: [10.0.0.2]", "is there twice"},
		{"n.yaml", "a.test: {address: 10.0.0.1}", "unknown field"},
		{"n.yaml", "- a.test", "want a map"},
		{"n.yaml", "a..test: 10.0.0.1", `name "a..test"`},
		{"hosts", "10.0.0.1", "line 1"},
		{"hosts", "\na.test 10.0.0.1", "line 2"},
	} {
		if _, err := Parse(c.path, []byte(c.content)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), c.path) {
			t.Errorf("%q: error %v, want one with %q", c.content, err, c.want)
		}
	}
}

// recorder notes what is applied.
type recorder chan string

func (r recorder) Apply(upserts []name.Name, removed []string) error {
	r <- fmt.Sprint(upserts, removed)
	return errors.New("one refused")
}

func (r recorder) SetReady() { r <- "ready" }

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "names")
	write := func(content string) {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("10.0.0.1 a.test\n10.0.0.2 b.test\n")
	ctx, cancel := context.WithCancel(t.Context())
	table, done := make(recorder, 8), make(chan error, 1)
	go func() { done <- Follow(ctx, path, table, slog.New(slog.DiscardHandler)) }()
	want := func(text string) {
		t.Helper()
		select {
		case got := <-table:
			if got != text {
				t.Fatalf("got %s, want %s", got, text)
			}
		case <-time.After(time.Minute):
			t.Fatalf("never: %s", text)
		}
	}
	want("[{a.test [10.0.0.1] 0 []  <nil>} {b.test [10.0.0.2] 0 []  <nil>}] []")
	want("ready")
	write("nonsense")
	write("10.0.0.3 b.test\n")
	want("[{b.test [10.0.0.3] 0 []  <nil>}] [a.test]")
	want("ready")
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("n.yaml", []byte("a.test: [10.0.0.1]"))
	f.Add("hosts", []byte("10.0.0.1 a.test b"))
	f.Fuzz(func(t *testing.T, path string, content []byte) {
		names, err := Parse(path, content)
		if err != nil {
			return
		}
		for _, n := range names {
			if n.Validate() != nil {
				t.Fatalf("%q gave %+v", content, n)
			}
		}
	})
}
