package farend

import (
	"math"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// SealLoadAssignment is Load as a resource.
func SealLoadAssignment(cluster string, port registry.Port, groups ...registry.EndpointGroup) *resource.Resource {
	return envoy.Seal(resource.Endpoints, cluster, LoadAssignment(cluster, port, groups...))
}

// LoadAssignment lists a service's endpoints for one of its ports, in the groups in which they are asked.
func LoadAssignment(cluster string, port registry.Port, groups ...registry.EndpointGroup) *endpointv3.ClusterLoadAssignment {
	l := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	for _, g := range groups {
		if len(g.Endpoints) == 0 {
			continue
		}
		group := &endpointv3.LocalityLbEndpoints{Priority: g.Priority}
		if g.Weight > 0 { // which Envoy reads only where there is a locality, known or not
			group.Locality, group.LoadBalancingWeight = localityOf(g), wrapperspb.UInt32(g.Weight)
		}
		part := shareOf(g.Endpoints)
		for _, e := range g.Endpoints {
			if !e.Serves(port) { // known by the gateway of its network only, and there is none; or without this port
				continue
			}
			to := envoy.LBEndpoint(envoy.TCPAddress(e.Address, e.PortOf(port)), part(e.Weight))
			if e.Meshed(e.PortOf(port)) {
				envoy.MarkTLSEndpoint(to)
			}
			group.LbEndpoints = append(group.LbEndpoints, to)
		}
		l.Endpoints = append(l.Endpoints, group)
	}
	return l
}

// shareOf makes weights such that their sum is one that Envoy takes: at most that of 32 bits.
func shareOf(list []registry.Endpoint) func(uint32) uint32 {
	var sum uint64
	for _, e := range list {
		sum += uint64(max(e.Weight, 1))
	}
	if sum <= math.MaxUint32 {
		return func(w uint32) uint32 { return w }
	}
	by := sum/(math.MaxUint32-uint64(len(list))) + 1
	return func(w uint32) uint32 { return uint32(max(uint64(w)/by, 1)) }
}

func localityOf(g registry.EndpointGroup) *corev3.Locality {
	region, zone, subzone := locality.Split(g.Locality)
	return &corev3.Locality{Region: region, Zone: zone, SubZone: subzone}
}

// SingleGroup are endpoints that are asked alike.
func SingleGroup(list []registry.Endpoint) registry.EndpointGroup {
	return registry.EndpointGroup{Endpoints: list}
}

// Asked are a service's endpoints as they are, in the groups in which the way says that they are asked.
func (way Options) Asked(svc *registry.Service, list []registry.Endpoint) []registry.EndpointGroup {
	return way.Near.Groups(svc, way.Traffic, list, func(in []registry.Endpoint) []registry.Endpoint { return in })
}

// Reaching are Asked, those of other networks by their gateways: what is connected to at one of the service's ports.
func (way Options) Reaching(svc *registry.Service, port registry.Port, list []registry.Endpoint) []registry.EndpointGroup {
	return way.Near.Groups(svc, way.Traffic, list, func(in []registry.Endpoint) []registry.Endpoint {
		return way.Near.Reach(in, port, way.Mutual.To != resolve.MutualNever)
	})
}

// SubsetOf is a service as a subset of its endpoints. One that has none of them leads nowhere: not to the name, and not to where
// the client goes.
func SubsetOf(svc *registry.Service, s registry.Subset) *registry.Service {
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
func Reachable(endpoints []registry.Endpoint, far registry.UpstreamRestrictions) []registry.Endpoint {
	return slices.DeleteFunc(slices.Clone(endpoints), func(e registry.Endpoint) bool { return !far.Leads(e) })
}
