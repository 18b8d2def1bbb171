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

// mutual notes what a service of the mesh is spoken to by.
func (h *SidecarHost) mutual(s *registry.Snapshot) {
	svc := h.Service
	if svc.External || !s.Mesh.MutualTLS {
		return
	}
	h.Meshed = true
	list := s.EndpointsOf(svc)
	h.Auto, h.Accounts = s.Mesh.AutoMTLS, registry.AccountsOf(svc.Endpoints)
	if set := s.EndpointSet(svc.Host); svc.Tabled() && set != nil {
		h.Accounts = set.Accounts
	}
	if !svc.Headless() || len(h.Accounts) == 0 {
		return
	}
	for _, p := range svc.Ports {
		if !slices.ContainsFunc(list, func(e registry.Endpoint) bool { return !e.Meshed(e.PortOf(p)) }) {
			h.AllTake = append(h.AllTake, p.Number)
		}
	}
}

// Mutual says it for a port. As in Istio a DestinationRule's word counts; otherwise it is as each endpoint's proxy and
// PeerAuthentications say. Clients of a headless Service choose a pod themselves: all of its pods take mutual TLS, or none is spoken to
// by it.
func (h *SidecarHost) Mutual(p registry.Port) Mutual {
	t := h.Rule.TLSFor(p.Number)
	switch {
	case !h.Meshed || (t != nil && t.Mode != registry.TLSIstioMutual):
		return MutualNever
	case t != nil:
		return MutualAlways
	case !h.Auto || len(h.Accounts) == 0:
		return MutualNever
	case !h.Service.Headless():
		return MutualByEach
	case slices.Contains(h.AllTake, p.Number):
		return MutualAlways
	default:
		return MutualNever
	}
}

// WithoutMutual is the host for proxies that have no certificate to show in the mesh.
func (h SidecarHost) WithoutMutual() SidecarHost {
	h.Meshed, h.Auto, h.Accounts, h.AllTake = false, false, nil, nil
	return h
}

// SNI is the TLS name by which a port, or a subset of it, is spoken to in the mesh; Istio's form.
func SNI(port uint32, subset, host string) string {
	return fmt.Sprintf("outbound_.%d_.%s_.%s", port, subset, host)
}
