package inbound

import (
	"net/http"
	"slices"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
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

// Listener takes what comes as it is: it goes on to the pod's own app from there, by the pod's network and with its client's address. That is seen to before anything is waited
// for: of connections whose first bytes are too few, or come from the server, Envoy skips the filters that are left when the time is over.
func (p Pod) Listener() *listenerv3.Listener {
	l := p.listener()
	l.Name = ambient.PodInbound
	l.ListenerFilters = append([]*listenerv3.ListenerFilter{envoy.MarkInbound(), envoy.OriginalSrc()}, l.ListenerFilters...)
	l.FilterChains = bothFamilies(l.FilterChains)
	return withDefault(l)
}

// withDefault has the last chain, where it is for all that no other one is for, be the one that Envoy takes then: so it needs no table of ranges, which is a third of what
// this listener costs a node for each pod. Where chains tell apart how connections begin it stays: what none of them is for ends.
func withDefault(l *listenerv3.Listener) *listenerv3.Listener {
	if slices.ContainsFunc(l.FilterChains, func(c *listenerv3.FilterChain) bool { return c.GetFilterChainMatch().GetTransportProtocol() != "" }) {
		return l
	}
	last := len(l.FilterChains) - 1
	c := proto.CloneOf(l.FilterChains[last])
	all := slices.ContainsFunc(c.GetFilterChainMatch().GetPrefixRanges(), func(r *corev3.CidrRange) bool { return r.PrefixLen.GetValue() == 0 })
	c.FilterChainMatch.PrefixRanges = nil
	if !all || !proto.Equal(c.FilterChainMatch, &listenerv3.FilterChainMatch{}) {
		return l
	}
	c.FilterChainMatch = nil
	l.FilterChains, l.DefaultFilterChain = l.FilterChains[:last], c
	return l
}

// bothFamilies makes one chain of two that differ in what ranges of addresses they are for alone: a node has them for each of its pods.
func bothFamilies(chains []*listenerv3.FilterChain) (out []*listenerv3.FilterChain) {
	for _, c := range chains {
		at := slices.IndexFunc(out, func(o *listenerv3.FilterChain) bool { return sameButRanges(o, c) })
		if at < 0 {
			out = append(out, c)
			continue
		}
		out[at].FilterChainMatch.PrefixRanges = append(out[at].FilterChainMatch.PrefixRanges, c.FilterChainMatch.PrefixRanges...)
	}
	return out
}

func sameButRanges(a, b *listenerv3.FilterChain) bool {
	if len(a.GetFilterChainMatch().GetPrefixRanges()) == 0 || len(b.GetFilterChainMatch().GetPrefixRanges()) == 0 {
		return false // one of them is for all
	}
	plain := func(c *listenerv3.FilterChain) *listenerv3.FilterChain {
		c = proto.Clone(c).(*listenerv3.FilterChain)
		c.Name, c.FilterChainMatch.PrefixRanges = "", nil
		return c
	}
	return proto.Equal(plain(a), plain(b))
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
	m := envoy.HCM{Stat: ambient.PodTunnel, Inbound: true, Peer: true, Connect: true, Tunnel: true, Routes: tunnels(), Before: envoy.OwnAppFilters()}
	if p.Log != mesh.MeshOff {
		m.Log, m.Denied = wire.InboundTunnel, p.Log == mesh.MeshDenied
	}
	if p.JudgeTunnels != nil {
		m.Before = append([]*hcmv3.HttpFilter{envoy.AuthorizationHTTPFilter(p.JudgeTunnels)}, m.Before...)
	}
	c := envoy.WithHandshakeTimeout(envoy.FilterChain(ambient.PodTunnel, nil, envoy.ClientFilter(), m.Filter()))
	c.TransportSocket = envoy.MeshServerTLS(p.Trust, "h2")
	l := &listenerv3.Listener{Name: ambient.PodTunnel, TrafficDirection: corev3.TrafficDirection_INBOUND, FilterChains: []*listenerv3.FilterChain{c}}
	l.ListenerFilters = []*listenerv3.ListenerFilter{envoy.MarkInbound()}
	return envoy.BindAll(l, wire.HBONEPort, p.IPv6)
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
				refused("the port is one of the mesh's own", envoy.MatchTunnelPorts(wire.OutboundPort, wire.InboundPort, wire.HBONEPort)),
				envoy.Route("default", envoy.MatchTunnelToAddress(), envoy.TerminateConnect(wire.InboundPassthrough)),
				refused(noAddress, envoy.MatchAnyTunnel()),
			}},
			{Name: "others", Domains: []string{"*"}, Routes: []*routev3.Route{refused(noAddress, envoy.MatchAnyTunnel())}},
		},
		ValidateClusters: wrapperspb.Bool(false),
	}
}

// noAddress is why most tunnels are refused.
const noAddress = "the tunnel asks for something else than an address of the pod, and a port"
