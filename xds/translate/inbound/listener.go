package inbound

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// listener lets the pod's own traffic in: whoever connects to the pod gets to its app, and to nothing
// else. So it never looks for a listener of the original port (use_original_dst), for that finds those of the way out.
// That the original address is the pod's own is the redirection's to see (sidecar/redirect), since all pods of a
// class share this listener; but no address of loopback was ever meant by somebody outside.
func (in Inputs) listener() *listenerv3.Listener {
	l := envoy.At(&listenerv3.Listener{
		Name:             wire.VirtualInbound,
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{envoy.OriginalDst()},
		FilterChains:     envoy.ToItself(wire.VirtualInbound, envoy.Nowhere()),
	}, wire.InboundPort, in.IPv6)
	inspector := in.inspector()
	if inspector != nil {
		l.ListenerFilters = append(l.ListenerFilters, inspector)
		envoy.DetectWithin(l, in.Detect)
	}
	l.FilterChains = append(l.FilterChains,
		envoy.ClosedChain(wire.VirtualInbound+"-loopback", envoy.Within("127.0.0.0", 8)),
		envoy.ClosedChain(wire.VirtualInbound+"-loopback6", envoy.Within("::1", 128)),
	)
	if inspector != nil || in.Inbound.Authorized { // otherwise they are as all others are
		for _, own := range resolve.OwnPorts {
			l.FilterChains = append(l.FilterChains, in.port(own).chains()...)
		}
	}
	for _, p := range in.Inbound.Ports {
		l.FilterChains = append(l.FilterChains, in.port(p.Number).chains()...)
	}
	l.FilterChains = append(l.FilterChains, in.others(wire.VirtualInbound, wire.InboundPassthrough, "0.0.0.0")...)
	l.FilterChains = append(l.FilterChains, in.others(wire.VirtualInbound+"6", wire.InboundPassthrough6, "::")...)
	return l
}

// PodListener is that of the proxy of a node, which opens it in the pod: what comes goes on to the pod's own app from there, by the
// pod's network and with its client's address.
func PodListener(ipv6 bool, whose *listenerv3.Filter) *listenerv3.Listener {
	on := envoy.TCPProxy{Stat: wire.InboundPassthrough, Cluster: wire.InboundPassthrough}.Filter()
	return envoy.At(&listenerv3.Listener{
		Name:             ambient.PodInbound,
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{envoy.OriginalDst(), envoy.OriginalSrc()},
		FilterChains: append(envoy.ToItself(wire.VirtualInbound, envoy.Nowhere()),
			envoy.ClosedChain(wire.VirtualInbound+"-loopback", envoy.Within("127.0.0.0", 8)),
			envoy.ClosedChain(wire.VirtualInbound+"-loopback6", envoy.Within("::1", 128)),
			envoy.Chain(wire.VirtualInbound, nil, whose, on),
		),
	}, wire.InboundPort, ipv6)
}

// PodCluster connects to a pod's app, by the pod's network.
func PodCluster() *clusterv3.Cluster {
	return envoy.OriginalDestination(wire.InboundPassthrough, wire.RoleMesh)
}

// toApp connects to the app from an address that the redirection leaves alone, of the address family that is connected to.
func toApp(name, from, orFrom string) *clusterv3.Cluster {
	c := envoy.OriginalDestination(name, wire.RoleMesh)
	c.UpstreamBindConfig = &corev3.BindConfig{
		SourceAddress:        envoy.TCPAddress(from, 0).GetSocketAddress(),
		ExtraSourceAddresses: []*corev3.ExtraSourceAddress{{Address: envoy.TCPAddress(orFrom, 0).GetSocketAddress()}},
	}
	return c
}
