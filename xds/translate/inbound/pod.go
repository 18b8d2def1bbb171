package inbound

import (
	"net/http"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// Pod is what comes to a pod without a sidecar, whose node's proxy opens these listeners in it: as it is (Listener), and by HBONE (Tunnel).
// Nobody looks into its bytes.
type Pod struct {
	Inputs
	// JudgeTunnels is what Judge is, of what comes by HBONE.
	JudgeTunnels *httprbacv3.RBAC
}

// Pod is what comes to a pod that no object is about.
func (in Inputs) Pod() Pod {
	in.Inbound = resolve.Inbound{Mode: registry.Disable, Alone: true}
	return Pod{Inputs: in}
}

// Listener takes what comes as it is: it goes on to the pod's own app from there, by the pod's network and with its client's address.
func (p Pod) Listener() *listenerv3.Listener {
	l := p.listener()
	l.Name = ambient.PodInbound
	l.ListenerFilters = append(l.ListenerFilters, envoy.OriginalSrc())
	for _, c := range l.FilterChains {
		c.Filters = append([]*listenerv3.Filter{envoy.ComesToPod()}, c.Filters...)
	}
	return l
}

// PodCluster connects to a pod's app, by the pod's network.
func PodCluster() *clusterv3.Cluster {
	return envoy.OriginalDestination(wire.InboundPassthrough, wire.RoleMesh)
}

// passthrough6 is the cluster of what comes by IPv6; a pod's connects from its client's address, whatever it is.
func (in Inputs) passthrough6() string {
	if in.Inbound.Alone {
		return wire.InboundPassthrough
	}
	return wire.InboundPassthrough6
}

// Tunnel takes HBONE: requests to connect to one of the pod's ports, over HTTP/2 in mutual TLS of the mesh.
func (p Pod) Tunnel() *listenerv3.Listener {
	m := envoy.HCM{Stat: ambient.PodTunnel, Inbound: true, Peer: true, Connect: true, Tunnel: true, Routes: tunnels(), Before: envoy.ToOwnApp()}
	if p.Log != mesh.MeshOff {
		m.Log, m.Denied = wire.InboundTunnel, p.Log == mesh.MeshDenied
	}
	if p.JudgeTunnels != nil {
		m.Before = append([]*hcmv3.HttpFilter{envoy.JudgeRequests(p.JudgeTunnels)}, m.Before...)
	}
	c := envoy.HandshakeWithin(envoy.Chain(ambient.PodTunnel, nil, envoy.ComesToPod(), envoy.KnowClient(), m.Filter()))
	c.TransportSocket = envoy.MeshServerTLS(p.Trust, "h2")
	return envoy.At(&listenerv3.Listener{Name: ambient.PodTunnel, TrafficDirection: corev3.TrafficDirection_INBOUND, FilterChains: []*listenerv3.FilterChain{c}}, wire.TunnelPort, p.IPv6)
}

// tunnels is the table of HBONE: to the pod's own addresses, and not back to its proxy. As ztunnel says it, the rest is a bad request.
func tunnels() *routev3.RouteConfiguration {
	refused := func(why string, match *routev3.RouteMatch) *routev3.Route {
		return envoy.Refuse(wire.ClosedRoute+why, match, http.StatusBadRequest, "sallyport: "+why+"\n", nil)
	}
	return &routev3.RouteConfiguration{
		Name: ambient.PodTunnel,
		VirtualHosts: []*routev3.VirtualHost{
			{Name: ambient.OwnAddresses, Domains: []string{"none.invalid"}, Routes: []*routev3.Route{
				refused("the port is one of the mesh's own", envoy.TunnelAt(wire.OutboundPort, wire.InboundPort, wire.TunnelPort)),
				envoy.Route("default", envoy.TunnelToAddress(), envoy.TerminateConnect(wire.InboundPassthrough)),
				refused(noAddress, envoy.AnyTunnel()),
			}},
			{Name: "others", Domains: []string{"*"}, Routes: []*routev3.Route{refused(noAddress, envoy.AnyTunnel())}},
		},
		ValidateClusters: wrapperspb.Bool(false),
	}
}

// noAddress is why most tunnels are refused.
const noAddress = "the tunnel asks for something else than an address of the pod, and a port"
