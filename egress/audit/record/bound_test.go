package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// whole is a record with every text the same.
func whole(text string) Record {
	r := Record{
		Proxy: "sidecar~10.0.0.1~a.b~b.svc.cluster.local", Epoch: 1 << 63, Seq: 1 << 63, Time: time.Date(2027, 1, 2, 3, 4, 5, 123456789, time.UTC), Class: HTTP,
		AllowedBy: Object{Kind: EgressPolicy}, WouldDeny: Object{Kind: EgressPolicy}, Action: "x", Port: 65535, Status: 599, BytesSent: 1 << 63, BytesReceived: 1 << 63, Duration: 1 << 62, Count: 1 << 63,
	}
	var room [maxParts]part
	for _, p := range r.parts(&room) {
		*p.text = text
	}
	for range 20 {
		r.Flags = append(r.Flags, text)
	}
	return r
}

func size(t testing.TB, r Record) int {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return len(b)
}

// TestPartsAreAllTexts: a field that somebody adds is bounded, too.
func TestPartsAreAllTexts(t *testing.T) {
	r := whole("text")
	var room [maxParts]part
	var walk func(v reflect.Value) int
	walk = func(v reflect.Value) (n int) {
		switch v.Kind() {
		case reflect.String:
			return 1
		case reflect.Struct:
			if v.Type() == reflect.TypeFor[time.Time]() {
				return 0
			}
			for i := range v.NumField() {
				n += walk(v.Field(i))
			}
		}
		return n
	}
	const identity = 2 // Proxy and Class are not cut
	if got, want := len(r.parts(&room)), walk(reflect.ValueOf(r))-identity; got != want {
		t.Errorf("%d texts can be cut, a record has %d", got, want)
	}
}

func TestBound(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	t.Run("what fits stays", func(t *testing.T) {
		r := whole("a text of a usual length")
		r.Flags = []string{"UF", "URX"}
		want := r
		if r.Bound(); !reflect.DeepEqual(r, want) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("one long text is cut and marked", func(t *testing.T) {
		r := Record{Proxy: "p", Class: HTTP, Host: "a.test", URLPath: "/" + long}
		r.Bound()
		if !slices.Equal(r.Cut, []string{"urlPath"}) || !strings.HasPrefix(r.URLPath, "/xxx") || !strings.HasSuffix(r.URLPath, "…") || r.Host != "a.test" || len(r.URLPath) < 4000 {
			t.Errorf("cut %v, path of %d bytes", r.Cut, len(r.URLPath))
		}
		again := r
		if again.Bound(); !reflect.DeepEqual(again, r) {
			t.Errorf("bounded again: cut %v", again.Cut)
		}
	})
	t.Run("marks that name no field go", func(t *testing.T) {
		r := Record{Proxy: "p", Class: HTTP, Host: "a…", Cut: []string{"host", "host", long, "nothing"}}
		if r.Bound(); !slices.Equal(r.Cut, []string{"host"}) {
			t.Errorf("cut %.100v", r.Cut)
		}
	})
	for name, text := range map[string]string{
		"ASCII": long, "control bytes": strings.Repeat("\x01", 9000), "two bytes": strings.Repeat("ü", 9000), "no UTF-8": strings.Repeat("\xff", 9000),
		"HTML": strings.Repeat("<", 9000), "line separators": strings.Repeat("\u2028", 9000), "quotes": strings.Repeat(`"`, 300),
	} {
		t.Run("all of "+name, func(t *testing.T) {
			r := whole(text)
			r.Bound()
			if n := size(t, r); n > MaxSize {
				t.Errorf("%d bytes", n)
			}
		})
	}
}

func FuzzBound(f *testing.F) {
	f.Add("a", "b", 3)
	f.Add("\xff\x00<", "ü", 9000)
	f.Fuzz(func(t *testing.T, a, b string, n int) {
		r := whole(strings.Repeat(a, 1+n&0xfff))
		r.URLPath, r.Cut = b, []string{a, b}
		r.Bound()
		if got := size(t, r); got > MaxSize {
			t.Errorf("%d bytes", got)
		}
		if utf8.ValidString(a) && !utf8.ValidString(r.Host) {
			t.Errorf("cut within a rune: %q", r.Host)
		}
	})
}

func BenchmarkBound(b *testing.B) {
	r := whole("a usual text")
	r.Flags, r.AllowedBy, r.WouldDeny, r.Actor, r.ActorBy, r.Action = nil, Object{}, Object{}, "", "", ""
	for b.Loop() {
		r.Bound()
	}
}

// TestShorten: the longest texts are cut, and said to be, until all fit; the record that it is a copy of keeps its own.
func TestShorten(t *testing.T) {
	r := Record{Proxy: "p", Class: HTTP, Host: "a.test", URLPath: "/" + strings.Repeat("x", 3000), Cut: make([]string, 0, 4)}
	short := r
	short.Shorten(500)
	if n := short.Texts(); n > 500 || short.Host != r.Host || !slices.Equal(short.Cut, []string{"urlPath"}) || !strings.HasSuffix(short.URLPath, "…") || len(r.URLPath) != 3001 {
		t.Errorf("%d bytes: %+v", n, short)
	}
}
