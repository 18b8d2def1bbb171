package part

import (
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/wire"
)

// Leg is the way to an egress gateway. A borrowed one, which its owner does not name as a gateway, has a cluster
// beside the one that it has as a service.
type Leg struct {
	Ref      registry.Ref
	borrowed bool
}

// LegOf is the way that a service leaves by.
func LegOf(svc *registry.Service) Leg { return Leg{svc.Exit, svc.Borrowed} }

// Cluster is the name of its cluster.
func (l Leg) Cluster() string {
	return wire.GatewayCluster(registry.GatewayPort, l.Ref.Host(), l.borrowed)
}
