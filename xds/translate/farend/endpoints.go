package farend

import (
	"slices"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// SealLoad is Load as a resource.
func SealLoad(cluster string, port registry.Port, endpoints []registry.Endpoint) *resource.Resource {
	return envoy.Seal(resource.Endpoints, cluster, Load(cluster, port, endpoints))
}

// Load lists a service's endpoints for one of its ports.
func Load(cluster string, port registry.Port, endpoints []registry.Endpoint) *endpointv3.ClusterLoadAssignment {
	l := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	if len(endpoints) == 0 {
		return l
	}
	group := &endpointv3.LocalityLbEndpoints{}
	for _, e := range endpoints {
		to := envoy.LBEndpoint(envoy.TCPAddress(e.Address, e.PortOf(port)), e.Weight)
		if e.Meshed(e.PortOf(port)) {
			envoy.TakingTLS(to)
		}
		group.LbEndpoints = append(group.LbEndpoints, to)
	}
	l.Endpoints = append(l.Endpoints, group)
	return l
}

// Within is a service as a subset of its endpoints. One that has none of them leads nowhere: not to the name, and not to where
// the client goes.
func Within(svc *registry.Service, s registry.Subset) *registry.Service {
	if len(s.Labels) == 0 || svc.Tabled() {
		return svc
	}
	part := *svc
	part.Endpoints = s.Of(svc.Endpoints)
	if len(part.Endpoints) == 0 {
		part.Resolution = registry.Static
	}
	return &part
}

// Reachable are the endpoints that are connected to. The slice is the caller's.
func Reachable(endpoints []registry.Endpoint, far registry.FarEnd) []registry.Endpoint {
	return slices.DeleteFunc(slices.Clone(endpoints), func(e registry.Endpoint) bool { return !far.Leads(e) })
}
