package part

import (
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/wire"
)

// GatewayRef is the way to an egress gateway. A borrowed one, which its owner does not name as a gateway, has a cluster
// beside the one that it has as a service.
type GatewayRef struct {
	Ref      registry.Ref
	borrowed bool
}

// LegOf is the way that a service leaves by.
func LegOf(svc *registry.Service) GatewayRef { return GatewayRef{svc.Exit, svc.Borrowed} }

// Cluster is the name of its cluster.
func (l GatewayRef) Cluster() string {
	return wire.GatewayCluster(registry.GatewayPort, l.Ref.Host(), l.borrowed)
}
