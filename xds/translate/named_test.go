package translate_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	rows "github.com/sallyport/sallyport/xds/digest"
	"github.com/sallyport/sallyport/xds/ondemand"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// byName is the same sidecar, whose agent asks for rows by name.
func byName(n translate.Node) translate.Node {
	n.Fetch, n.Named = ondemand.OnUse, true
	return n
}

// holdDigest: who has a view's digest has it whole, and finds by it every domain of every row; and by each of them the view has the row.
func (l *trial) holdDigest(v *translate.View) {
	l.Helper()
	if !v.Class.Named {
		if n := v.Len(resource.Digest); n > 0 {
			l.fail("%d resources of a digest for %+v, which does not ask by name", n, v.Class)
		}
		return
	}
	set := &rows.Set{}
	v.Walk(resource.Digest, func(r *resource.Resource) bool {
		if err := set.Put(r.Name, r.Value()); err != nil {
			l.fail("%v", err)
		}
		return true
	})
	if !set.Whole() {
		l.fail("the digest of %+v does not add up", v.Class)
	}
	v.Walk(resource.VirtualHost, func(row *resource.Resource) bool {
		table, host, _ := strings.Cut(row.Name, "/")
		if host == ondemand.FirstRow {
			return true
		}
		rows.Domains(row.Name, row.Value(), func(domain string) {
			if !set.May(table, domain) {
				l.fail("the digest says that nothing is for %s in table %s, and %s is", domain, table, row.Name)
			}
			if found, ok := v.Row(table + "/" + domain); !ok || (found.Name != row.Name && domain != host) {
				l.fail("%s/%s leads to no row, and is of %s", table, domain, row.Name)
			}
			for _, pattern := range v.PatternsOver(row.Name) {
				if over, ok := v.Get(resource.VirtualHost, pattern); ok && !slices.Contains(v.Below(over.Name), row.Name) {
					l.fail("%s is below %s by %s, and it is not said", row.Name, over.Name, domain)
				}
			}
		})
		return true
	})
}

// TestDigestOfManyOwnHosts: a view that differs from everybody's in many hosts says the same of rows as one that stands alone, as it is made and after changes.
func TestDigestOfManyOwnHosts(t *testing.T) {
	const own, others = 1200, 1800
	cfg := mesh.Default()
	r := registry.New(&cfg)
	var all []config.Change
	for i := range own {
		all = append(all, entryFor("shop", fmt.Sprintf("own-%d", i), "."))
	}
	for i := range others {
		all = append(all, entryFor("bank", fmt.Sprintf("other-%d", i), "*"))
	}
	s, _ := r.Apply(all)
	common := translate.Class{Fetch: true, Named: true}
	class := common
	class.View = s.View("shop")
	tr := translate.NewTranslator()
	everybody := tr.Build(s, common)
	over := tr.BuildOver(everybody, s, class)
	if over.Alone() {
		t.Fatal("it stands alone")
	}
	digestOf := func(v *translate.View) map[string]string {
		out := map[string]string{}
		v.Walk(resource.Digest, func(r *resource.Resource) bool {
			out[r.Name] = string(r.Value())
			return true
		})
		return out
	}
	for i := range 20 {
		if want := digestOf(translate.NewTranslator().Build(s, class)); !maps.Equal(digestOf(over), want) {
			t.Fatalf("after %d changes its digest is another than of one that stands alone", i)
		}
		ns, to := "shop", "."
		if i%2 == 0 {
			ns, to = "bank", "*"
		}
		c := entryFor(ns, fmt.Sprintf("%s-%d", map[string]string{"shop": "own", "bank": "new"}[ns], i), to)
		if i%4 == 3 {
			c.Object = nil
		}
		var changed registry.Changed
		s, changed = r.Apply([]config.Change{c})
		tr.Forget(changed)
		next, refs := tr.Update(everybody, s, changed)
		over, _ = tr.UpdateOver(over, next, refs, s, changed)
		everybody = next
	}
}
