package registry

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// MostLeads is how many ports of endpoints lead to pods by the ServiceEntries of one namespace. Entries that would go beyond, in order of age, say nothing
// about what comes to its pods: see Snapshot.Beyond.
const MostLeads = 50_000

// podAddress is where entries lead to: a pod's address, as far as a namespace's entries say so.
type podAddress struct {
	namespace string
	address   netip.Addr
}

// podEntry is an entry that leads there, by one of its endpoints. It stands for all hosts of the entry.
type podEntry struct {
	*Service
	endpoint int
}

// arriving is who leads where; each list in order of Service.compare and the endpoints.
type arriving = ordered.Keyed[podAddress, []podEntry]

func newArriving() arriving {
	return ordered.NewKeyed[podAddress, []podEntry](func(a, b podAddress) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), a.address.Compare(b.address))
	})
}

// leads goes through where an entry leads to, by its endpoints.
func (s *Service) leads(to func(at podAddress, endpoint int)) {
	for i, e := range s.Endpoints {
		if addr, err := netip.ParseAddr(e.Address); err == nil && e.Cluster == "" {
			to(podAddress{s.Namespace, addr.Unmap()}, i)
		}
	}
}

// meshEntry is what a ServiceEntry of the mesh registers, by the first of its hosts: they have all the same ports and endpoints. ports is how many ports of
// endpoints it leads to.
type meshEntry struct {
	*Service
	ports int
}

// leaderOf is that of an entry's services; nil where it leads to no pod.
func leaderOf(services []*Service) *meshEntry {
	if len(services) == 0 || services[0].External || services[0].Source.Kind != config.KindServiceEntry {
		return nil
	}
	l := &meshEntry{Service: services[0]}
	l.leads(func(podAddress, int) { l.ports += len(l.Ports) })
	if l.ports == 0 {
		return nil
	}
	return l
}

// leadsAlike says whether two leaders lead to the same ports of the same workloads.
func leadsAlike(a, b *meshEntry) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Created.Equal(b.Created) && slices.Equal(a.Ports, b.Ports) && slices.EqualFunc(a.Endpoints, b.Endpoints, func(x, y Endpoint) bool {
		return x.Address == y.Address && x.Cluster == y.Cluster && maps.Equal(x.Ports, y.Ports) && maps.Equal(x.Labels, y.Labels)
	})
}

// beyondOf gives, of a namespace's entries, those that lead to more ports than count, by their keys. Entries that come first have theirs.
func beyondOf(leaders []*meshEntry) map[config.Key]bool {
	all := 0
	for _, l := range leaders {
		all += l.ports
	}
	if all <= MostLeads {
		return nil
	}
	out := map[config.Key]bool{}
	left := MostLeads
	for _, l := range slices.SortedFunc(slices.Values(leaders), func(a, b *meshEntry) int { return a.compare(b.Service) }) {
		if l.ports > left {
			out[l.Source] = true
			continue
		}
		left -= l.ports
	}
	return out
}

// Beyond says whether an entry of the mesh says nothing about what comes to its namespace's pods, since others of the namespace lead to as many as count.
func (s *Snapshot) Beyond(entry config.Key) bool { return s.beyond[entry.Namespace][entry] }

// LedAddress is the first address at which an entry of the namespace leads to a workload with these labels; not valid where none does.
func (s *Snapshot) LedAddress(ns string, labels map[string]string) (found netip.Addr) {
	s.arriving.From(podAddress{namespace: ns}, func(at podAddress, list []podEntry) bool {
		if at.namespace != ns {
			return false
		}
		if slices.ContainsFunc(list, func(l podEntry) bool { return selects(labels, l.Endpoints[l.endpoint].Labels) }) {
			found = at.address
		}
		return !found.IsValid()
	})
	return found
}

// noteLeader remembers what an entry leads to now; nil: to nothing.
func (b *batch) noteLeader(entry config.Key, now *meshEntry) {
	if b.leaders[entry.Namespace][entry] == nil && now == nil {
		delete(b.arrived, entry)
		return
	}
	b.arrived[entry] = now
}

