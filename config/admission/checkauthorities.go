package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkAuthorities warns of Hosts that routes of the mesh give requests for what leaves by an egress gateway: that is told by the Host which host is meant, and asks the server for it as it is registered.
func (w *world) checkAuthorities(r *report, v *networking.VirtualService) {
	for _, h := range route.Parse(&r.of, v).HTTP {
		if !meshOnly(&h) || !h.Renames() {
			continue
		}
		for i, d := range h.Destinations {
			n, authority := host.Name(d.Host), h.AuthorityTo(i)
			if authority == "" || n.IsWildcard() || !w.leavesByGateway(n) || asksFor(authority, d.Host) {
				continue
			}
			r.warn(at("spec."+h.Field, writtenAuthority(&h, i)), authority, leavesAsRegistered(d.Host), fixAuthority)
			break
		}
	}
}

const fixAuthority = "have the egress gateway write it: bind the VirtualService, of the namespace that registers the host, to a Gateway that selects it; or let the host leave straight from the pods with the annotation " + GatewayAnnotation + ": direct"

func leavesAsRegistered(name string) string {
	return fmt.Sprintf("%s leaves by an egress gateway, which is told by the Host where a request goes, so that the server is asked for %s, and not for this", name, name)
}

// meshOnly says whether a match of the route counts in the mesh, and at no Gateway: where one counts at a gateway, that may write what pods' proxies do not.
func meshOnly(h *route.HTTP) bool {
	return slices.ContainsFunc(h.Matches, func(m route.HTTPMatch) bool { return slices.Equal(m.Gateways, []string{route.Mesh}) })
}

// asksFor says whether a Host is a host's own.
func asksFor(authority, name string) bool {
	own, _, _ := strings.Cut(strings.ToLower(authority), ":")
	return own == name
}

// writtenAuthority is the field that gives requests to a destination their Host.
func writtenAuthority(h *route.HTTP, destination int) string {
	switch {
	case h.Destinations[destination].Headers.Request.Authority != "":
		return "route"
	case h.Rewrite != nil && h.Rewrite.Authority != "":
		return "rewrite.authority"
	default:
		return "headers.request"
	}
}
