package egressgateway

import (
	"net/netip"
	"strings"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate/farend"
)

// asOutside is a service as an exit reaches it: by DNS and by nothing else. An exit has no destination that its client
// chose, so resolution NONE means the name. Names end with the root's dot: without it Envoy's resolver answers from
// /etc/hosts, and "localhost" and all below it with the proxy's own loopback, past the checks of DNS answers.
func asOutside(svc *registry.Service, far registry.UpstreamRestrictions) *registry.Service {
	out := *svc
	if out.Resolution == registry.None {
		out.Resolution = registry.DNS
	}
	out.Endpoints = farend.Reachable(svc.Endpoints, far)
	if out.Resolution == registry.DNS && len(out.Endpoints) == 0 && !svc.Wildcard() {
		out.Endpoints = []registry.Endpoint{{Address: svc.Host}}
	}
	for i, e := range out.Endpoints {
		if _, err := netip.ParseAddr(e.Address); err != nil && out.Resolution == registry.DNS {
			out.Endpoints[i].Address = strings.TrimSuffix(e.Address, ".") + "."
		}
	}
	return &out
}
