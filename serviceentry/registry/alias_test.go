package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// aliasYAML is a Service that is another name of a host; the lower its age, the older it is.
func aliasYAML(id, of string, age int) string {
	ns, name, _ := strings.Cut(id, "/")
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s, creationTimestamp: \"2020-01-01T00:%02d:%02dZ\"}\nspec: {type: ExternalName, externalName: %s}\n", name, ns, age/60, age%60, of)
}

// TestAliasesAreBounded: of the other names that a namespace has for a host the oldest count, and no other namespace's are left out for them.
func TestAliasesAreBounded(t *testing.T) {
	w := newWorld(t, entryYAML("shop/a", "a.com", httpPort))
	var many []string
	for i := range registry.MostAliasesOf + 2 {
		many = append(many, aliasYAML(fmt.Sprintf("evil/n%d", i), "a.com", registry.MostAliasesOf+2-i)) // n0 is the youngest
	}
	w.apply(strings.Join(many, ""))
	w.apply(aliasYAML("shop/own", "a.com", 3000))
	has := func(what, name string, want bool) {
		t.Helper()
		s := w.Snapshot()
		ns, short, _ := strings.Cut(name, "/")
		full := short + "." + ns + ".svc.cluster.local"
		if got := slices.Contains(s.Aliases("a.com", "shop", nil), registry.Ref{Namespace: ns, Name: short}); got != want {
			t.Errorf("%s: %s is another name: %v", what, name, got)
		}
		if got := s.Aliased(full, "shop", nil); (got == "a.com") != want {
			t.Errorf("%s: %s leads to %q", what, name, got)
		}
	}
	check := func(what string, n int) {
		t.Helper()
		if got := len(w.Snapshot().Aliases("a.com", "shop", nil)); got != n {
			t.Errorf("%s: %d names, want %d", what, got, n)
		}
	}
	const most = registry.MostAliasesOf
	check("too many", most+1)
	has("too many", "evil/n0", false)
	has("too many", "evil/n1", false)
	has("too many", "evil/n2", true)
	has("too many", "shop/own", true)

	w.apply(aliasYAML("evil/n0", "b.com", 0))
	check("one leads elsewhere", most+1)
	w.remove(many[most])
	check("one goes", most+1)
	has("one goes", "evil/n1", true)
	w.apply(aliasYAML("evil/n0", "a.com", 0)) // the oldest comes back
	has("an older one comes", "evil/n0", true)
	has("an older one comes", "evil/n1", false)

	var chained []string
	for i := range 40 {
		chained = append(chained, aliasYAML(fmt.Sprintf("evil/c%d", i), "own.shop.svc.cluster.local", 0))
	}
	w.apply(strings.Join(chained, ""))
	check("names of names", most+1)
	has("a name of a name", "evil/c0", false)
	w.apply(aliasYAML("else/c", "own.shop.svc.cluster.local", 0))
	has("another's name of a name", "else/c", true)
}
