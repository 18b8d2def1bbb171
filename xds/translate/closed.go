package translate

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// closedAnswer is what they are for connections.
func closedAnswer(c registry.Closed) *routev3.Route {
	return nothing(accesslog.ClosedRoute+cut(c.Why, 300), configOf(c.By), c.Revision).row(asksAbout(""))
}

// closedRoutes answer where nothing is sent, rather than something else than the user asked for: requests and tunnels are
// told why at once, and the record has the reason and the object that is to be mended.
func closedRoutes(c registry.Closed, tunnels bool) []*routev3.Route {
	name := accesslog.ClosedRoute + cut(c.Why, 300)
	body := "sallyport: nothing is sent to %REQ(:AUTHORITY)%: " + strings.ReplaceAll(cut(c.By.String()+": "+c.String(), 1500), "%", "%%") + "\n"
	by := decidedBy(configOf(c.By))
	routes := []*routev3.Route{refuse(name, anyRequest(), 503, body, by)}
	if tunnels {
		routes = append([]*routev3.Route{refuse(name, anyTunnel(), 503, body, by)}, routes...)
	}
	revise(routes, c.Revision)
	return routes
}

// cut bounds what users wrote.
func cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "") + "…"
}
