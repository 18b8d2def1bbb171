package console

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/query"
	"github.com/sallyport/sallyport/egress/console/login"
)

// TestPagesSayTheSameOfRollups: a page made of roll-ups is, to the letter, the one made of records.
func TestPagesSayTheSameOfRollups(t *testing.T) {
	s := stored(t, scene(t))
	h := console(t, s, nil)
	pages := map[string]string{}
	for _, q := range []string{"since:24h", "since:20h until:3h", "verdict:denied since:24h", "workload:shop since:12h", "workload:shop/cart since:24h", "host:*.example since:24h", "policy:shop/* since:24h", "method:GET since:24h", "class:gap since:24h"} {
		for _, path := range []string{"/?", "/log?", "/log?group=host&", "/log?group=domain&", "/log?group=workload&", "/log?group=rule&", "/log?group=reason&", "/log?group=way&", "/log?group=address&", "/log?group=pod&", "/log?group=port&",
			"/flows?", "/flows?by=bytes&", "/host?name=api.partner.example&", "/workload?name=shop/cart&"} {
			page := path + "q=" + url.QueryEscape(q)
			pages[page] = body(t, h, page)
			if strings.Contains(strings.ReplaceAll(pages[page], "\u202f", " "), "18 446 744") {
				t.Errorf("%s: a sum of nothing is the largest number", page)
			}
		}
	}
	if err := s.Gather(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows, records int
	if err := s.DB().QueryRow("SELECT count(*), sum(records)::INTEGER FROM rollups").Scan(&rows, &records); err != nil || records != len(scene(t)) {
		t.Fatalf("%d roll-ups of %d records, %v", rows, records, err)
	}
	for page, want := range pages {
		if got := body(t, h, page); got != want {
			t.Errorf("%s: %s", page, cmp.Diff(want, got))
		}
	}
}

// TestSumsKeepToNamespaces: a sum that does not keep to a reader's namespaces is not asked.
func TestSumsKeepToNamespaces(t *testing.T) {
	h := &handler{Options: Options{DB: stored(t, scene(t)).DB()}}
	if err := h.sums(context.WithValue(t.Context(), readerKey{}, login.Reader{Name: "owner", Namespaces: []string{"shop"}}), query.Sums{Statement: func(string) string { t.Error("it was asked"); return "" }}, nil); err == nil {
		t.Error("it was answered")
	}
}
