package httproute

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/wire"
)

// FailShares has the shares of backends that are none answered with 500, as the Gateway API has it.
func FailShares(a *routev3.RouteAction, to []resolve.WeightedDestination) {
	if a == nil {
		return
	}
	for i, w := range a.GetWeightedClusters().GetClusters() {
		if to[i].Closed != nil {
			w.Name, a.ClusterNotFoundResponseCode = wire.NoCluster, routev3.RouteAction_INTERNAL_SERVER_ERROR
		}
	}
}

// FailAll does so for a route all of whose backends are none.
func FailAll(closed *routev3.Route) {
	if d := closed.GetDirectResponse(); d != nil {
		d.Status = 500
	}
}
