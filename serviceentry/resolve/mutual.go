package resolve

import (
	"fmt"
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Mutual says whether a proxy speaks mutual TLS of the mesh to a service.
type Mutual uint8

// The ways.
const (
	MutualNever  Mutual = iota
	MutualByEach        // to each endpoint that takes it
	MutualAlways
)

// MeshTLS is what counts for mutual TLS towards a service of the mesh.
type MeshTLS struct {
	// Meshed says that it is a service of a mesh that speaks mutual TLS.
	Meshed bool
	// Accounts are the service accounts of its endpoints that take mutual TLS ("" for those of which none is known), and Auto says that they
	// are spoken to by it.
	Accounts []string
	Auto     bool
	// EntryConfined and RuleConfined are of a proxy that many namespaces share: what an entry, or a rule, says of whom endpoints may prove to be (subjectAltNames) counts
	// for the service's own namespace only. It would lend others the proxy's identity otherwise, where pods take it for their own clients'.
	EntryConfined, RuleConfined bool
}

// confined is that at a proxy of a namespace, which like the root namespace may use its identity as it likes.
func (m MeshTLS) confined(s *registry.Snapshot, svc *registry.Service, rule *registry.DestinationRule, ns string) MeshTLS {
	theirs := func(of string) bool { return of != ns && of != s.Mesh.RootNamespace }
	m.EntryConfined, m.RuleConfined = theirs(svc.Namespace), rule != nil && theirs(rule.Key.Namespace)
	return m
}

func meshTLS(s *registry.Snapshot, svc *registry.Service) (m MeshTLS) {
	if svc.External || !s.Mesh.MutualTLS {
		return m
	}
	m.Meshed = true
	m.Auto, m.Accounts = s.Mesh.AutoMTLS, registry.AccountsOf(svc.Endpoints)
	if set := s.EndpointSet(svc.Host); svc.Tabled() && set != nil {
		m.Accounts = set.Accounts
	}
	return m
}

// allTake are the ports of a headless service at which all of its pods take mutual TLS.
func (m MeshTLS) allTake(s *registry.Snapshot, svc *registry.Service) (ports []uint32) {
	if !svc.Headless() || len(m.Accounts) == 0 {
		return nil
	}
	list := s.EndpointsOf(svc)
	for _, p := range svc.Ports {
		if !slices.ContainsFunc(list, func(e registry.Endpoint) bool { return !e.Meshed(e.PortOf(p)) }) {
			ports = append(ports, p.Number)
		}
	}
	return ports
}

// towards says it for a port, where the proxy chooses the endpoint. As in Istio a DestinationRule's word counts; otherwise it is as each
// endpoint's proxy and PeerAuthentications say.
func (m MeshTLS) towards(t *registry.TLSSettings) Mutual {
	switch {
	case !m.Meshed || (t != nil && t.Mode != registry.TLSIstioMutual):
		return MutualNever
	case t != nil:
		return MutualAlways
	case !m.Auto || len(m.Accounts) == 0:
		return MutualNever
	default:
		return MutualByEach
	}
}

// Mutual says it for a port. Clients of a headless Service choose a pod themselves: all of its pods take mutual TLS, or none is spoken to
// by it.
func (h *SidecarHost) Mutual(p registry.Port) Mutual {
	by := h.towards(h.Rule.TLSFor(p.Number))
	switch {
	case by != MutualByEach || !h.Service.Headless():
		return by
	case slices.Contains(h.AllTake, p.Number):
		return MutualAlways
	default:
		return MutualNever
	}
}

// Mutual says it for a port. The gateway chooses the pod, of a headless Service too.
func (t *IngressTarget) Mutual(p registry.Port) Mutual { return t.towards(t.Rule.TLSFor(p.Number)) }

// WithoutMutual is the host for proxies that have no certificate to show in the mesh.
func (h SidecarHost) WithoutMutual() SidecarHost {
	h.MeshTLS, h.AllTake = MeshTLS{}, nil
	return h
}

// SNI is the TLS name by which a port, or a subset of it, is spoken to in the mesh; Istio's form.
func SNI(port uint32, subset, host string) string {
	return fmt.Sprintf("outbound_.%d_.%s_.%s", port, subset, host)
}
