package review_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/egress/review"
	"github.com/sallyport/sallyport/egress/seen"
	"github.com/sallyport/sallyport/egress/suggest"
)

var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

func wait(host string) suggest.Wait {
	return suggest.Wait{Namespace: "shop", Account: "cart", Host: host, Port: 443, Why: "let through", Evidence: seen.Evidence{First: now, Last: now, Days: []int64{1}, Records: 3}}
}

func word(host, action string) review.Decision {
	return review.Decision{ID: review.ID("shop", "cart", host, 443), Action: action, At: now, By: "me", Namespace: "shop", Workload: "cart", Host: host, Port: 443}
}

func keep(t *testing.T, f review.Files, d review.Decision) {
	t.Helper()
	if err := f.Decide(t.Context(), func([]review.Decision) (review.Decision, error) { return d, nil }); err != nil {
		t.Fatal(err)
	}
}

// TestIdsOfTwo: whoever chooses hosts finds two with the same id. A word about the one says nothing about the other, and neither is decided by the id.
func TestIdsOfTwo(t *testing.T) {
	const one, other = "h4181941.test", "h33064555.test" // found by trying forty million
	id := review.ID("shop", "cart", one, 443)
	if id != review.ID("shop", "cart", other, 443) {
		t.Fatal("ids are made another way: look for two again")
	}
	items := review.Items([]suggest.Wait{wait(one), wait(other)}, nil, now)
	if _, err := review.Find(items, id, false); err == nil || !strings.Contains(err.Error(), one) || !strings.Contains(err.Error(), other) {
		t.Errorf("one of two is decided: %v", err)
	}
	items = review.Items([]suggest.Wait{wait(other)}, []review.Decision{word(one, review.StateApproved)}, now)
	if len(items) != 2 || items[0].Host != other || items[0].State != review.StateWaiting {
		t.Errorf("what nobody decided is %+v", items[0])
	}
}

func TestItems(t *testing.T) {
	snoozed, over := word("snoozed.test", review.StateSnoozed), word("over.test", review.StateSnoozed)
	snoozed.Until, over.Until = now.Add(time.Hour), now.Add(-time.Hour)
	decisions := []review.Decision{word("again.test", review.StateRejected), word("gone.test", review.StateApproved), snoozed, over, word("again.test", review.StateApproved)}
	items := review.Items([]suggest.Wait{wait("new.test"), wait("again.test"), wait("snoozed.test"), wait("over.test")}, decisions, now)
	got := ""
	for _, i := range items {
		got += i.Host + " " + i.State + ", "
	}
	if got != "new.test waiting, again.test approved, snoozed.test snoozed, over.test waiting, gone.test approved, " {
		t.Error(got)
	}
	for host, want := range map[string]string{"again.test": "decided already: approved by me", "gone.test": "waits no more", "never.test": "nothing with this id waits"} {
		if _, err := review.Find(items, review.ID("shop", "cart", host, 443), false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", host, err)
		}
	}
	for host, again := range map[string]bool{"new.test": false, "over.test": false, "again.test": true} {
		if i, err := review.Find(items, review.ID("shop", "cart", host, 443), again); err != nil || i.Host != host {
			t.Errorf("%s: %v", host, err)
		}
	}
}

func TestID(t *testing.T) {
	a := review.ID("shop", "cart", "a.test", 443)
	if a != "b9dd30d8802c" {
		t.Errorf("ids are for ever; this one is %s now", a)
	}
	for _, other := range []string{review.ID("shop", "cart", "a.test", 80), review.ID("shop", "front", "a.test", 443), review.ID("bank", "cart", "a.test", 443)} {
		if other == a {
			t.Error("two have one id")
		}
	}
	for text, want := range map[string]bool{a: true, "": false, a[1:]: false, strings.ToUpper(a): false, "../../../etc": false} {
		if review.IsID(text) != want {
			t.Error(text)
		}
	}
}

