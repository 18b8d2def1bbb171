package registry

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// What leads to a pod's own ports: Services that select it, ServiceEntries of the mesh in its namespace with an endpoint at its address, and in their
// place what a Sidecar object lists.

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
	list, _ := s.arriving.Get(podAddress{ns, at.Unmap()})
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
	if err != nil || wrong != nil || port == 0 || config.IsInnerPort(uint32(port)) {
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
