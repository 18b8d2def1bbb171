package farend

import (
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// ClosedAnswer is the row of connections.
func ClosedAnswer(c registry.ClosedPort) *routev3.Route {
	return ClosedTo(c).Row(envoy.MatchQuestion(""))
}

// ClosedTo is the answer in it.
func ClosedTo(c registry.ClosedPort) envoy.Answer {
	return envoy.ClosedAnswer(closedName(c), envoy.ObjectRef(c.By), c.Revision)
}

// NoRoute ends what none of a user's routes means, and NoRouteAnswer connections.
func NoRoute(by config.Key, revision string, match *routev3.RouteMatch) *routev3.Route {
	body := "sallyport: no route of " + strings.ReplaceAll(by.String(), "%", "%%") + " is for this request to %REQ(:AUTHORITY)%\n"
	return envoy.WithRevision(envoy.Refuse(wire.NoRoute, match, 404, body, envoy.DecidedByMetadata(envoy.ObjectRef(by))), revision)
}

// NoRouteAnswer is the answer about them.
func NoRouteAnswer(by config.Key, revision string) envoy.Answer {
	return envoy.ClosedAnswer(wire.NoRoute, envoy.ObjectRef(by), revision)
}

// ClosedRequests is that of requests, and ClosedTunnels of CONNECT.
func ClosedRequests(c registry.ClosedPort) *routev3.Route {
	return closedTo(envoy.MatchAnyRequest(), c)
}

// ClosedTunnels is that of CONNECT.
func ClosedTunnels(c registry.ClosedPort) *routev3.Route { return closedTo(envoy.MatchAnyTunnel(), c) }

func closedTo(match *routev3.RouteMatch, c registry.ClosedPort) *routev3.Route {
	body := "sallyport: nothing is sent to %REQ(:AUTHORITY)%: " + strings.ReplaceAll(cut(c.By.String()+": "+c.String(), 1500), "%", "%%") + "\n"
	return envoy.WithRevision(envoy.Refuse(closedName(c), match, 503, body, envoy.DecidedByMetadata(envoy.ObjectRef(c.By))), c.Revision)
}

func closedName(c registry.ClosedPort) string { return wire.ClosedRoute + cut(c.Why, 300) }

// cut bounds what users wrote.
func cut(s string, bytes int) string {
	if len(s) <= bytes {
		return s
	}
	return strings.ToValidUTF8(s[:bytes], "") + "…"
}

// NotRegistered is what a refused client reads.
const NotRegistered = "sallyport: %REQ(:AUTHORITY)% is not registered, so nothing may leave for it. " +
	"To allow it, apply a ServiceEntry (networking.istio.io/v1, location MESH_EXTERNAL) with this host and port.\n"
