package admission

import (
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// deadEnds says of a route's backends that are there where proxies send nothing: the status does not tell, as the API has no word for it. Of those of which the status tells nothing is said.
func (c *conditions) deadEnds(r gatewayapi.Route, told []status.Unresolved) {
	world, said := c.s.World(), map[string]bool{}
	for _, b := range told {
		said[b.Field()] = true
	}
	for _, a := range r.Attach(world) {
		if a.Is() {
			continue
		}
		if a.Service.Name != "" {
			c.authorities(r, a)
		}
		ways := c.waysOf(r, a)
		if !ways.Whole() {
			continue
		}
		for _, b := range r.Backends() {
			d, problem := r.Destination(world, b.BackendObjectReference, a.Way())
			if said[b.Field()] || problem.Is() || b.Authorizes() {
				continue
			}
			if closed := ways.Closed(b.Rule(), b.Mirrors(), d); closed != nil {
				said[b.Field()] = true
				c.deadEnd(b, *closed)
			}
		}
	}
}

func (c *conditions) deadEnd(b route.Backend, closed registry.ClosedPort) {
	follows := "what is led there is answered with 500"
	switch {
	case b.Mirrors():
		follows = "nothing is mirrored there"
	case !requests(c.report.of.Kind):
		follows = "what is led there is closed"
	}
	_, why, _ := strings.Cut(closed.Why, ": ")
	c.warn("spec."+b.Field(), string(b.Name), why+"; "+follows, closed.Fix)
}

// requests says whether routes of a kind are of requests.
func requests(kind config.Kind) bool {
	return kind == config.KindHTTPRoute || kind == config.KindGRPCRoute
}

// waysOf asks what becomes of what a route leads, for one of its parents.
func (c *conditions) waysOf(r gatewayapi.Route, a gatewayapi.Attachment) *resolve.DestinationWays {
	key := c.report.of.Key
	ways, hostnames := resolve.WaysOf(key), r.Hostnames
	if len(hostnames) == 0 {
		hostnames = []string{"*"}
	}
	switch {
	case a.Service.Name != "":
		resolve.SidecarIn(c.s, key.Namespace, config.Key{}, "", registry.SecretsUnseen).Ask(ways, registry.Ref(a.Service).Host())
	case a.Egress:
		for _, l := range a.Leaves {
			resolve.GatewayOf(c.s, c.s.StandsFor(a.Stands), registry.SecretsUnseen).Ask(ways, l.Host)
		}
	default:
		for _, ingress := range c.ingressesOf(a.Gateway) {
			for _, h := range hostnames {
				ingress.Ask(ways, a.Gateway, key.Namespace, h)
			}
		}
	}
	return ways
}

// ingressesOf are the proxies of a Gateway.
func (g *gatewayStatuses) ingressesOf(gateway config.Key) []resolve.Ingress {
	list, found := g.ingresses[gateway]
	if !found {
		pods, _ := g.s.IngressesOf(gateway)
		for _, p := range pods {
			list = append(list, resolve.IngressOf(g.s, p.Ingress, registry.SecretsUnseen))
		}
		g.ingresses[gateway] = list
	}
	return list
}

// authorities is what checkAuthorities says, of a route that pods follow.
func (c *conditions) authorities(r gatewayapi.Route, a gatewayapi.Attachment) {
	said := map[string]bool{}
	for _, h := range a.ServiceRoutes(c.s.World(), r).HTTP {
		rule, _, _ := strings.Cut(h.Field, ".")
		if !h.Renames() {
			continue
		}
		for i, d := range h.Destinations {
			authority, svc := h.AuthorityTo(i), c.s.Visible(d.Host, c.report.of.Namespace, nil)
			if svc == nil || svc.Exit.IsZero() || svc.Wildcard() || authority == "" || asksFor(authority, d.Host) || said[rule] {
				continue
			}
			said[rule] = true
			field := "filters"
			if h.Destinations[i].Headers.Request.Authority != "" {
				field = "backendRefs"
			}
			c.warn("spec."+rule+"."+field, authority, leavesAsRegistered(d.Host), "let the host leave straight from the pods with the annotation "+GatewayAnnotation+": direct, or remove it")
		}
	}
}