// settleArriving brings what leads to pods up to date, once a batch.
func (b *batch) settleArriving() {
	turned := &turnedLeads{gone: map[podAddress]map[config.Key]bool{}, come: map[podAddress][]podEntry{}}
	arrived := map[string]map[config.Key]*meshEntry{} // by namespace
	for entry, now := range b.arrived {
		if arrived[entry.Namespace] == nil {
			arrived[entry.Namespace] = map[config.Key]*meshEntry{}
		}
		arrived[entry.Namespace][entry] = now
	}
	for ns, entries := range arrived {
		b.settleLeaders(ns, entries, turned)
	}
	b.changed.Arriving = turned.settle(b.arriving)
}

// settleLeaders brings a namespace's entries up to date, of which these may be otherwise, and notes which leads come and go.
func (b *batch) settleLeaders(ns string, arrived map[config.Key]*meshEntry, turned *turnedLeads) {
	list := b.leaders[ns]
	if list == nil {
		list = map[config.Key]*meshEntry{}
		b.leaders[ns] = list
	}
	was, before := map[config.Key]*meshEntry{}, b.next.beyond[ns]
	for entry, now := range arrived {
		old := list[entry]
		if leadsAlike(old, now) {
			continue
		}
		if was[entry] = old; now == nil {
			delete(list, entry)
		} else {
			list[entry] = now
		}
	}
	if len(was) == 0 {
		return
	}
	beyond := beyondOf(slices.Collect(maps.Values(list)))
	for _, flipped := range []map[config.Key]bool{before, beyond} {
		for entry := range flipped {
			if _, changed := was[entry]; !changed && before[entry] != beyond[entry] {
				was[entry] = list[entry]
			}
		}
	}
	for entry, old := range was {
		if old != nil && !before[entry] {
			turned.goes(old)
		}
		if now := list[entry]; now != nil && !beyond[entry] {
			turned.comes(now)
		}
		if before[entry] != beyond[entry] && list[entry] != nil {
			b.beside[list[entry].Host] = true // its status says so
		}
	}
	if len(list) == 0 {
		delete(b.leaders, ns)
	}
	if len(before)+len(beyond) > 0 {
		b.next.beyond = maps.Clone(b.next.beyond)
		if b.next.beyond == nil {
			b.next.beyond = map[string]map[config.Key]bool{}
		}
		if b.next.beyond[ns] = beyond; len(beyond) == 0 {
			delete(b.next.beyond, ns)
		}
	}
}

// turnedLeads are the leads that come and go.
type turnedLeads struct {
	gone map[podAddress]map[config.Key]bool
	come map[podAddress][]podEntry
}

func (t *turnedLeads) goes(s *meshEntry) {
	s.leads(func(at podAddress, _ int) {
		if t.gone[at] == nil {
			t.gone[at] = map[config.Key]bool{}
		}
		t.gone[at][s.Source] = true
	})
}

func (t *turnedLeads) comes(s *meshEntry) {
	s.leads(func(at podAddress, endpoint int) { t.come[at] = append(t.come[at], podEntry{s.Service, endpoint}) })
}

// settle puts them into the index, and gives the namespaces in which something is otherwise, in order.
func (t *turnedLeads) settle(index *ordered.KeyedEdit[podAddress, []podEntry]) []string {
	namespaces, at := map[string]bool{}, map[podAddress]bool{}
	for d := range t.gone {
		at[d] = true
	}
	for d := range t.come {
		at[d] = true
	}
	for d := range at {
		namespaces[d.namespace] = true
		was, _ := index.Get(d)
		gone := t.gone[d]
		list := append(slices.DeleteFunc(slices.Clone(was), func(l podEntry) bool { return gone[l.Source] }), t.come[d]...)
		if len(list) == 0 {
			index.Delete(d)
			continue
		}
		slices.SortFunc(list, func(x, y podEntry) int { return cmp.Or(x.compare(y.Service), cmp.Compare(x.endpoint, y.endpoint)) })
		index.Put(d, list)
	}
	return slices.Sorted(maps.Keys(namespaces))
}
