package registry

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
)

// Alias is a Kubernetes Service of type ExternalName: another name for a host, which has to be registered itself, as in
// Istio. Its own ports mean nothing.
type Alias struct {
	Ref      Ref
	Target   string // a host, in canonical form; it may be an alias too
	ExportTo ExportTo
	Source   config.Key
	Created  time.Time
}

// MostAliases is how many aliases may lead to each other.
const MostAliases = 8

// MostAliasesOf is how many aliases of one host count, of each namespace: the oldest. Each is three more names in the rows of the host, which may be somebody else's, and one in the
// DNS, of all proxies that know it.
const MostAliasesOf = 64

// aliasFrom reads a Service; nil for one of another type.
func aliasFrom(o *config.Object, defaultExportTo []string) *Alias {
	spec, ok := o.Spec.(*corev1.Service)
	if !ok || spec.Spec.Type != corev1.ServiceTypeExternalName {
		return nil
	}
	if _, err := host.ParseExact(CanonicalHost(spec.Spec.ExternalName)); err != nil {
		return nil // admission refuses it, or it is an address, which is no other name
	}
	return &Alias{
		Ref: Ref{o.Namespace, o.Name}, Target: CanonicalHost(spec.Spec.ExternalName), Source: o.Key, Created: o.Created,
		ExportTo: exportTo(splitList(o.Annotations[exportAnnotation]), o.Namespace, defaultExportTo),
	}
}

// AliasAt finds the alias by its full name, if it counts and a workload in ns sees it.
func (s *Snapshot) AliasAt(host, ns string, scope *SidecarScope) *Alias {
	a, ok := s.aliases.Get(host)
	if !ok || !s.counts(a) || !a.ExportTo.Includes(ns) || !scope.Sees(ns, &Service{Host: host, Namespace: a.Ref.Namespace, Traits: &Traits{}}, 0) || s.Visible(host, ns, scope) != nil {
		return nil
	}
	return a
}

// counts says whether it is one of those of its target that count.
func (s *Snapshot) counts(a *Alias) bool {
	list, _ := s.aliasesOf.Get(a.Target)
	_, is := slices.BinarySearchFunc(list, a.Ref, compareRefs)
	return is
}

// AliasEnd follows aliases, whoever sees them, as the cluster's DNS does; a host that is none is its own.
func (s *Snapshot) AliasEnd(host string) string {
	for range MostAliases {
		a, ok := s.aliases.Get(host)
		if !ok {
			break
		}
		host = a.Target
	}
	return host
}

// Aliased follows aliases from a full name to the host that is meant; "" where there is no alias that counts.
func (s *Snapshot) Aliased(host, ns string, scope *SidecarScope) string {
	var first *Alias
	target := ""
	for n := range MostAliases {
		a := s.AliasAt(host, ns, scope)
		switch {
		case a == nil && n > 1 && !slices.Contains(s.Aliases(target, ns, scope), first.Ref):
			return ""
		case a == nil:
			return target
		case n == 0:
			first = a
		}
		host, target = a.Target, a.Target
	}
	return ""
}

// Aliases are those that lead to a host in the eyes of a workload in ns, in order of their names: of each namespace as many as count, those first that lead there themselves.
func (s *Snapshot) Aliases(host, ns string, scope *SidecarScope) []Ref {
	var out []Ref
	has, of := map[Ref]bool{}, map[string]int{}
	level := []string{host}
	for range MostAliases {
		var next []string
		for _, target := range level {
			refs, _ := s.aliasesOf.Get(target)
			for _, ref := range refs {
				if of[ref.Namespace] < MostAliasesOf && !has[ref] && s.AliasAt(ref.Host(), ns, scope) != nil {
					has[ref] = true
					of[ref.Namespace]++
					out, next = append(out, ref), append(next, ref.Host())
				}
			}
		}
		if level = next; len(level) == 0 {
			break
		}
	}
	slices.SortFunc(out, compareRefs)
	return out
}

func compareRefs(a, b Ref) int {
	switch {
	case a.String() < b.String():
		return -1
	case a == b:
		return 0
	default:
		return 1
	}
}

// setAlias brings the alias that a Service is, or was, up to date, and marks the hosts that it led to and leads to.
func (b *batch) setAlias(c config.Change) {
	ref := Ref{c.Key.Namespace, c.Key.Name}
	var now *Alias
	if c.Object != nil {
		now = aliasFrom(c.Object, b.next.Mesh.DefaultServiceExportTo)
	}
	if old, ok := b.aliases.Get(ref.Host()); ok {
		b.countAliasViews(old, -1)
		b.touchAliased(ref.Host())
		b.putAliasOf(old, false)
		b.aliases.Delete(ref.Host())
	}
	if now != nil {
		b.countAliasViews(now, +1)
		b.aliases.Put(ref.Host(), now)
		b.putAliasOf(now, true)
		b.touchAliased(ref.Host())
	}
}

// countAliasViews counts the namespaces that know an alias by names that others do not: its own, where it has a shorter one, or is kept from others, and those
// that it is exported to by name.
func (b *batch) countAliasViews(a *Alias, by int) {
	b.countView(a.Ref.Namespace, a.Ref.Namespace, by, !a.ExportTo.All && a.ExportTo.Includes(a.Ref.Namespace))
	if a.ExportTo.All {
		return
	}
	for _, ns := range a.ExportTo.Namespaces {
		if ns != a.Ref.Namespace {
			b.countView(ns, a.Ref.Namespace, by, true)
		}
	}
}

// aliasKey is where an alias stands among those of its target: those of a namespace together, the oldest first.
type aliasKey struct {
	target, namespace string
	created           int64 // Unix time
	name              string
}

func (k aliasKey) compare(other aliasKey) int {
	return cmp.Or(cmp.Compare(k.target, other.target), cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.created, other.created), cmp.Compare(k.name, other.name))
}

func (a *Alias) key() aliasKey {
	return aliasKey{a.Target, a.Ref.Namespace, a.Created.Unix(), a.Ref.Name}
}

// putAliasOf notes an alias with its target, or takes it out there, and finds those of its namespace that count.
func (b *batch) putAliasOf(a *Alias, is bool) {
	if is {
		b.index.aliases.Put(a.key(), a.Ref)
	} else {
		b.index.aliases.Delete(a.key())
	}
	old, _ := b.aliasesOf.Get(a.Target)
	list := slices.DeleteFunc(slices.Clone(old), func(r Ref) bool { return r.Namespace == a.Ref.Namespace })
	n := 0
	b.index.aliases.From(aliasKey{target: a.Target, namespace: a.Ref.Namespace, created: math.MinInt64}, func(k aliasKey, ref Ref) bool {
		if k.target != a.Target || k.namespace != a.Ref.Namespace {
			return false
		}
		list, n = append(list, ref), n+1
		return n < MostAliasesOf
	})
	if len(list) == 0 {
		b.aliasesOf.Delete(a.Target)
		return
	}
	slices.SortFunc(list, compareRefs)
	b.aliasesOf.Put(a.Target, list)
}

// touchAliased marks the hosts that an alias leads to.
func (b *batch) touchAliased(host string) {
	for range MostAliases {
		a, ok := b.aliases.Get(host)
		if !ok {
			return
		}
		b.beside[a.Target] = true
		host = a.Target
	}
}
