package translate

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// asOutside is a service as an exit reaches it: by DNS and by nothing else. An exit has no destination that its client
// chose, so resolution NONE means the name. Names end with the root's dot: without it Envoy's resolver answers from
// /etc/hosts, and "localhost" and all below it with the proxy's own loopback, past the checks of DNS answers. At a
// gateway (shared), addresses that are the gateway's own host are nobody's endpoints: its administration is there.
func asOutside(svc *registry.Service, shared bool) *registry.Service {
	out := *svc
	if out.Resolution == registry.None {
		out.Resolution = registry.DNS
	}
	out.Endpoints = slices.Clone(svc.Endpoints)
	if out.Resolution == registry.DNS && len(out.Endpoints) == 0 && !svc.Wildcard() {
		out.Endpoints = []registry.Endpoint{{Address: svc.Host}}
	}
	out.Endpoints = slices.DeleteFunc(out.Endpoints, func(e registry.Endpoint) bool { return shared && ownHost(e.Address) })
	if len(out.Endpoints) == 0 && len(svc.Endpoints) > 0 {
		out.Resolution = registry.Static // nothing is left of what was written: that leads nowhere, not elsewhere
	}
	for i, e := range out.Endpoints {
		if _, err := netip.ParseAddr(e.Address); err != nil && out.Resolution == registry.DNS {
			out.Endpoints[i].Address = strings.TrimSuffix(e.Address, ".") + "."
		}
	}
	return &out
}

// ownHost says whether an endpoint is on the host of whoever connects to it.
func ownHost(address string) bool {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return strings.HasPrefix(address, "unix:")
	}
	addr = addr.Unmap()
	return addr.IsLoopback() || addr.IsUnspecified() || addr.IsLinkLocalUnicast() || addr.IsMulticast()
}

// isLocal says whether a host, or a wildcard's suffix, means the resolver's own host (RFC 6761 section 6.3). A wildcard's
// names are looked up as they come, so the only way is not to take them.
func isLocal(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
