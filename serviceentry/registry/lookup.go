package registry

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// This file holds what finds a registration by something else than its host: who has a made-up address, who wrote a range,
// and what is registered at a port. Questions cost what they find, not what there is.

// lookups are the indexes of a snapshot.
type lookups struct {
	madeUp ordered.Keyed[uint16, string]           // by slot (see slotOf): the host that has it in the table for everybody
	ranges ordered.Keyed[netip.Prefix, []*Service] // by range of addresses, masked: who wrote it; without patterns
	bits   *[2][]int                               // the lengths that ranges have, the longest first: of IPv4, of IPv6
	spoken ordered.Keyed[speaker, struct{}]
	// inClusterForm counts the entries whose hosts have the form of Services' names.
	inClusterForm int
}

func newLookups() lookups {
	return lookups{
		madeUp: ordered.NewKeyed[uint16, string](cmp.Compare), ranges: ordered.NewKeyed[netip.Prefix, []*Service](netip.Prefix.Compare),
		bits: &[2][]int{}, spoken: ordered.NewKeyed[speaker, struct{}](speaker.compare),
	}
}

// lookupsEdit is the next version of them.
type lookupsEdit struct {
	madeUp *ordered.KeyedEdit[uint16, string]
	ranges *ordered.KeyedEdit[netip.Prefix, []*Service]
	spoken *ordered.KeyedEdit[speaker, struct{}]
}

func (l lookups) edit() lookupsEdit {
	return lookupsEdit{l.madeUp.Edit(), l.ranges.Edit(), l.spoken.Edit()}
}

// note brings the indexes up to date with a host's registrations, before and now.
func (b *batch) note(host string, was, now []*Service) {
	if strings.HasSuffix(host, clusterSuffix) {
		b.next.find.inClusterForm += entriesOf(now) - entriesOf(was)
	}
	for _, s := range was {
		if at, ok := s.slot(); ok {
			if owner, _ := b.find.madeUp.Get(at); owner == host {
				b.find.madeUp.Delete(at)
			}
		}
		for _, p := range s.writtenRanges() {
			b.setRange(p, s, false)
		}
		for _, at := range s.speaks() {
			b.find.spoken.Delete(at)
		}
	}
	for _, s := range now {
		if at, ok := s.slot(); ok {
			b.find.madeUp.Put(at, host)
		}
		for _, p := range s.writtenRanges() {
			b.setRange(p, s, true)
		}
		for _, at := range s.speaks() {
			b.find.spoken.Put(at, struct{}{})
		}
	}
}

func entriesOf(list []*Service) (n int) {
	for _, s := range list {
		if s.Source.Kind != config.KindService {
			n++
		}
	}
	return n
}

// slot is that of the service's made-up addresses, both of which come from one slot.
func (s *Service) slot() (uint16, bool) {
	if s.MadeUp == 0 {
		return 0, false
	}
	return s.MadeUp, true
}

// slotOf is the slot of a made-up address of either family: its last two bytes.
func slotOf(ip netip.Addr) uint16 {
	b := ip.As16()
	return binary.BigEndian.Uint16(b[14:])
}

// writtenRanges are the ranges by which the service's TCP and TLS ports are found.
func (s *Service) writtenRanges() (out []netip.Prefix) {
	for _, a := range s.Addresses {
		if !a.IsSingleIP() && !s.Wildcard() {
			out = append(out, a.Masked())
		}
	}
	return out
}

func (b *batch) setRange(p netip.Prefix, s *Service, there bool) {
	was, _ := b.find.ranges.Get(p)
	list := slices.DeleteFunc(slices.Clone(was), func(o *Service) bool { return o.Host == s.Host && o.Source == s.Source })
	if there {
		list = append(list, s)
	}
	if len(list) == 0 {
		b.find.ranges.Delete(p)
	} else {
		b.find.ranges.Put(p, list)
	}
	b.countBits(p, min(len(list), 1)-min(len(was), 1))
}

// countBits counts the ranges of a length.
func (b *batch) countBits(p netip.Prefix, by int) {
	if by == 0 {
		return
	}
	family := familyOf(p.Addr())
	n := &b.rangeBits[family][p.Bits()]
	if *n += by; *n != 0 && *n != by {
		return
	}
	bits := *b.next.find.bits
	bits[family] = nil
	for length := len(b.rangeBits[family]) - 1; length >= 0; length-- {
		if b.rangeBits[family][length] > 0 {
			bits[family] = append(bits[family], length)
		}
	}
	b.next.find.bits = &bits
}

func familyOf(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}

// inCluster stands for a namespace's name in spoken: that of Kubernetes services, which count for everybody.
const inCluster = "/"

// speaker is who says how proxies read at a port: a namespace (or inCluster) for TCP only (opaque: the server may speak first), or
// for what proxies read, with the host and the object behind.
type speaker struct {
	port         uint32
	ns           string
	opaque       bool
	host, source string
}

func (a speaker) compare(b speaker) int {
	if c := a.compareGroup(b); c != 0 {
		return c
	}
	return cmp.Or(strings.Compare(a.host, b.host), strings.Compare(a.source, b.source))
}

