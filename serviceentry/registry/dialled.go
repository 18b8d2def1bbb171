package registry

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config/inside"
)

// Dialled says whether a gateway connects the service's TCP ports to the address that the client chose, which is what resolution
// NONE means: addresses were written for that.
func (s *Service) Dialled() bool {
	return s.External && s.Resolution == None && !s.Exit.IsZero() && !s.Wildcard() && len(s.Addresses) > 0
}

// dialled are those of the service's addresses and ranges that a gateway takes from a client. They are held to what names may
// resolve to. IPv6 ranges are not taken: too much can hide in their addresses.
func (s *Snapshot) dialled(svc *Service) (taken []netip.Prefix) {
	allowed := s.Mesh.DNS.PrivateFor(svc.Namespace)
	for _, p := range svc.Addresses {
		switch {
		case inside.OwnHostIn(p): // for nobody, whatever is allowed
		case p.IsSingleIP() && (allowed.Refuses(svc.Host, p.Addr()) || s.isOwn(p.Addr())):
		case !p.IsSingleIP() && (!p.Addr().Is4() || allowed.RefusesRange(svc.Host, p) || slices.ContainsFunc(s.own, p.Contains)):
		default:
			taken = append(taken, p)
		}
	}
	return taken
}

// Takes says whether the far end is reached at an address that a client dialled.
func (f UpstreamRestrictions) Takes(ip netip.Addr) bool {
	return slices.ContainsFunc(f.Dialled, func(p netip.Prefix) bool { return p.Contains(ip) })
}
