package registry

// chooseHTTP3 marks the servers that speak HTTP/3, too: those that end TLS, read requests and ask clients for no certificate, where one of the gateway's Services
// has their port for UDP, at the same port of the pods. At a port where a Gateway opens UDP itself there are none; nor at one whose certificates are found by name,
// which Envoy does not do by QUIC.
func (o *IngressPorts) chooseHTTP3(services []*KubeService) {
	without := map[uint32]bool{}
	for _, s := range o.Servers {
		if s.OnDemand || s.Serves == ServesDatagrams {
			without[s.Listen] = true
		}
	}
	for _, s := range o.Servers {
		if !without[s.Listen] && s.speaksHTTP3() && comesByUDP(services, s.Port, s.Listen) {
			s.HTTP3 = s.Port
		}
	}
}

// speaksHTTP3 says whether what a server asks for can be had by QUIC, which has TLS 1.3 alone.
func (o *IngressServer) speaksHTTP3() bool {
	return o.Serves == ServesTLSRequests && o.TLS.Clients == NoneAsked && (o.TLS.Max == 0 || o.TLS.Max > tls12)
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