// TestTogether: of reviewers who decide at once nobody's word is lost, and each sees those before.
func TestTogether(t *testing.T) {
	f := review.Files{Dir: filepath.Join(t.TempDir(), "review")}
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			err := f.Decide(t.Context(), func(before []review.Decision) (review.Decision, error) {
				d := word(fmt.Sprintf("h%d.test", i), review.StateRejected)
				d.Records = uint64(len(before))
				return d, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := f.Read()
	if err != nil || len(got) != 20 {
		t.Fatal(len(got), err)
	}
	for i, d := range got {
		if d.Records != uint64(i) {
			t.Errorf("%d saw %d", i, d.Records)
		}
	}
}

// TestCutOff: a line that a kill or a full disk cut off is none, and the next one takes its place.
func TestCutOff(t *testing.T) {
	f := review.Files{Dir: t.TempDir()}
	keep(t, f, word("a.test", review.StateRejected))
	path := filepath.Join(f.Dir, "decisions.jsonl")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(text) {
		if err := os.WriteFile(path, append(text[:len(text):len(text)], text[:cut]...), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Read(); err != nil || len(got) != 1 {
			t.Fatalf("cut after %d: %v %v", cut, got, err)
		}
		keep(t, f, word("b.test", review.StateApproved))
		if got, err := f.Read(); err != nil || len(got) != 2 || got[1].Host != "b.test" {
			t.Fatalf("cut after %d: %v %v", cut, got, err)
		}
	}
}

func TestRefused(t *testing.T) {
	f := review.Files{Dir: t.TempDir()}
	no := errors.New("no")
	if err := f.Decide(t.Context(), func([]review.Decision) (review.Decision, error) { return review.Decision{}, no }); !errors.Is(err, no) {
		t.Error(err)
	}
	if got, err := f.Read(); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	if err := os.WriteFile(filepath.Join(f.Dir, "decisions.jsonl"), []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(); err == nil || !strings.Contains(err.Error(), "decisions.jsonl:1") {
		t.Error(err)
	}
	for _, bad := range []string{strings.Repeat("x", 257), "a\nb", "a\x1b[31m"} {
		if review.CheckReason(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestBounded(t *testing.T) {
	f := review.Files{Dir: t.TempDir(), Most: 10}
	for i := range 25 {
		keep(t, f, word(fmt.Sprintf("h%d.test", i), review.StateRejected))
	}
	got, err := f.Read()
	if err != nil || len(got) > 10 || got[len(got)-1].Host != "h24.test" {
		t.Error(len(got), err)
	}
	if _, err := os.Stat(filepath.Join(f.Dir, "decisions.1.jsonl")); err != nil {
		t.Error(err)
	}
}

// TestNobodyWaitsForever: who waits for somebody else's word waits as long as their context, and nothing is done for them then.
func TestNobodyWaitsForever(t *testing.T) {
	f := review.Files{Dir: t.TempDir()}
	err := f.Decide(t.Context(), func([]review.Decision) (review.Decision, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if err := f.Decide(ctx, func([]review.Decision) (review.Decision, error) {
			t.Error("two decide at the same time")
			return word("b.test", review.StateRejected), nil
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		return word("a.test", review.StateRejected), nil
	})
	if got, unread := f.Read(); err != nil || unread != nil || len(got) != 1 {
		t.Error(got, err, unread)
	}
}

// TestDigest: it is another one where anything else would be written, or written over something else, and the same otherwise.
func TestDigest(t *testing.T) {
	object := func(host string) *config.Object {
		read := decode.File("x.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: x, namespace: shop}\nspec: {hosts: ["+host+"], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n"))
		return &read.Objects[0]
	}
	seen := map[string]bool{}
	for _, changes := range [][]suggest.Change{
		{{After: object("a.test")}}, {{After: object("b.test")}}, {{Before: object("b.test"), After: object("a.test")}}, {{Before: object("c.test"), After: object("a.test")}},
		{{After: object("a.test")}, {After: object("b.test")}}, {{After: object("b.test")}, {After: object("a.test")}},
	} {
		one, err := review.Digest(changes)
		two, again := review.Digest(changes)
		if err != nil || again != nil || one != two || len(one) != 32 || seen[one] {
			t.Error(one, two, err, again)
		}
		seen[one] = true
	}
}
