package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
)

// served is what an issuer serves; "" where it is away.
type served struct{ text atomic.Value }

func (s *served) set(text string) { s.text.Store(text) }

func (s *served) get() string {
	text, _ := s.text.Load().(string)
	return text
}

// keeping is a fetcher with a folder; fetch gives what keys serves.
func keeping(folder string, keys *served) *Fetcher {
	f := NewFetcher(slog.New(slog.DiscardHandler), func(text string) (string, error) {
		if text == "none" {
			return "", errors.New("no keys")
		}
		return text, nil
	})
	f.Folder = folder
	f.fetch = func(context.Context, Source, inside.Allowed) (string, error) {
		if keys.get() == "" {
			return "", errors.New("away")
		}
		return keys.get(), nil
	}
	return f
}

var keptSource = Source{Key: config.Key{Kind: config.KindKeySet, Namespace: "shop", Name: "https://a.test/../keys"}, URI: "https://a.test/../keys"}

// first runs a fetcher until it has told of all that is wanted, and gives the set.
func first(t *testing.T, f *Fetcher) (text string) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	go f.Run(ctx)
	f.Want(ctx, []Wanted{{Source: keptSource}})
	for tried := false; !tried; {
		b := <-f.Batches()
		tried = b.Tried
		for _, c := range b.Changes {
			if text = ""; c.Object != nil {
				text = c.Object.Spec.(string)
			}
		}
	}
	end()
	synctest.Wait()
	return text
}

// TestKept: who starts while an issuer is away has the keys that were fetched before, for a day; what somebody broke, and what nobody wants any more, is
// not there.
func TestKept(t *testing.T) {
	for name, c := range map[string]struct {
		after  time.Duration
		breaks func(t *testing.T, folder string)
		now    string
		want   string
	}{
		"away":          {want: "keys of a"},
		"away for long": {after: oldest - time.Second, want: "keys of a"},
		"for too long":  {after: oldest},
		"it has others": {now: "keys of b", want: "keys of b"},
		"broken":        {breaks: func(t *testing.T, folder string) { overwrite(t, folder, "{") }},
		"another's": {breaks: func(t *testing.T, folder string) {
			overwrite(t, folder, `{"Namespace":"other","Fetched":"2000-01-01T00:00:00Z","Keys":"theirs"}`)
		}},
		"of the future": {breaks: func(t *testing.T, folder string) {
			overwrite(t, folder, `{"Namespace":"shop","URI":"https://a.test/../keys","Fetched":"2100-01-01T00:00:00Z","Keys":"theirs"}`)
		}},
		"no keys are kept": {breaks: func(t *testing.T, folder string) {
			overwrite(t, folder, `{"Namespace":"shop","URI":"https://a.test/../keys","Fetched":"2000-01-01T00:00:00Z","Keys":"none"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "keys")
			synctest.Test(t, func(t *testing.T) {
				keys := &served{}
				keys.set("keys of a")
				if got := first(t, keeping(folder, keys)); got != keys.get() {
					t.Fatalf("fetched: %q", got)
				}
				if c.breaks != nil {
					c.breaks(t, folder)
				}
				time.Sleep(c.after) // time of the bubble
				keys.set(c.now)
				if got := first(t, keeping(folder, keys)); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		})
	}
}

func overwrite(t *testing.T, folder, text string) {
	t.Helper()
	all, err := os.ReadDir(folder)
	if err != nil || len(all) != 1 {
		t.Fatalf("%d files (%v)", len(all), err)
	}
	if err := os.WriteFile(filepath.Join(folder, all[0].Name()), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTrustedForADay: keys that cannot be fetched again are taken back after a day, and come again with the issuer.
func TestTrustedForADay(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keys")
	synctest.Test(t, func(t *testing.T) {
		keys := &served{}
		keys.set("keys of a")
		f := keeping(folder, keys)
		go f.Run(t.Context())
		f.Want(t.Context(), []Wanted{{Source: keptSource}})
		began := time.Now()
		next := func() config.Change {
			for {
				if b := <-f.Batches(); len(b.Changes) > 0 {
					return b.Changes[0]
				}
			}
		}
		if c := next(); c.Object == nil {
			t.Fatal("no keys")
		}
		synctest.Wait()
		keys.set("")
		if c := next(); c.Object != nil || time.Since(began) != oldest {
			t.Errorf("after %s: %+v", time.Since(began), c)
		}
		if all, err := os.ReadDir(folder); err != nil || len(all) > 0 {
			t.Errorf("%d files stay (%v)", len(all), err)
		}
		keys.set("keys of b")
		if c := next(); c.Object == nil || c.Object.Spec != keys.get() {
			t.Errorf("%+v", c)
		}
		f.Want(t.Context(), nil)
		if c := next(); c.Object != nil {
			t.Errorf("%+v", c)
		}
		synctest.Wait()
		if all, err := os.ReadDir(folder); err != nil || len(all) > 0 {
			t.Errorf("%d files stay of what nobody wants (%v)", len(all), err)
		}
	})
}

// TestKeptAreBounded: sets of a namespace beyond its room, and of all beyond that of all, are not kept, nor what they were before; another's are.
func TestKeptAreBounded(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "keys")
	keys := &served{}
	f := keeping(folder, keys)
	setOf := func(ns, name, text string) *set {
		return &set{Wanted: Wanted{Source: Source{Key: config.Key{Kind: config.KindKeySet, Namespace: ns, Name: name}, URI: name}}, text: text, fetched: time.Now()}
	}
	there := func() (n int, size int64) {
		all, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			about, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			size += about.Size()
		}
		return len(all), size
	}
	plain, escaped := strings.Repeat("k", 1<<20), strings.Repeat("<", 1<<20)
	var of []*set
	for i := range 5 {
		s := setOf("much", fmt.Sprint(i), plain)
		f.keep(s)
		of = append(of, s)
	}
	f.keep(setOf("escaped", "a", escaped))
	if n, size := there(); n != 3 || size > mostKeptOf {
		t.Errorf("%d sets of %d bytes are kept, want 3: their frames count", n, size)
	}
	of[0].text = escaped
	if f.keep(of[0]); !of[0].unkept {
		t.Error("what has grown out of the room is kept")
	}
	f.keep(of[3])
	if n, _ := there(); n != 3 || of[3].unkept {
		t.Errorf("%d sets are kept, want 3: what one leaves is another's", n)
	}
	for i := range 3 * mostKept / mostKeptOf {
		for j := range 3 {
			f.keep(setOf(fmt.Sprint("n", i), fmt.Sprint(j), plain))
		}
	}
	if n, size := there(); size > mostKept || size < mostKept-(1<<21) || f.disk.all != int(size) {
		t.Errorf("%d sets of %d bytes are kept, and %d counted", n, size, f.disk.all)
	}

	again := keeping(folder, keys)
	for _, s := range of {
		s.text = ""
		again.restore(s)
	}
	if of[0].text != "" || of[1].text != plain || of[2].text != plain || of[3].text != plain || again.disk.of["much"] != f.disk.of["much"] {
		t.Errorf("others are restored: %d bytes, want %d", again.disk.of["much"], f.disk.of["much"])
	}
	for _, s := range of {
		again.drop(s.Source)
	}
	if again.disk.all != 0 || len(again.disk.of) != 0 || len(again.disk.sizes) != 0 {
		t.Errorf("%+v", again.disk)
	}
}
