package registry

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/host"
)

// AddressOwner finds the registration that a written address leads to on a port, as a workload in ns sees it. Of
// several hosts with one address, the workload's own namespace's comes first, then the oldest object's.
func (s *Snapshot) AddressOwner(ip netip.Addr, port uint32, ns string, scope *Scope) *Service {
	list, _ := s.written.Get(ip.String())
	for _, own := range [...]bool{true, false} {
		for _, svc := range list {
			if (svc.Namespace == ns) != own || !svc.ExportTo.Includes(ns) || !svc.answersAt(ip, port) {
				continue
			}
			// The list may be long, and this is what costs.
			if seen := s.Visible(svc.Host, ns, scope); seen != nil && seen.Source == svc.Source && seen.answersAt(ip, port) {
				return seen
			}
		}
	}
	return nil
}

// Yielded gives the addresses, with ports, that a service wrote and that lead to another host all the same.
func (s *Snapshot) Yielded(svc *Service, ns string, scope *Scope) []netip.AddrPort {
	var out []netip.AddrPort
	for _, a := range svc.Addresses {
		if list, _ := s.written.Get(a.Addr().String()); !a.IsSingleIP() || len(list) < 2 {
			continue
		}
		for _, p := range svc.Ports {
			if !byAddress(p) {
				continue
			}
			if owner := s.AddressOwner(a.Addr(), p.Number, ns, scope); owner != nil && owner.Host != svc.Host {
				out = append(out, netip.AddrPortFrom(a.Addr(), uint16(p.Number)))
			}
		}
	}
	return out
}

// RangeOwner picks, of hosts that wrote the same range, the one that has it in ns's eyes.
func (s *Snapshot) RangeOwner(hosts []string, ns string, scope *Scope) string {
	var owner *Service
	for _, host := range hosts {
		if svc := s.Visible(host, ns, scope); svc != nil && (owner == nil || svc.before(owner, ns)) {
			owner = svc
		}
	}
	if owner == nil {
		return ""
	}
	return owner.Host
}

// MatchAddress finds the registration that owns an address on a port, as a workload in ns sees it: one that was
// written down or made up. A single address comes before the ranges that it is in. It goes through all hosts; proxies do
// not ask it.
func (s *Snapshot) MatchAddress(ip netip.Addr, port uint32, ns string, scope *Scope) *Service {
	if host.MadeUp(ip) {
		for name := range s.Hosts() {
			if svc := s.Visible(name, ns, scope); svc != nil && (svc.VIP4 == ip || svc.VIP6 == ip) && svc.takesAt(port) {
				return svc
			}
		}
		return nil
	}
	if single := s.AddressOwner(ip, port, ns, scope); single != nil {
		return single
	}
	return s.MatchRange(ip, port, ns, scope)
}

// MatchRange is MatchAddress for the ranges of TCP and TLS services alone; the narrowest has the address.
func (s *Snapshot) MatchRange(ip netip.Addr, port uint32, ns string, scope *Scope) *Service {
	var owner *Service
	narrowest := -1
	for name := range s.Hosts() {
		svc := s.Visible(name, ns, scope)
		if svc == nil || svc.Wildcard() || !svc.takesAt(port) {
			continue
		}
		if p, _ := svc.Port(port); p.Protocol.IsHTTP() {
			continue
		}
		for _, a := range svc.Addresses {
			if a.IsSingleIP() || !a.Contains(ip) {
				continue
			}
			if a.Bits() > narrowest || (a.Bits() == narrowest && svc.before(owner, ns)) {
				owner, narrowest = svc, a.Bits()
			}
		}
	}
	return owner
}

// takesAt says whether anything that proxies take is registered at the port.
func (s *Service) takesAt(port uint32) bool {
	p, ok := s.Port(port)
	return ok && p.Protocol != UDP
}

// before says which of two hosts' registrations has an address that both wrote.
func (s *Service) before(o *Service, ns string) bool {
	if own := s.Namespace == ns; own != (o.Namespace == ns) {
		return own
	}
	return s.compare(o) < 0
}

func (s *Service) answersAt(ip netip.Addr, port uint32) bool {
	p, ok := s.Port(port)
	return ok && byAddress(p) && s.ByAddress() && slices.Contains(s.Addresses, netip.PrefixFrom(ip, ip.BitLen()))
}

// ByAddress says whether a service can be found by an address at all: through a gateway, which is told a name, one with many
// names cannot.
func (s *Service) ByAddress() bool { return !s.Wildcard() || s.Exit.IsZero() }

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
				at := a.Addr().String()
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

func (s *Service) wrote(address string) bool {
	return slices.ContainsFunc(s.Addresses, func(a netip.Prefix) bool { return a.IsSingleIP() && a.Addr().String() == address })
}

// clusterSuffix ends the names of Kubernetes services.
const clusterSuffix = ".svc.cluster.local"

// noteShadowed marks the Kubernetes services, and the hosts with an alias, that have a host's name for a short one: "web",
// "web.default", "web.default.svc", or "*.web" of a headless one. Whoever is registered by exactly that name has it.
func (b *batch) noteShadowed(host string) {
	host = strings.TrimPrefix(host, "*.")
	if strings.HasSuffix(host, clusterSuffix) {
		b.beside[host] = true
		b.touchAliased(host)
		return
	}
	if labels := strings.Count(host, "."); labels > 2 || (labels == 2 && !strings.HasSuffix(host, ".svc")) {
		return
	}
	b.hosts.WalkPrefix(host+".", func(full string, _ []*Service) bool {
		if strings.HasSuffix(full, clusterSuffix) {
			b.beside[full] = true
		}
		return true
	})
	b.aliases.WalkPrefix(host+".", func(full string, _ *Alias) bool {
		b.touchAliased(full)
		return true
	})
}