func (a speaker) compareGroup(b speaker) int {
	switch {
	case a.port != b.port:
		return cmp.Compare(a.port, b.port)
	case a.ns != b.ns:
		return strings.Compare(a.ns, b.ns)
	case a.opaque == b.opaque:
		return 0
	case b.opaque:
		return -1
	default:
		return 1
	}
}

// speaks are the ports at which what is registered says how proxies read.
func (s *Service) speaks() (out []speaker) {
	ns := s.Namespace
	if s.Source.Kind == config.KindService {
		ns = inCluster
	}
	for _, p := range s.Ports {
		if p.Protocol != UDP && !alwaysRead(p.Number) && !ServerFirst(p.Number) {
			out = append(out, speaker{p.Number, ns, p.Protocol == TCP, s.Host, s.Source.Name})
		}
	}
	return out
}

func alwaysRead(port uint32) bool { return port == 80 || port == 443 }

// TCPOnly says whether a port is one at which nothing is read of what workloads send: servers are known to speak first there, or the mesh's
// settings name it.
func (s *Snapshot) TCPOnly(port uint32) bool {
	return ServerFirst(port) || slices.Contains(s.Mesh.TCPPorts, port)
}

// Readable says whether a workload's proxy reads, on a port, which host is asked for: not where the server speaks
// first, nor where only TCP services are registered, since there the proxy must not wait for the client. What
// other namespaces' entries register there changes neither.
func (s *Snapshot) Readable(port uint32, ns string, scope *SidecarScope) bool {
	if s.TCPOnly(port) {
		return false
	}
	return alwaysRead(port) || !s.spokenAt(port) || s.speaks(port, ns, scope, false) || !s.speaks(port, ns, scope, true)
}

// spokenAt says whether anybody registered anything at a port.
func (s *Snapshot) spokenAt(port uint32) (is bool) {
	s.find.spoken.From(speaker{port: port}, func(first speaker, _ struct{}) bool {
		is = first.port == port
		return false
	})
	return is
}

// speaks says whether anything that counts for ns is registered at a port, of TCP or of what proxies read.
func (s *Snapshot) speaks(port uint32, ns string, scope *SidecarScope, opaque bool) bool {
	found := false
	for _, in := range [...]string{ns, inCluster, s.Mesh.RootNamespace} {
		first := speaker{port: port, ns: in, opaque: opaque}
		s.find.spoken.From(first, func(at speaker, _ struct{}) bool {
			if at.compareGroup(first) != 0 {
				return false
			}
			svc := s.Visible(at.host, ns, scope)
			if svc != nil && !s.Foreign(svc, ns) {
				p, ok := svc.Port(port)
				found = ok && p.Protocol != UDP && (p.Protocol == TCP) == opaque
			}
			return !found
		})
		if found {
			return true
		}
	}
	return false
}

// MatchAddress finds the registration that owns an address on a port, as a workload in ns sees it: one that was
// written down or made up. A single address comes before the ranges that it is in.
func (s *Snapshot) MatchAddress(ip netip.Addr, port uint32, ns string, scope *SidecarScope) *Service {
	if host.MadeUp(ip) {
		return s.matchMadeUp(ip, port, ns, scope)
	}
	if single := s.AddressOwner(ip, port, ns, scope); single != nil {
		return single
	}
	return s.MatchRange(ip, port, ns, scope)
}

func (s *Snapshot) matchMadeUp(ip netip.Addr, port uint32, ns string, scope *SidecarScope) *Service {
	has := func(name string) *Service {
		if svc := s.Visible(name, ns, scope); svc != nil && (svc.VIP4() == ip || svc.VIP6() == ip) && svc.takesAt(port) {
			return svc
		}
		return nil
	}
	for name, at := range s.made[ns] { // a few, if any
		if at >= slots {
			continue
		}
		if v4, v6 := addressesAt(offsetOf(at)); ip != v4 && ip != v6 {
			continue
		}
		if svc := has(name); svc != nil {
			return svc
		}
	}
	name, ok := s.find.madeUp.Get(slotOf(ip))
	if !ok {
		return nil
	}
	return has(name)
}

// MatchRange is MatchAddress for the ranges of TCP and TLS services alone; the narrowest has the address.
func (s *Snapshot) MatchRange(ip netip.Addr, port uint32, ns string, scope *SidecarScope) *Service {
	if !ip.IsValid() {
		return nil
	}
	for _, bits := range s.find.bits[familyOf(ip)] {
		p, err := ip.Prefix(bits)
		if err != nil {
			continue // an address with a zone
		}
		list, _ := s.find.ranges.Get(p)
		var owner *Service
		for _, svc := range list {
			seen := s.Visible(svc.Host, ns, scope)
			if seen == nil || seen.Source != svc.Source || !seen.takesAt(port) || s.isExitsDoor(svc.Host, port) {
				continue
			}
			if p, _ := seen.Port(port); !p.Protocol.IsHTTP() && (owner == nil || s.before(seen, owner, ns)) {
				owner = seen
			}
		}
		if owner != nil {
			return owner
		}
	}
	return nil
}

// isExitsDoor says whether a host's port is the one that sidecars reach an egress gateway at: whoever registers the gateway's name, nothing that was
// written for it leads there.
func (s *Snapshot) isExitsDoor(host string, port uint32) bool {
	if port != GatewayPort {
		return false
	}
	ref, ok := RefOf(host)
	return ok && s.IsExit(ref)
}
