package registry

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/inside"
)

// AddressOwner finds the registration that a written address leads to on a port, as a workload in ns sees it. Of
// several hosts with one address a Service comes first, whose address it is (see addressRank); then the workload's own namespace's, the root
// namespace's, the oldest object's. An address that one of the first three has, on whatever port, is nobody else's.
func (s *Snapshot) AddressOwner(ip netip.Addr, port uint32, ns string, scope *SidecarScope) *Service {
	list, _ := s.written.Get(ip)
	var found *Service
	at, held := rankNone, false
	for _, svc := range list {
		r := s.addressRank(svc, ns, ip)
		answers := r < at && svc.answersAt(ip, port)
		if !answers && (held || r >= rankOther) {
			continue // the list may be long, and what follows is what costs
		}
		if !svc.ExportTo.Includes(ns) {
			continue
		}
		seen := s.Visible(svc.Host, ns, scope)
		if seen == nil || seen.Source != svc.Source {
			continue
		}
		held = held || r < rankOther
		if answers && seen.answersAt(ip, port) {
			found, at = seen, r
		}
	}
	if at == rankOther && held {
		return nil
	}
	return found
}

// addressRank ranks a registration for one of its addresses: those of Services are the API server's to give. What somebody wrote for a
// headless one (in an EndpointSlice, a WorkloadEntry) is like an entry's address: for others it counts where the mesh lets its namespace
// export such. A Node's address is not a pod's alone that has its network: for others it comes after who registered it.
func (s *Snapshot) addressRank(svc *Service, ns string, ip netip.Addr) rank {
	switch {
	case svc.Source.Kind != config.KindService:
		return s.rankOf(svc, ns)
	case svc.Namespace == ns:
		return rankOwn - 1
	case hasSingle(svc.OfNodes, ip):
		return s.rankOfNamespace(svc.Namespace, ns)
	case !svc.wroteByHand(ip):
		return rankOwn - 1
	case svc.Namespace == s.Mesh.RootNamespace, s.Mesh.Exports.Allows(svc.Namespace, host.Name(svc.Host), true):
		return s.rankOfNamespace(svc.Namespace, ns)
	default:
		return rankNone
	}
}

// wroteByHand says of a headless Service's address that no pod of its namespace has it.
func (s *Service) wroteByHand(ip netip.Addr) bool { return hasSingle(s.Written, ip) }

// hasSingle says whether a single address is one of a list.
func hasSingle(list []netip.Prefix, ip netip.Addr) bool {
	return len(list) > 0 && slices.Contains(list, netip.PrefixFrom(ip, ip.BitLen()))
}

// LostAddresses gives the addresses, with ports, that a service wrote and that lead to another host all the same.
func (s *Snapshot) LostAddresses(svc *Service, ns string, scope *SidecarScope) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range svc.Addresses {
		if list, _ := s.written.Get(a.Addr()); !a.IsSingleIP() || len(list) < 2 && !svc.wroteByHand(a.Addr()) {
			continue
		}
		for _, p := range svc.Ports {
			if !byAddress(p) {
				continue
			}
			if owner := s.AddressOwner(a.Addr(), p.Number, ns, scope); owner == nil || owner.Host != svc.Host {
				out = append(out, netip.AddrPortFrom(a.Addr(), uint16(p.Number)))
			}
		}
	}
	return out
}

// RangeOwner picks, of hosts that wrote the same range, the one that has it in ns's eyes.
func (s *Snapshot) RangeOwner(hosts []string, ns string, scope *SidecarScope) string {
	var owner *Service
	for _, name := range hosts {
		if svc := s.Visible(name, ns, scope); svc != nil && (owner == nil || s.before(svc, owner, ns)) {
			owner = svc
		}
	}
	if owner == nil {
		return ""
	}
	return owner.Host
}

// takesAt says whether anything that proxies take is registered at the port.
func (s *Service) takesAt(port uint32) bool {
	p, ok := s.Port(port)
	return ok && p.Protocol != UDP
}

