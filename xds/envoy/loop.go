package envoy

import (
	"fmt"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/wire"
)

// LoopGuardChains closes connections that were made to one of the ports that the proxy catches traffic at: passing them on
// would bring them back, without end. by leads nowhere, and says so in the log where anybody cares.
func LoopGuardChains(listener string, by TCPProxy) []*listenerv3.FilterChain {
	var chains []*listenerv3.FilterChain
	for _, port := range [...]uint32{wire.OutboundPort, wire.InboundPort} {
		match := &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)}
		chains = append(chains, FilterChain(fmt.Sprintf("%s-trafficloop-%d", listener, port), match, by.Filter()))
	}
	return chains
}

// ClosedChain ends the connections that match.
func ClosedChain(name string, match *listenerv3.FilterChainMatch) *listenerv3.FilterChain {
	return FilterChain(name, match, ClosingTCPProxy().Filter())
}

// ClosingTCPProxy is the TCP proxy that ends connections, and logs nothing.
func ClosingTCPProxy() TCPProxy {
	return TCPProxy{Stat: wire.BlackHoleCluster, Cluster: wire.BlackHoleCluster}
}
