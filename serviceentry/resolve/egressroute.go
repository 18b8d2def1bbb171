package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// AttachedRoutes is what routes of the Gateway API lead at a registration's port, of all that are attached to listeners for it, in their order. What
// none of them means is turned away: nothing leaves there but by them.
type AttachedRoutes struct {
	HTTP []route.HTTP
	TLS  []route.L4
	By   config.Key // the oldest of them
	Of   string     // its revision
}

// listed finds what routes of the registration's own namespace lead, by ports. Those that a route registers are among them in any case.
func (e Exit) listed(svc *registry.Service) (out map[uint32]AttachedRoutes, by []*registry.VirtualService) {
	for _, p := range svc.Ports {
		if svc.ByRoute(p) {
			if out == nil {
				out = map[uint32]AttachedRoutes{}
			}
			out[p.Number] = AttachedRoutes{By: svc.SourceOf(p), Of: svc.RevisionOf(p)}
		}
	}
	for _, v := range e.snap.EgressRoutes(svc, e.gateway) {
		by = append(by, v)
		for _, l := range v.Leaves {
			if l.Exit != e.gateway || l.Host != svc.Host {
				continue
			}
			if out == nil {
				out = map[uint32]AttachedRoutes{}
			}
			at, known := out[l.Port]
			if !known || len(at.HTTP)+len(at.TLS) == 0 {
				at.By, at.Of = v.Key, v.Revision
			}
			place := route.Scope{Gateway: l.Ref, Namespace: e.gateway.Namespace, Ports: []uint32{l.Port}}
			if l.TLS {
				at.TLS = append(at.TLS, route.L4At(v.TLS, place)...)
			} else {
				at.HTTP = append(at.HTTP, everyAt(v.HTTP, place)...)
			}
			out[l.Port] = at
		}
	}
	for port, at := range out {
		slices.SortStableFunc(at.HTTP, func(a, b route.HTTP) int { return route.Precedence(&a, &b) })
		out[port] = at
	}
	return out, by
}

// named are the ports of a host that routes of the Gateway API lead to, and whether TLS of apps goes to one.
func (b *GatewayRoutes) named(host string) (ports []uint32, tls func(uint32) bool) {
	passed := map[uint32]bool{}
	for _, at := range b.Attached {
		for _, h := range at.HTTP {
			for _, d := range h.Destinations {
				if d.Host == host {
					ports = append(ports, d.Port)
				}
			}
			for _, m := range h.Mirrors {
				if m.Host == host {
					ports = append(ports, m.Port)
				}
			}
		}
		for _, l := range at.TLS {
			for _, d := range l.Destinations {
				if d.Host == host {
					ports, passed[d.Port] = append(ports, d.Port), true
				}
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports), func(port uint32) bool { return port == httpsPort || passed[port] }
}

// httpsPort is where a route leads requests inside of TLS, whatever is not said of it.
const httpsPort = 443

// follows are the routes of requests to a port of the row; listed says that they are all that leaves there.
func (r *ExitRow) follows() (http []route.HTTP, listed bool) {
	if r.GatewayRoutes == nil {
		return nil, r.Service.ByRoute(r.Port)
	}
	at, listed := r.GatewayRoutes.Attached[r.Port.Number]
	if r.GatewayRoutes.Client != "" && len(r.GatewayRoutes.HTTP) > 0 {
		return r.GatewayRoutes.HTTP, listed // clients' own come before what all follow
	}
	return route.Join(r.GatewayRoutes.HTTP, at.HTTP), listed
}

// by is the object that a row's routes are written in, where they are several the oldest.
func (r *ExitRow) by() *registry.VirtualService {
	if r.GatewayRoutes != nil {
		if at, listed := r.GatewayRoutes.Attached[r.Port.Number]; listed && len(r.GatewayRoutes.HTTP)+len(r.GatewayRoutes.TLS)+len(r.GatewayRoutes.TCP) == 0 {
			return &registry.VirtualService{Key: at.By, Revision: at.Of}
		}
		if len(r.GatewayRoutes.By) > 0 {
			return r.GatewayRoutes.By[0]
		}
	}
	return &registry.VirtualService{Key: r.Service.SourceOf(r.Port), Revision: r.Service.RevisionOf(r.Port)}
}
