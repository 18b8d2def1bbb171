package query

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/egress/audit/store"
)

func ors(n int) string {
	var out []byte
	for range n {
		out = append(out, " OR port=1"...)
	}
	return string(out)
}

// TestEndlessPlansAreBrokenOff: who goes away takes his statement along though it is planned for minutes, and the next one is answered.
func TestEndlessPlansAreBrokenOff(t *testing.T) {
	s := filledStore(t, store.Options{}, sample()...)
	ctx, leave := context.WithTimeout(t.Context(), 5*time.Second)
	defer leave()
	ended := make(chan error, 1)
	go func() { ended <- SQL(ctx, s.DB(), "SELECT count(*) FROM records WHERE false"+ors(25_000), &result{}) }()
	select {
	case <-ended: // how is chance: a quick machine may have the answer
	case <-time.After(3 * time.Minute):
		t.Fatal("it goes on")
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
