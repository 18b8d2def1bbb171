package outbound

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/inbound"
)

// podDoors are the templates of a pod's listeners on the proxy of its node.
func (in Inputs) podDoors() []*resource.Resource {
	return []*resource.Resource{
		envoy.SealCluster(inbound.PodCluster()),
		envoy.Seal(resource.Listener, ambient.PodInbound, in.Inbound.Pod().Listener()),
		envoy.Seal(resource.Listener, ambient.PodTunnel, in.Inbound.Pod().Tunnel()),
		envoy.Seal(resource.Listener, ambient.PodOutbound, podOutbound(in)),
	}
}

// OwnResources are what a namespace with tables of its own has of them, beside what all pods share.
func (in Inputs) OwnResources() []*resource.Resource {
	l := podOutbound(in)
	l.Name = ambient.OutboundOf(in.Own)
	out := []*resource.Resource{envoy.Seal(resource.Listener, l.Name, l)}
	for _, p := range in.Ports {
		out = append(out, in.asked(p)...)
	}
	return out
}

// podOutbound takes all that a pod sends. A sidecar's listener hands connections over to those of their ports; this one has their
// chains itself, each kept to its port, since listeners by port would be the same ones for all pods, and then nothing would say whose a
// connection is. What the chains hold is a sidecar's, behind the filter that says so.
func podOutbound(in Inputs) *listenerv3.Listener {
	l := outboundListener(in)
	l.Name, l.UseOriginalDst = ambient.PodOutbound, nil
	var silent []uint32 // nothing is looked for there
	var ofPorts []*listenerv3.FilterChain
	for _, p := range in.Ports {
		if p.Opaque {
			silent = append(silent, p.Number)
		}
		ofPorts = append(ofPorts, chainsAt(p.Number, portListener(fmt.Sprintf("0.0.0.0_%d", p.Number), p, in))...)
	}
	l.ListenerFilters = append([]*listenerv3.ListenerFilter{envoy.WhosePod(), envoy.OriginalDst()}, in.inspectors(silent...)...)
	l.FilterChains = append(l.FilterChains, ofPorts...)
	l.TrafficDirection = corev3.TrafficDirection_OUTBOUND
	return l
}

// chainsAt are the chains of a port's listener, for a listener of all ports.
func chainsAt(port uint32, of *listenerv3.Listener) []*listenerv3.FilterChain {
	chains := append(of.FilterChains, of.DefaultFilterChain)
	read := map[string]bool{} // ranges, "" for what is in none, in which plain bytes are told apart
	for _, c := range chains {
		if c.GetFilterChainMatch().GetTransportProtocol() == plainBytes {
			read[rangesOf(c)] = true
		}
	}
	for _, c := range chains {
		if c.FilterChainMatch == nil {
			c.FilterChainMatch = &listenerv3.FilterChainMatch{}
		}
		m := c.FilterChainMatch
		m.DestinationPort = wrapperspb.UInt32(port)
		// Envoy does not look back: what is no request, and has a chain for requests beside it, has to be taken by one of its own kind.
		if m.TransportProtocol == "" && read[rangesOf(c)] {
			m.TransportProtocol = plainBytes
		}
		c.Name = of.Name + "-" + c.Name
	}
	return chains
}

// plainBytes is Envoy's word for what is no TLS.
const plainBytes = "raw_buffer"

func rangesOf(c *listenerv3.FilterChain) string {
	var out []string
	for _, r := range c.GetFilterChainMatch().GetPrefixRanges() {
		out = append(out, fmt.Sprintf("%s/%d", r.AddressPrefix, r.PrefixLen.GetValue()))
	}
	return strings.Join(out, ",")
}
