package inbound

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// listener lets the pod's own traffic in: whoever connects to the pod gets to its app, and to nothing
// else. So it never looks for a listener of the original port (use_original_dst), for that finds those of the way out.
// That the original address is the pod's own is the redirection's to see (sidecar/redirect), since all pods of a
// class share this listener; but no address of loopback was ever meant by somebody outside.
func (in Inputs) listener() *listenerv3.Listener {
	l := envoy.BindAll(&listenerv3.Listener{
		Name:             wire.VirtualInbound,
		TrafficDirection: corev3.TrafficDirection_INBOUND,
		ListenerFilters:  []*listenerv3.ListenerFilter{envoy.OriginalDst()},
		FilterChains:     envoy.LoopGuardChains(wire.VirtualInbound, envoy.ClosingTCPProxy()),
	}, wire.InboundPort, in.IPv6)
	inspector := in.inspector()
	if inspector != nil {
		l.ListenerFilters = append(l.ListenerFilters, inspector)
		envoy.WithDetectionTimeout(l, in.Detect)
	}
	l.FilterChains = append(l.FilterChains,
		envoy.ClosedChain(wire.VirtualInbound+"-loopback", envoy.MatchRange("127.0.0.0", 8)),
		envoy.ClosedChain(wire.VirtualInbound+"-loopback6", envoy.MatchRange("::1", 128)),
	)
	if !in.Inbound.Alone && (inspector != nil || in.Inbound.Authorized) { // otherwise they are as all others are
		for _, own := range registry.AgentPorts {
			l.FilterChains = append(l.FilterChains, in.port(own).chains()...)
		}
	}
	for _, p := range in.Inbound.Ports {
		l.FilterChains = append(l.FilterChains, in.port(p.Number).chains()...)
	}
	l.FilterChains = append(l.FilterChains, in.others(wire.VirtualInbound, wire.InboundPassthrough, "0.0.0.0")...)
	l.FilterChains = append(l.FilterChains, in.others(wire.VirtualInbound+"6", in.passthrough6(), "::")...)
	return l
}

// toPort is the cluster of a port that something leads to.
func toPort(p registry.InboundPort) *clusterv3.Cluster {
	name := wire.InboundName(p.Number)
	if p.To.IsValid() && !p.To.Addr().IsUnspecified() {
		return envoy.AddressCluster(name, wire.RoleMesh, p.To)
	}
	c := toApp(name, wire.PassthroughSource, wire.PassthroughSource6)
	if p.To.IsValid() {
		envoy.AtPort(c, uint32(p.To.Port()))
	}
	return c
}

// toApp connects to the app from an address that the redirection leaves alone, of the address family that is connected to.
func toApp(name, from, orFrom string) *clusterv3.Cluster {
	return envoy.ConnectFrom(envoy.OriginalDestination(name, wire.RoleMesh), from, orFrom)
}
