package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/keys"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Keys that cannot be fetched are told to the RequestAuthentication that wants them, by the rule, and are measured by their host.
func TestKeysThatCannotBeFetchedAreSaid(t *testing.T) {
	read := decode.File("a.yaml", []byte(`apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: shop}
spec:
  jwtRules:
  - {issuer: "https://a.test", jwksUri: "https://keys.a.test/keys"}
  - {issuer: "https://b.test"}
`))
	if len(read.Findings) > 0 {
		t.Fatal(read.Findings)
	}
	cfg := mesh.Default()
	p := &plane{registry: registry.New(&cfg), known: newInventory()}
	changes := []config.Change{{Key: read.Objects[0].Key, Object: &read.Objects[0]}}
	p.known.apply(changes)
	s, changed := p.registry.Apply(changes)
	p.snapshot.Store(s)
	words := func() string {
		t.Helper()
		d, told := p.details(s, changes, changed)[read.Objects[0].Key]
		if !told {
			t.Fatal("nothing is told")
		}
		return fmt.Sprint(d.Warnings)
	}
	if got := words(); got != "[]" {
		t.Error(got)
	}
	ours, theirs := config.Key{Kind: config.KindKeySet, Namespace: "shop", Name: "https://keys.a.test/keys"}, config.Key{Kind: config.KindKeySet, Namespace: "other", Name: "https://keys.a.test/keys"}
	issuer := config.Key{Kind: config.KindKeySet, Namespace: "shop", Name: "issuer https://b.test"}
	p.noteFailing(map[config.Key]keys.Failure{
		ours:   {URI: "https://keys.a.test/keys", Err: "https://keys.a.test/keys answers 503 Service Unavailable", Until: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)},
		issuer: {URI: "https://b.test", Err: "no such host"}, theirs: {URI: "https://keys.a.test/keys", Err: "theirs"},
	})
	got := words()
	for _, want := range []string{
		"spec.jwtRules[0].jwksUri", "answers 503", "those that were fetched last count until 2030-01-02T03:04:05Z", "reaches keys.a.test",
		"spec.jwtRules[1].issuer", "no such host", "no token of this issuer is good", "sallyport.dns.allowPrivate",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "theirs") {
		t.Errorf("another namespace's is told: %s", got)
	}
	if got, want := measured(t, keyFailures(p.failing)), []string{"host=keys.a.test,namespace=other 1", "host=b.test,namespace=shop 1", "host=keys.a.test,namespace=shop 1"}; !same(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	many := map[config.Key]keys.Failure{{Kind: config.KindKeySet, Namespace: "zoo", Name: "z"}: {URI: "https://z.test"}, {Kind: config.KindKeySet, Namespace: "odd", Name: "o"}: {URI: "https://%ff.example/"}}
	for i := range 12 {
		many[config.Key{Kind: config.KindKeySet, Namespace: "much", Name: fmt.Sprint(i)}] = keys.Failure{URI: fmt.Sprintf("https://%02d.test", i)}
	}
	list := measured(t, keyFailures(func() map[config.Key]keys.Failure { return many }))
	if len(list) != 13 || !slices.Contains(list, "host=,namespace=much 2") || !slices.Contains(list, "host=z.test,namespace=zoo 1") || !slices.Contains(list, "host=\uFFFD.example,namespace=odd 1") {
		t.Errorf("%d: %q", len(list), list)
	}
	if p.noteFailing(nil); words() != "[]" {
		t.Error("what is mended stays said")
	}
}

func same(a, b []string) bool {
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
