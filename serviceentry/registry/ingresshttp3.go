package registry

import (
	"cmp"
	"fmt"
)

// chooseHTTP3 marks the servers that speak HTTP/3, too: those that end TLS, read requests and ask clients for no certificate, where one of the gateway's Services
// has their port for UDP, at the same port of the pods. At a port where a Gateway opens UDP itself there are none; nor at one whose certificates are found by name,
// which Envoy does not do by QUIC; nor behind proxies that speak the PROXY protocol, whose header datagrams have none of. Of others whose port is there for UDP it notes why.
func (o *IngressPorts) chooseHTTP3(services []*KubeService, proxied bool) {
	without := map[uint32]string{}
	for _, s := range o.Servers {
		switch {
		case s.Serves == ServesDatagrams:
			without[s.Listen] = fmt.Sprintf("port %d takes UDP by %s", s.Port, s.Gateway.Key)
		case s.OnDemand && without[s.Listen] == "":
			without[s.Listen] = fmt.Sprintf("port %d has so many certificates that they are found by the names that clients say, which is not done by QUIC", s.Port)
		}
	}
	for _, s := range o.Servers {
		if s.Serves != ServesTLSRequests || !comesByUDP(services, s.Port, s.Listen) {
			continue
		}
		if proxied {
			s.NoHTTP3 = "the PROXY protocol says who clients are, and datagrams have no such header"
		}
		if s.NoHTTP3 = cmp.Or(s.NoHTTP3, without[s.Listen], s.notByQUIC()); s.NoHTTP3 == "" {
			s.HTTP3 = s.Port
		}
	}
}

// notByQUIC says why what a server asks for cannot be had by QUIC, which has TLS 1.3 alone; "" where it can.
func (o *IngressServer) notByQUIC() string {
	switch {
	case o.TLS.Clients != NoneAsked:
		return "it asks clients for certificates, which is done by TCP alone"
	case o.TLS.Max != 0 && o.TLS.Max <= tls12:
		return "it has no TLS 1.3"
	default:
		return ""
	}
}

// comesByUDP says whether Services hand on what comes to a port by UDP to a port of the pods.
func comesByUDP(services []*KubeService, number, target uint32) bool {
	for _, k := range services {
		for _, p := range k.Ports {
			if !k.Untranslated && p.Protocol == UDP && p.Number == number && p.TargetPort == target {
				return true
			}
		}
	}
	return false
}
