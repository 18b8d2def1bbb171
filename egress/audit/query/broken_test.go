package query

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

// endless are statements that take very long in one call of a function, or while they are planned.
var endless = map[string]string{
	"ilike":       "SELECT repeat('a', 60) ILIKE repeat('%a', 30) || '%b' || host FROM records",
	"levenshtein": "SELECT levenshtein(repeat('ab', 400000) || host, repeat('ba', 400000)) FROM records",
	"ors":         "SELECT count(*) FROM records WHERE false" + ors(25_000),
}

func ors(n int) string {
	var out []byte
	for range n {
		out = append(out, " OR port=1"...)
	}
	return string(out)
}

// TestEndlessStatementsAreBrokenOff: who goes away takes his statement along, whatever it is at, and the next one is answered.
func TestEndlessStatementsAreBrokenOff(t *testing.T) {
	s := filledStore(t, store.Options{}, sample()...)
	var group errgroup.Group
	for name, statement := range endless {
		group.Go(func() error {
			ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
			defer leave()
			ended := make(chan error, 1)
			began := time.Now()
			go func() { ended <- SQL(ctx, s.DB(), statement, &result{}) }()
			select {
			case err := <-ended:
				t.Logf("%s: %v: %v", name, time.Since(began).Round(time.Millisecond), err)
				return nil // how it ended is chance: a quick machine may have the answer to one of them
			case <-time.After(3 * time.Minute):
				return fmt.Errorf("%s goes on", name)
			}
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var got result
	if err := SQL(t.Context(), s.DB(), "SELECT count(*) FROM records", &got); err != nil || len(got.rows) != 1 {
		t.Errorf("afterwards: %v, %v", got.rows, err)
	}
	if err := s.Store(t.Context(), []record.Record{rec(1_000, nil)}); err != nil {
		t.Error(err)
	}
}

// TestDeepStatementsWithoutServer: who asks a folder that no server has is told, too, that a statement is nested too deep, in whatever thread it is.
func TestDeepStatementsWithoutServer(t *testing.T) {
	data := t.TempDir()
	s, err := store.Open(t.Context(), filepath.Join(data, StoreName), store.Options{Now: func() time.Time { return noon.Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), sample()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	source, err := Open(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	for range 3 { // there were two threads, and either of them may have been it
		for _, name := range []string{"like", "json_contains"} {
			if err := source.SQL(t.Context(), deepStatements[name], &result{}); err == nil {
				t.Errorf("%s was answered", name)
			}
		}
	}
}
