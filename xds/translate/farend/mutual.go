package farend

import (
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// Mutual is the mesh's TLS towards the endpoints of a service.
type Mutual struct {
	To                   resolve.Mutual
	SNI                  string
	Identities, Prefixes []string // whom an endpoint may prove to be; how that may begin
}

// MutualTo is that towards a port of a service, or a subset, whose endpoints have these accounts: one of them, in the service's namespace,
// is whom an endpoint has to be. Where an account is not known it may be any there. What the entry says (subjectAltNames), or a
// rule does, counts in their place.
func MutualTo(to resolve.Mutual, svc *registry.Service, port registry.Port, subset string, accounts []string, tls *registry.TLSSettings, trust envoy.TrustDomains) Mutual {
	if to == resolve.MutualNever {
		return Mutual{}
	}
	m := Mutual{To: to, SNI: resolve.SNI(port.Number, subset, svc.Host), Identities: slices.Sorted(slices.Values(svc.SANs))}
	if tls != nil && tls.SNI != "" {
		m.SNI = tls.SNI
	}
	if tls != nil && len(tls.SANs) > 0 {
		m.Identities = slices.Sorted(slices.Values(tls.SANs))
	}
	if len(m.Identities) > 0 {
		return m
	}
	for _, a := range accounts {
		if a == "" {
			m.Prefixes = trust.Namespace(svc.Namespace)
		} else {
			m.Identities = append(m.Identities, trust.Account(svc.Namespace, a)...)
		}
	}
	if len(accounts) == 0 { // a rule asks for it where nobody seems to take it
		m.Prefixes = trust.Namespace(svc.Namespace)
	}
	return m
}

func (m Mutual) apply(c *clusterv3.Cluster, port registry.Port, http2 bool) {
	if m.To == resolve.MutualNever {
		return
	}
	socket := envoy.PeerTLS(m.SNI, m.Identities, m.Prefixes, meshALPN(c, port, http2)...)
	if m.To == resolve.MutualAlways {
		c.TransportSocket = socket
		return
	}
	envoy.TLSWhereMarked(c, socket)
}

// meshALPN is what is offered: what the far end's proxy knows us by comes first, what is spoken inside last, where that is known: to
// where clients go themselves it is what they speak.
func meshALPN(c *clusterv3.Cluster, port registry.Port, http2 bool) []string {
	switch {
	case port.Protocol.IsHTTP() && !http2 && c.GetType() == clusterv3.Cluster_ORIGINAL_DST:
		return []string{wire.ALPNMeshHTTP, wire.ALPNMesh}
	case http2:
		return []string{wire.ALPNMeshHTTP2, wire.ALPNMesh, "h2"}
	case port.Protocol.IsHTTP():
		return []string{wire.ALPNMeshHTTP, wire.ALPNMesh, envoy.HTTP11}
	default:
		return []string{wire.ALPNMeshTCP, wire.ALPNMesh}
	}
}
