package registry

import (
	"maps"
	"slices"
)

// At the proxies of nodes a namespace that sees something else than everybody has tables of its own, with a row for each host
// (docs/adr/0074-a-nodes-tables-by-namespace.md). What others export to it by name is such a thing, and costs every node that has its pods. So of what one
// namespace makes others see only some of those have tables for it (docs/adr/0085-tables-that-others-ask-for.md).

// TablesAtNodes says whether a namespace has tables of its own at nodes: for its own objects' sake or the root namespace's, or for the sake of another's
// that may still ask for some. One that sees something else than everybody and has none shares everybody's.
func (s *Snapshot) TablesAtNodes(ns string) bool { return s.atNodes[ns] }

// WithoutTables are, of namespaces that one exports something to by name, those that have no tables at nodes, whose pods without sidecars do not have it.
func (s *Snapshot) WithoutTables(exporter string, to []string) (out []string) {
	for _, ns := range to {
		if ns != exporter && s.Different(ns) && !s.TablesAtNodes(ns) {
			out = append(out, ns)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// countReason adds a reason for tables, or takes one away. Only what it is about is copied.
func (b *batch) countReason(ns, whose string, by int) {
	if b.reasonsOf == nil {
		b.next.reasons, b.reasonsOf = maps.Clone(b.next.reasons), map[string]map[string]int{}
	}
	of := b.reasonsOf[whose]
	if of == nil {
		if of = maps.Clone(b.next.reasons[whose]); of == nil {
			of = map[string]int{}
		}
		b.reasonsOf[whose] = of
	}
	count(of, ns, by, &b.changed.Views)
	if b.next.reasons[whose] = of; len(of) == 0 {
		delete(b.next.reasons, whose)
	}
}

// settleTables says who has tables at nodes.
func (b *batch) settleTables() {
	if b.reasonsOf == nil && !b.changed.Mesh {
		return
	}
	now := b.next.tablesAtNodes()
	if !maps.Equal(now, b.snap.atNodes) {
		b.next.atNodes, b.changed.Views = now, true
	}
}

func (s *Snapshot) tablesAtNodes() map[string]bool {
	own := map[string]bool{}
	for ns := range s.different {
		if s.reasons[ns][ns] > 0 || s.reasons[s.Mesh.RootNamespace][ns] > 0 {
			own[ns] = true
		}
	}
	all := maps.Clone(own)
	for whose, of := range s.reasons {
		left := s.Mesh.ExportedTables
		for _, ns := range slices.Sorted(maps.Keys(of)) {
			if own[ns] || whose == s.Mesh.RootNamespace {
				continue
			}
			if left == 0 {
				break
			}
			left--
			all[ns] = true
		}
	}
	return all
}
