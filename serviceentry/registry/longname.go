package registry

import (
	"fmt"
	"slices"
)

// longestTLSName is how many bytes a TLS name has at most (RFC 6066 section 3 leaves it to DNS; OpenSSL and BoringSSL take no more).
const longestTLSName = 255

// longestDialled is an address with its port, as a tunnel's name has it at the longest.
const longestDialled = len("~[2001:0db8:0000:0000:0000:0000:0000:0001]:65535")

// RegisteredBySeveral says whether several namespaces registered a host, or patterns that cover it, to leave by the same gateway: who goes there
// says which registration is meant.
func (s *Snapshot) RegisteredBySeveral(svc *Service) bool {
	other := func(o *Service) bool {
		return o.External && o.Exit == svc.Exit && o.Namespace != svc.Namespace
	}
	if slices.ContainsFunc(s.Services(svc.Host), other) {
		return true
	}
	for list := range s.patternsOver(svc.Host) {
		if slices.ContainsFunc(list, other) {
			return true
		}
	}
	return false
}

// TunnelNameTooLong says that a name does not fit into the TLS name by which a tunnel tells a gateway whereto it wants, "outbound_.PORT_.SUBSET_.HOST", and
// how long it may be. means is the namespace in the subset; "" for none.
func TunnelNameTooLong(name string, port uint32, means string, dialled bool) (most int, is bool) {
	most = longestTLSName - len("outbound_.") - len("_._.") - len(means)
	for ; port > 0; port /= 10 { // its digits
		most--
	}
	if dialled {
		most -= longestDialled
	}
	return most, len(name) > most
}

// unnamable closes a port whose connections would be tunnelled by a name that is too long for one. The namespace counts, whether or not it has to be
// said: what another one registers changes nothing here.
func (s *Snapshot) unnamable(svc *Service, port Port) (ClosedPort, bool) {
	if port.Protocol.IsHTTP() || port.Protocol == UDP {
		return ClosedPort{}, false
	}
	most, long := TunnelNameTooLong(svc.Host, port.Number, svc.Namespace, svc.Dialled() && port.Protocol != TLS)
	if !long {
		return ClosedPort{}, false
	}
	return ClosedPort{
		By:  svc.Source,
		Why: fmt.Sprintf("hosts: the name has %d bytes, and %s to port %d of the egress gateway can name hosts of at most %d for namespace %s", len(svc.Host), port.Protocol, port.Number, most, svc.Namespace),
		Fix: fmt.Sprintf("let the entry leave straight from the pod with the annotation %s: %s, or use a shorter name that the server has", GatewayAnnotation, ExitDirect),
	}, true
}
