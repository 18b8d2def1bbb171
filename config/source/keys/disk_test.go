package keys

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/inside"
)

// keeping is a fetcher with a folder; fetch gives what keys says, or fails where that is "".
func keeping(folder string, keys *string) *Fetcher {
	f := NewFetcher(slog.New(slog.DiscardHandler), func(text string) error {
		if text == "none" {
			return errors.New("no keys")
		}
		return nil
	})
	f.Folder = folder
	f.fetch = func(context.Context, Source, inside.Allowed) (string, error) {
		if *keys == "" {
			return "", errors.New("away")
		}
		return *keys, nil
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
				keys := "keys of a"
				if got := first(t, keeping(folder, &keys)); got != keys {
					t.Fatalf("fetched: %q", got)
				}
				if c.breaks != nil {
					c.breaks(t, folder)
				}
				time.Sleep(c.after) // time of the bubble
				keys = c.now
				if got := first(t, keeping(folder, &keys)); got != c.want {
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
		keys := "keys of a"
		f := keeping(folder, &keys)
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
		keys = ""
		if c := next(); c.Object != nil || time.Since(began) != oldest {
			t.Errorf("after %s: %+v", time.Since(began), c)
		}
		if all, err := os.ReadDir(folder); err != nil || len(all) > 0 {
			t.Errorf("%d files stay (%v)", len(all), err)
		}
		keys = "keys of b"
		if c := next(); c.Object == nil || c.Object.Spec != keys {
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
