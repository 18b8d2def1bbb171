package translate_test

import (
	"slices"
	"strings"

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
