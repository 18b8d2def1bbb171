package outbound

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// afterFetching makes of a table's last row one by which what comes asks first for the row that it is for, and is nobody's only when
// there is none. Questions come again with a header that nobody else's request can have, and requests by a listener of their own.
func afterFetching(port uint32, last *routev3.VirtualHost) *routev3.VirtualHost {
	for _, r := range last.Routes {
		if !envoy.IsAnswer(r) {
			envoy.OnlyReentered(r)
		}
	}
	last.Routes = append([]*routev3.Route{envoy.FetchQuestionRoute(wire.DecideName(port))}, last.Routes...)
	last.Routes = append(last.Routes, envoy.FetchRequestRoute(wire.RouteName(port), wire.AgainName(port)))
	return last
}
