package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkBound warns of Gateways that let in none of a VirtualService's hosts, of hosts that none of them lets in, and of routes that none of their servers has a use for: nobody is
// led by these.
func (w *world) checkBound(r *report, v *networking.VirtualService) {
	names := route.Gateways(v.Gateways, r.of.Namespace)
	if len(v.Hosts) == 0 || slices.Equal(names, []string{route.Mesh}) {
		return
	}
	all := slices.Contains(names, route.Mesh) // or one is not known, so that hosts and routes may be for that
	let, lets := make([]bool, len(v.Hosts)), false
	reads, passes := true, true
	for _, name := range names {
		servers, known := w.serversOf(name)
		if all = all || !known; !known {
			continue
		}
		one := false
		for j, h := range v.Hosts {
			for _, s := range servers {
				if !s.Lets(r.of.Namespace, route.FullName(h, r.of.Namespace)) {
					continue
				}
				let[j], one = true, true
				reads, passes = reads && s.Serves.ReadsRequests(), passes && s.Serves.Unread()
			}
		}
		if lets = lets || one; !one {
			i := slices.IndexFunc(v.Gateways, func(g string) bool { return route.Gateways([]string{g}, r.of.Namespace)[0] == name })
			r.warn(at("spec.gateways", i), v.Gateways[i], "none of its servers lets namespace "+r.of.Namespace+" lead one of spec.hosts, so nobody is led by the routes there", "name a host that the Gateway has (servers.hosts), or remove it here")
		}
	}
	w.checkLeaving(r, v)
	w.checkBoundExport(r, v, names)
	if all || !lets {
		return
	}
	for j, h := range v.Hosts {
		if !let[j] {
			r.warn(at("spec.hosts", j), h, "none of the Gateways lets namespace "+r.of.Namespace+" lead it (servers.hosts), so nobody is led by the routes to it", "name it in one of the Gateways, or remove it here")
		}
	}
	switch {
	case reads && len(v.Tls) > 0:
		r.warn("spec.tls", nil, servers("reads requests"), fixRead)
	case reads && len(v.Tcp) > 0:
		r.warn("spec.tcp", nil, servers("reads requests"), fixRead)
	case passes && len(v.Http) > 0:
		r.warn("spec.http", nil, servers("passes on what comes without reading requests"), "write them into tls (by sniHosts, where TLS is passed on) or tcp, or have the Gateway read requests: protocol HTTP, or HTTPS with tls.mode SIMPLE and credentialName")
	}
}

func servers(do string) string {
	return "each server of the Gateways that lets the hosts in " + do + ", which these routes are not for, so nobody is led by them"
}

const fixRead = "write them into http, or have the Gateway pass it on: protocol TCP, or TLS with tls.mode PASSTHROUGH"

// serversOf are the servers of a Gateway, "NAMESPACE/NAME"; false where it is not known.
func (w *world) serversOf(gateway string) ([]registry.GatewayServer, bool) {
	if w.servers == nil {
		w.servers = map[string][]registry.GatewayServer{}
	}
	list, made := w.servers[gateway]
	if o := w.gateways[gateway]; o != nil && !made {
		list, made = registry.ServersOf(o), true
		w.servers[gateway] = list
	}
	return list, made
}

// checkLeaving warns of egress Gateways by which none of a VirtualService's hosts leaves, as far as these are registered: nothing comes there for the routes.
func (w *world) checkLeaving(r *report, v *networking.VirtualService) {
	for _, h := range v.Hosts { // of others it is said elsewhere, or they may leave there by a pattern
		if n := host.Name(route.FullName(h, r.of.Namespace)); n.IsWildcard() || len(w.hosts[n]) == 0 {
			return
		}
	}
	for i, g := range v.Gateways {
		p := w.openedBy(route.Gateways([]string{g}, r.of.Namespace)[0])
		if !p.leaving || len(p.ingresses) > 0 {
			continue
		}
		if slices.ContainsFunc(p.exits, func(e resolve.Exit) bool {
			return slices.ContainsFunc(v.Hosts, func(h string) bool {
				_, leaves := e.Host(route.FullName(h, r.of.Namespace))
				return leaves
			})
		}) {
			continue
		}
		r.warn(at("spec.gateways", i), g, "it is an egress gateway's, by which none of spec.hosts leaves, so nobody is led by the routes there",
			fmt.Sprintf("let the host leave by it (annotation %s: %s/%s of its ServiceEntry), or lead workloads to its Service by a route that is for the mesh", GatewayAnnotation, p.services[0].namespace, p.services[0].name))
	}
}

// checkBoundExport warns of Gateways to whose namespace a VirtualService is not exported: their pods do not see it.
func (w *world) checkBoundExport(r *report, v *networking.VirtualService, names []string) {
	exports := v.ExportTo
	if len(exports) == 0 {
		exports = w.cfg.DefaultVirtualServiceExportTo
	}
	sees := func(ns string) bool { return exportReaches(exports, r.of.Namespace, ns) }
	for _, name := range names {
		p := w.openedBy(name)
		own, _, _ := strings.Cut(name, "/")
		namespaces := p.namespaces()
		switch {
		case len(p.ingresses) > 0:
		case p.leaving: // of egress gateways the Gateway's own is asked
			namespaces = []string{own}
		default:
			continue
		}
		if !slices.ContainsFunc(namespaces, sees) {
			r.warn("spec.exportTo", strings.Join(exports, ", "), fmt.Sprintf("namespace %s, where Gateway %s counts, is not among them, so nobody is led by the routes there", strings.Join(namespaces, ", "), name), "name "+namespaces[0]+", too")
		}
	}
}
