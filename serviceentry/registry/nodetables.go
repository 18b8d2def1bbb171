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

// RuleAtNodes is Rule for the tables that pods of all namespaces share at nodes. A rule that asks for TLS, and that is exported by name to a namespace
// without tables of its own, counts there for all: that namespace's pods would send in plain text what the rule says is not to be sent so. Only who
// registered the host can write such a rule (see Rule).
func (s *Snapshot) RuleAtNodes(svc *Service) *DestinationRule {
	return s.ruleForNodes(svc).countedFor(svc)
}

func (s *Snapshot) ruleForNodes(svc *Service) *DestinationRule {
	everybodys := s.uncrowded(s.ruleFor(svc, "", ""), svc)
	for candidate := tailOf(svc.Host); candidate != ""; candidate = widerRule(candidate) {
		rules, _ := s.rules.Get(candidate)
		for _, r := range rules {
			if r.Key.Namespace != svc.Namespace || !r.asksForTLS() {
				continue
			}
			for _, ns := range s.WithoutTables(svc.Namespace, r.ExportTo.Namespaces) {
				if s.ruleFor(svc, ns, "") == r {
					return s.uncrowded(r, svc).orTLSOf(everybodys, svc)
				}
			}
		}
	}
	return everybodys
}

// asksForTLS says whether the rule wraps anything in TLS, or would if it were not refused.
func (r *DestinationRule) asksForTLS() bool {
	if r.Refused != "" || r.TLS.asked() {
		return true
	}
	for _, t := range r.PortTLS {
		if t.asked() {
			return true
		}
	}
	return false
}

func (t *TLSSettings) asked() bool { return t != nil && t.Mode != TLSDisable }

// orTLSOf is the rule with the TLS of another one at those of a service's ports where it asks for none itself.
func (r *DestinationRule) orTLSOf(o *DestinationRule, svc *Service) *DestinationRule {
	if o == nil || r.Refused != "" || !o.asksForTLS() {
		return r
	}
	out := r.ownPorts()
	for _, p := range svc.Ports {
		if t := o.TLSFor(p.Number); t.asked() && !r.TLSFor(p.Number).asked() {
			out.PortTLS[p.Number] = t
		}
	}
	return out
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
