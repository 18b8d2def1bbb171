package translate

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/accesslog"
)

// What an object asks for and cannot be kept is closed, rather than something else done than the user asked for: requests and
// tunnels are told why at once, and the record has the reason and the object that is to be mended.

// closedAnswer is the row of connections.
func closedAnswer(c registry.Closed) *routev3.Route {
	return nothing(closedName(c), configOf(c.By), c.Revision).row(asksAbout(""))
}

// closedRequests is that of requests, and closedTunnels of CONNECT.
func closedRequests(c registry.Closed) *routev3.Route { return closedTo(anyRequest(), c) }
func closedTunnels(c registry.Closed) *routev3.Route  { return closedTo(anyTunnel(), c) }

func closedTo(match *routev3.RouteMatch, c registry.Closed) *routev3.Route {
	body := "sallyport: nothing is sent to %REQ(:AUTHORITY)%: " + strings.ReplaceAll(cut(c.By.String()+": "+c.String(), 1500), "%", "%%") + "\n"
	return revise(refuse(closedName(c), match, 503, body, decidedBy(configOf(c.By))), c.Revision)
}

func closedName(c registry.Closed) string { return accesslog.ClosedRoute + cut(c.Why, 300) }

// cut bounds what users wrote.
func cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "") + "…"
}
