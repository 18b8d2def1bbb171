package registry

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
)

// compareTails orders hosts by their labels from the last one on, so that hosts below one name are beside each other, behind it.
func compareTails(a, b string) int {
	for {
		i, j := strings.LastIndexByte(a, '.'), strings.LastIndexByte(b, '.')
		switch c := strings.Compare(a[i+1:], b[j+1:]); {
		case c != 0:
			return c
		case i < 0 || j < 0:
			return cmp.Compare(i, j)
		}
		a, b = a[:i], b[:j]
	}
}

// below goes through the hosts below a name: exact ones and patterns, but not the name itself. It reads what the batch
// has put so far.
func (b *batch) below(name string, f func(host string)) {
	b.tails.From(name, func(host string, _ struct{}) bool {
		if host == name {
			return true
		}
		rest, is := strings.CutSuffix(host, name)
		if !is || !strings.HasSuffix(rest, ".") {
			return false
		}
		f(host)
		return true
	})
}

// settleNames brings what depends on how hosts' names lie to each other up to date, for the hosts whose registrations
// this batch sealed: the index of patterns, who sees something of their own, and which hosts beside have to be
// looked at again. A pattern is about all hosts below it.
func (b *batch) settleNames() {
	again := b.renamed
	for _, pattern := range slices.Collect(maps.Keys(again)) {
		if pattern != "" && pattern[0] == '*' { // whom it is foreign to may have changed, and what falls to it with that
			b.below(pattern[2:], func(lower string) { again[lower] = true })
		}
	}
	for host, was := range b.sealed {
		now, _ := b.hosts.Get(host)
		again[host] = true
		if host == "" || host[0] != '*' {
			continue
		}
		if len(now) == 0 {
			b.patterns.Delete(tailOf(host))
		} else {
			b.patterns.Put(tailOf(host), now)
		}
		of := namespacesOf(was, namespacesOf(now, nil))
		b.below(host[2:], func(lower string) {
			if list, _ := b.hosts.Get(lower); lower != host && (!only(list, of) || !b.coveredOnly(lower, of)) {
				again[lower] = true
			}
		})
	}
	for host := range again {
		if _, ok := b.sealed[host]; !ok {
			list, _ := b.hosts.Get(host)
			if len(list) == 0 {
				continue
			}
			b.beside[host] = true
			b.noteWritten(host, list, nil) // addresses that it shares may lead to it now, or no longer
		}
		b.countSpecial(host)
	}
}

func namespacesOf(list []*Service, into map[string]bool) map[string]bool {
	if into == nil {
		into = map[string]bool{}
	}
	for _, s := range list {
		into[s.Namespace] = true
	}
	return into
}

// only says whether all registrations are of the one namespace that is given.
func only(list []*Service, namespaces map[string]bool) bool {
	return len(namespaces) == 1 && !slices.ContainsFunc(list, func(s *Service) bool { return !namespaces[s.Namespace] })
}

// coveredOnly says whether all patterns that cover a host are of the one namespace that is given: then one of them more or
// less gives nobody another answer about the host.
func (b *batch) coveredOnly(host string, namespaces map[string]bool) bool {
	for p := above(host); p != ""; p = above(p) {
		if list, _ := b.patterns.Get(p); !only(list, namespaces) {
			return false
		}
	}
	return true
}

// countSpecial notes the namespaces that see something else of this host than everybody: those that a registration is
// exported to by name; where several namespaces registered the host or patterns that cover it, or its name is one of the
// cluster's, all of those that did; and those that decide how their own ports are read, or wrote addresses, which are theirs in
// their own eyes, whoever else wrote them.
func (b *batch) countSpecial(host string) {
	list, _ := b.hosts.Get(host)
	now := b.specialOf(host, list)
	was := b.specials[host]
	for v, more := range was {
		if still, there := now[v]; !there || still != more {
			b.countView(v.namespace, v.whose, -1, more)
		}
	}
	for v, more := range now {
		if before, there := was[v]; !there || before != more {
			b.countView(v.namespace, v.whose, +1, more)
		}
	}
	if len(now) == 0 {
		delete(b.specials, host)
	} else {
		b.specials[host] = now
	}
}

// viewer is a namespace that sees something else of a host than everybody, and the one whose object makes that so: itself, or who exports the host to it.
type viewer struct{ namespace, whose string }

// viewers are those of a host, and whether there is more to it than that the host has a shorter name in its own namespace.
type viewers map[viewer]bool

// note adds one, or replaces what was said of it.
func (v *viewers) note(namespace, whose string, more bool) {
	if *v == nil {
		*v = viewers{}
	}
	(*v)[viewer{namespace, whose}] = more
}

func (b *batch) specialOf(host string, list []*Service) (special viewers) {
	if len(list) == 0 {
		return nil
	}
	for _, s := range list {
		if s.Source.Kind == config.KindService {
			special.note(s.Namespace, s.Namespace, false)
		}
	}
	for _, s := range list {
		if !s.ExportTo.All {
			for _, ns := range s.ExportTo.Namespaces {
				if _, there := special[viewer{ns, s.Namespace}]; s.Unregistered && there {
					continue
				}
				special.note(ns, s.Namespace, !s.Unregistered) // the proxy of a node leaves that closed
			}
		}
	}
	together := len(list) > 1
	if b.patterns.Len() > 0 {
		in := namespacesOf(list, nil)
		for p := above(host); p != ""; p = above(p) {
			if over, _ := b.patterns.Get(p); len(over) > 0 {
				in = namespacesOf(over, in)
			}
		}
		if len(in) > 1 {
			for ns := range in {
				special.note(ns, ns, true)
			}
		}
	}
	names := clusterNames{kubeServices{b.kube.Keyed}, b.next.Mesh.RootNamespace}
	if slices.ContainsFunc(list, func(s *Service) bool { return registers(s.Source.Kind) && len(s.Addresses) > 0 }) { // these are the entry's where its name is not
		b.shortOf(host, func(ns string) { special.note(ns, ns, true) })
	}
	for _, s := range list {
		if together || names.has(s, "") || (registers(s.Source.Kind) && s.Namespace != names.root && (s.unusual() || len(s.Addresses) > 0)) {
			special.note(s.Namespace, s.Namespace, true)
		}
	}
	return special
}

// shortOf goes through the namespaces that have a Service of this name, where it is what they call that.
func (b *batch) shortOf(name string, yield func(namespace string)) {
	if strings.Contains(name, ".") {
		return
	}
	b.hosts.WalkPrefix(name+".", func(full string, _ []*Service) bool {
		ref, ok := RefOf(full)
		if _, there := b.kube.Get(ref); ok && there {
			yield(ref.Namespace)
		}
		return true
	})
}

// unusual says whether the service has ports at which it decides, for its own namespace, how they are read: see
// Snapshot.Readable.
func (s *Service) unusual() bool {
	return slices.ContainsFunc(s.Ports, func(p Port) bool {
		return p.Protocol != UDP && p.Number != 80 && p.Number != 443 && !ServerFirst(p.Number)
	})
}
