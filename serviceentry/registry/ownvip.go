package registry

import (
	"maps"
	"slices"
)

// madeUp gives hosts their made-up addresses: for everybody one table, in which the root namespace's hosts are apart; and
// for each other namespace a table of its own hosts. What a namespace registered itself has,
// in its own workloads' eyes, the address of that table, so that no host of others can move it, whenever it came and
// whatever it is called. Mostly the two are the same. Where they are not, the namespace has a view of its own, in which whoever
// has the address for everybody has the one that is left.
type madeUp struct {
	all *vips
	own map[string]*vips
	// touched are the namespaces whose tables changed since they were last settled.
	touched map[string]bool
	// apart are the hosts of a namespace whose address in its own table is another than for everybody.
	apart map[string]map[string]bool
}

func newMadeUp() *madeUp {
	return &madeUp{all: newVIPs(), own: map[string]*vips{}, touched: map[string]bool{}, apart: map[string]map[string]bool{}}
}

// claim brings the tables up to date with a host's registrations, before and now.
func (m *madeUp) claim(host, root string, was, now []*Service) {
	c, wants := claimOf(host, now, root)
	m.all.set(c, wants)
	for _, list := range [...][]*Service{was, now} {
		for _, s := range list {
			if s.Namespace != root {
				m.claimOwn(host, s.Namespace, now, c.root)
			}
		}
	}
}

func (m *madeUp) claimOwn(host, ns string, now []*Service, rooted bool) {
	c, wants := claimIn(host, now, ns)
	wants = wants && !rooted
	t := m.own[ns]
	if t == nil {
		if !wants {
			return
		}
		t = newVIPs()
		m.own[ns] = t
	}
	t.set(c, wants)
	m.touched[ns] = true
}

// settle gives the hosts that everybody sees at another address now, and the namespaces that have to be looked at again.
// registered gives a host's registrations.
func (m *madeUp) settle(registered func(host string) []*Service) (moved, again map[string]bool) {
	again = map[string]bool{}
	moved, turned := m.all.take()
	for ns := range m.apart { // what it sees is made of its own slots, and of who has those for everybody (see view)
		if m.own[ns].holdsAny(turned) {
			again[ns] = true
		}
	}
	for host := range moved {
		for _, s := range registered(host) {
			if t := m.own[s.Namespace]; t != nil {
				m.compare(s.Namespace, host)
				again[s.Namespace] = true
			}
		}
	}
	for ns := range m.touched {
		t := m.own[ns]
		moved, _ := t.take()
		for host := range moved {
			m.compare(ns, host)
			again[ns] = true
		}
		if len(t.at) == 0 {
			delete(m.own, ns)
		}
	}
	clear(m.touched)
	return moved, again
}

// compare notes whether a host's address in its namespace's table is another than for everybody.
func (m *madeUp) compare(ns, host string) {
	at, ok := m.own[ns].slot(host)
	if all, has := m.all.slot(host); ok && (!has || all != at) {
		if m.apart[ns] == nil {
			m.apart[ns] = map[string]bool{}
		}
		m.apart[ns][host] = true
		return
	}
	if delete(m.apart[ns], host); len(m.apart[ns]) == 0 {
		delete(m.apart, ns)
	}
}

// view gives the hosts that a namespace sees at another slot than everybody does: its own, and those whose slots they
// have, which get one that is left. nil where there are none.
func (m *madeUp) view(ns string) map[string]uint32 {
	own := m.own[ns]
	if own == nil || len(m.apart[ns]) == 0 {
		return nil
	}
	out := make(map[string]uint32, len(m.apart[ns]))
	for host := range m.apart[ns] {
		out[host], _ = own.slot(host)
	}
	for host := range m.apart[ns] {
		other, taken := m.all.at[out[host]]
		if !taken {
			continue
		}
		if _, mine := own.slot(other.host); mine {
			continue
		}
		at, left := m.all.slot(host)
		for left { // the first slot of the chain that none of the namespace's own has
			next, held := own.at[at]
			if !held {
				break
			}
			at, left = m.all.slot(next.host)
		}
		if !left {
			at = slots // there is none
		}
		out[other.host] = at
	}
	return out
}

// claimIn is claimOf for the registrations of one namespace.
func claimIn(host string, list []*Service, ns string) (c claim, wants bool) {
	c.host = host
	for _, s := range list {
		if s.Namespace == ns && s.wantsAddress() {
			c.add(s, wants)
			wants = true
		}
	}
	return c, wants
}

// set adds a claim, or takes the host's out.
func (v *vips) set(c claim, wants bool) {
	if wants {
		v.add(c)
	} else {
		v.remove(c.host)
	}
}

// settleAddresses notes what namespaces see at other addresses than everybody, and marks hosts for which that changed.
func (b *batch) settleAddresses(again map[string]bool) {
	for ns := range again {
		was, now := b.next.made[ns], b.madeUp.view(ns)
		if maps.Equal(was, now) {
			continue
		}
		if !b.madeCopied {
			b.next.made, b.madeCopied = maps.Clone(b.next.made), true
		}
		for _, m := range [...]map[string]uint32{was, now} {
			for host := range m {
				if x, y := slotIn(was, host), slotIn(now, host); x != y {
					b.beside[host] = true
				}
			}
		}
		if was == nil {
			b.countView(ns, ns, +1, true)
		}
		if now == nil {
			b.countView(ns, ns, -1, true)
			delete(b.next.made, ns)
			continue
		}
		b.next.made[ns] = now
	}
}

func slotIn(m map[string]uint32, host string) int {
	if at, ok := m[host]; ok {
		return int(at)
	}
	return -1
}

// In gives a service as a namespace sees it: its made-up address may be another there than for everybody.
func (s *Snapshot) In(svc *Service, ns string) *Service {
	at, ok := s.made[ns][svc.Host]
	if !ok || svc.MadeUp == 0 {
		return svc
	}
	out := *svc
	out.MadeUp = 0
	if at < slots {
		out.MadeUp = offsetOf(at)
	}
	out.Hash = (out.Hash ^ uint64(at+1)) * 1099511628211 // FNV-1a: another address, another service
	return &out
}

// claimAddresses gives or takes back the touched hosts' addresses, and adds to them the hosts that had to move.
func (b *batch) claimAddresses() {
	for host := range b.touched {
		list, _ := b.hosts.Get(host)
		was, _ := b.snap.hosts.Get(host)
		b.madeUp.claim(host, b.next.Mesh.RootNamespace, was, list)
	}
	moved, again := b.madeUp.settle(func(host string) []*Service { list, _ := b.hosts.Get(host); return list })
	maps.Copy(b.touched, moved)
	b.settleAddresses(again)
}

// wantsAddress says whether a registration needs a made-up address: it is an entry without addresses, of one name, and
// is not reached at the address that the client finds itself.
func (s *Service) wantsAddress() bool {
	return (s.entry() || s.Elsewhere) && len(s.Addresses) == 0 && !s.Wildcard() && (s.Resolution != None || !s.Exit.IsZero())
}

// claimOf says whether a host needs a made-up address. Where the root namespace's registration does, no other counts.
func claimOf(host string, list []*Service, root string) (claim, bool) {
	c := claim{claimant: claimant{host: host}}
	wants := false
	rooted := slices.ContainsFunc(list, func(s *Service) bool { return root != "" && s.Namespace == root && s.wantsAddress() })
	for _, s := range list {
		if !s.wantsAddress() || (rooted && s.Namespace != root) {
			continue
		}
		c.add(s, wants)
		wants = true
		c.root = rooted
	}
	return c, wants
}