// before says which of two hosts' registrations has an address that both wrote.
func (s *Snapshot) before(x, y *Service, ns string) bool {
	if a, b := s.addressRank(x, ns, netip.Addr{}), s.addressRank(y, ns, netip.Addr{}); a != b {
		return a < b
	}
	return x.compare(y) < 0
}

func (s *Service) answersAt(ip netip.Addr, port uint32) bool {
	p, ok := s.Port(port)
	return ok && byAddress(p) && s.ByAddress() && s.WroteSingle(ip)
}

// WroteSingle says whether a single address was written for the service, rather than a range that it is in.
func (s *Service) WroteSingle(ip netip.Addr) bool {
	return slices.Contains(s.Addresses, netip.PrefixFrom(ip, ip.BitLen()))
}

// ByAddress says whether a service can be found by an address at all: one with many names cannot, where a name is needed. A gateway
// is told one, and so is what looks names up.
func (s *Service) ByAddress() bool {
	return !s.Wildcard() || (s.Exit.IsZero() && (s.Resolution != DNS || len(s.Endpoints) > 0))
}

// byAddress says whether a port's service is found by its written addresses.
func byAddress(p Port) bool { return p.Protocol != UDP }

// noteWritten remembers the addresses that a host's registrations wrote, before or now.
func (b *batch) noteWritten(host string, was, now []*Service) {
	for _, list := range [...][]*Service{was, now} {
		for _, s := range list {
			for _, a := range s.Addresses {
				if !a.IsSingleIP() {
					continue
				}
				at := a.Addr()
				if b.rewritten[at] == nil {
					b.rewritten[at] = map[string]bool{}
				}
				b.rewritten[at][host] = true
			}
		}
	}
}

// shareAddresses brings the index of written addresses up to date, and marks those who share one with a host that
// changed. It is once a batch: many hosts may share an address.
func (b *batch) shareAddresses() {
	for address, hosts := range b.rewritten {
		was, _ := b.written.Get(address)
		now := slices.DeleteFunc(slices.Clone(was), func(s *Service) bool { return hosts[s.Host] })
		for _, s := range now {
			b.beside[s.Host] = true
		}
		for host := range hosts {
			list, _ := b.hosts.Get(host)
			for _, s := range list {
				if s.wrote(address) {
					now = append(now, s)
				}
			}
		}
		if len(now) == 0 {
			b.written.Delete(address)
			continue
		}
		slices.SortFunc(now, (*Service).compare)
		b.written.Put(address, now)
	}
}

func (s *Service) wrote(address netip.Addr) bool {
	return slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return a.IsSingleIP() && a.Addr() == address })
}

// Dialled says whether a gateway connects the service's TCP ports to the address that the client chose, which is what resolution
// NONE means: addresses were written for that.
func (s *Service) Dialled() bool {
	return s.External && s.Resolution == None && !s.Exit.IsZero() && !s.Wildcard() && len(s.Addresses) > 0
}

// dialled are those of the service's addresses and ranges that a gateway takes from a client. They are held to what names may
// resolve to. IPv6 ranges are not taken: too much can hide in their addresses.
func (s *Snapshot) dialled(svc *Service) (taken []netip.Prefix) {
	allowed := s.Mesh.DNS.PrivateFor(svc.Namespace)
	for _, p := range svc.Addresses {
		switch {
		case inside.OwnHostIn(p): // for nobody, whatever is allowed
		case p.IsSingleIP() && (allowed.Refuses(svc.Host, p.Addr()) || s.isOwn(p.Addr())):
		case !p.IsSingleIP() && (!p.Addr().Is4() || allowed.RefusesRange(svc.Host, p) || slices.ContainsFunc(s.own, p.Contains)):
		default:
			taken = append(taken, p)
		}
	}
	return taken
}

// Takes says whether the far end is reached at an address that a client dialled.
func (f UpstreamRestrictions) Takes(ip netip.Addr) bool {
	return slices.ContainsFunc(f.Dialled, func(p netip.Prefix) bool { return p.Contains(ip) })
}
