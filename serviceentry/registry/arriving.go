package registry

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// What leads to a pod's own ports: Services that select it, ServiceEntries of the mesh in its namespace with an endpoint at its address, and in their
// place what a Sidecar object lists.

// doorstep is where entries lead to: a pod's address, as far as a namespace's entries say so.
type doorstep struct {
	namespace string
	address   netip.Addr
}

// lead is a service that leads there, by one of its endpoints.
type lead struct {
	*Service
	endpoint int
}

// arriving is who leads where; each list in order of Service.compare and the endpoints.
type arriving = ordered.Keyed[doorstep, []lead]

func newArriving() arriving {
	return ordered.NewKeyed[doorstep, []lead](func(a, b doorstep) int {
		return cmp.Or(cmp.Compare(a.namespace, b.namespace), a.address.Compare(b.address))
	})
}

// leads goes through where a service of the mesh leads to, by its endpoints.
func (s *Service) leads(to func(at doorstep, endpoint int)) {
	if s.External || s.Source.Kind != config.KindServiceEntry {
		return
	}
	for i, e := range s.Endpoints {
		if addr, err := netip.ParseAddr(e.Address); err == nil && e.Cluster == "" {
			to(doorstep{s.Namespace, addr.Unmap()}, i)
		}
	}
}

// noteArriving remembers where a host's registrations lead to, before or now.
func (b *batch) noteArriving(host string, was, now []*Service) {
	for _, list := range [...][]*Service{was, now} {
		for _, s := range list {
			s.leads(func(at doorstep, _ int) {
				if b.arrived[at] == nil {
					b.arrived[at] = map[string]bool{}
				}
				b.arrived[at][host] = true
			})
		}
	}
}

// settleArriving brings that index up to date, once a batch.
func (b *batch) settleArriving() {
	namespaces, hosts, now := map[string]bool{}, map[string]bool{}, map[doorstep][]lead{}
	for _, of := range b.arrived {
		maps.Copy(hosts, of)
	}
	for host := range hosts {
		list, _ := b.hosts.Get(host)
		for _, s := range list {
			s.leads(func(at doorstep, endpoint int) { now[at] = append(now[at], lead{s, endpoint}) })
		}
	}
	for at, of := range b.arrived {
		namespaces[at.namespace] = true
		was, _ := b.arriving.Get(at)
		list := append(slices.DeleteFunc(slices.Clone(was), func(l lead) bool { return of[l.Host] }), now[at]...)
		if len(list) == 0 {
			b.arriving.Delete(at)
			continue
		}
		slices.SortFunc(list, func(x, y lead) int { return cmp.Or(x.compare(y.Service), cmp.Compare(x.endpoint, y.endpoint)) })
		b.arriving.Put(at, list)
	}
	b.changed.Arriving = slices.Sorted(maps.Keys(namespaces))
}

// portsOf are the ports of a pod that something leads to, by their numbers. Those that its proxy and its agent have are nobody's.
func (s *Snapshot) portsOf(ns string, labels map[string]string, address string) map[uint32]InboundPort {
	out := map[uint32]InboundPort{}
	add := func(number uint32, p Port) {
		if _, taken := out[number]; !taken && number != 0 && p.Protocol != UDP && !config.IsOwnPort(number) {
			out[number] = InboundPort{Number: number, Led: true, HTTP: p.Protocol.IsHTTP()}
		}
	}
	if scope := s.Scope(ns, labels); scope != nil && scope.Ingress != nil {
		for _, p := range scope.Ingress {
			out[p.Number] = p
		}
		return out
	}
	for _, k := range s.GatewaysOf(ns, labels) {
		for _, p := range k.Ports {
			add(s.ownPort(k, p, address), p)
		}
	}
	at, err := netip.ParseAddr(address)
	if err != nil {
		return out
	}
	list, _ := s.arriving.Get(doorstep{ns, at.Unmap()})
	for _, l := range list {
		for _, p := range l.Ports {
			add(l.Endpoints[l.endpoint].PortOf(p), p)
		}
	}
	return out
}

// ingressPorts are what a Sidecar object lists; nil where it lists nothing.
func ingressPorts(list []*networking.IstioIngressListener) (out []InboundPort) {
	for _, l := range list {
		p := Port{Number: l.GetPort().GetNumber(), Protocol: ParseProtocol(l.GetPort().GetProtocol())}
		to, ok := ownEndpoint(l.DefaultEndpoint)
		if !ok || p.Protocol == UDP || config.IsOwnPort(p.Number) || l.GetTls() != nil && l.Tls.Mode != networking.ServerTLSSettings_PASSTHROUGH {
			continue // admission refuses it, but for UDP, of which nothing comes in
		}
		out = append(out, InboundPort{Number: p.Number, Led: true, HTTP: p.Protocol.IsHTTP(), To: to})
	}
	return out
}

// ownEndpoint reads an endpoint of the pod's own: an address of loopback and a port, or a port alone for the address that was connected to. Of a Unix
// socket nothing is read: the proxy connects to none.
func ownEndpoint(text string) (to netip.AddrPort, ok bool) {
	if text == "" || strings.HasPrefix(text, "unix:") {
		return to, true
	}
	address, number, err := net.SplitHostPort(text)
	port, wrong := strconv.ParseUint(number, 10, 16)
	if err != nil || wrong != nil || port == 0 || config.IsOwnPort(uint32(port)) {
		return to, false
	}
	addr := netip.IPv4Unspecified()
	if address != "" {
		if addr, err = netip.ParseAddr(address); err != nil || !addr.IsUnspecified() && addr != netip.IPv6Loopback() && addr != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
			return to, false
		}
	}
	if addr.IsUnspecified() {
		addr = netip.IPv4Unspecified()
	}
	return netip.AddrPortFrom(addr, uint16(port)), true
}
