package outbound

import (
	"fmt"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate/inbound"
	"github.com/sallyport/sallyport/xds/translate/part"
	"github.com/sallyport/sallyport/xds/wire"
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

// podOutbound takes all that a pod sends. A sidecar's listener hands connections over to those of their ports; this one has chains
// itself, since listeners by port would be the same ones for all pods, and then nothing would say whose a
// connection is. What the chains hold is a sidecar's, behind the filter that says so; but they are the same for all ports, and each connection's own
// port says which table is asked (envoy.NameTables): another one changes no chain, and so ends no connection (docs/adr/0106-a-port-costs-a-pod-nothing.md,
// docs/adr/0122-one-set-of-chains-for-all-ports.md).
func podOutbound(in Inputs) *listenerv3.Listener {
	l := envoy.BindAll(&listenerv3.Listener{Name: ambient.PodOutbound, TrafficDirection: corev3.TrafficDirection_OUTBOUND}, wire.OutboundPort, in.IPv6)
	var ports, silent []uint32 // those that have a table, and of them those where nothing is looked for
	for _, p := range in.Ports {
		ports = append(ports, p.Number)
		if p.Opaque {
			silent = append(silent, p.Number)
		}
	}
	l.ListenerFilters = append([]*listenerv3.ListenerFilter{envoy.MarkOutbound(), envoy.OriginalDst(), envoy.NameTables(in.Own, ports)}, in.inspectors(silent...)...)
	l.ListenerFilters = append(l.ListenerFilters, envoy.MarkHeard())
	at := map[string]*envoy.OnMatch{} // by port
	itself := envoy.LoopGuardChains(wire.VirtualOutbound, in.nowhere())
	for _, c := range itself { // one does for both ports
		at[wire.RouteName(c.FilterChainMatch.DestinationPort.GetValue())] = envoy.OnMatchChain(chainItself)
	}
	itself[0].Name = chainItself
	l.FilterChains = append([]*listenerv3.FilterChain{itself[0]}, in.podChains()...)
	for _, p := range in.Ports {
		if chains, to := in.rangesOf(p); to != nil {
			l.FilterChains, at[wire.RouteName(p.Number)] = append(l.FilterChains, chains...), to
		}
	}
	for _, c := range l.FilterChains {
		c.FilterChainMatch = nil // the tree chooses
	}
	l.FilterChainMatcher = envoy.ExactMatchMap(envoy.PortInput(), at, envoy.OnMatchMatcher(bySpoken.Chosen()))
	return envoy.WithDetectionTimeout(l, in.Detect)
}

// The chains, by what a connection begins with.
const (
	chainTLS  = "tls"
	chainHTTP = "http"
	chainTCP  = "tcp"

	chainItself = wire.VirtualOutbound + "-trafficloop"
)

// podChains are they.
func (in Inputs) podChains() []*listenerv3.FilterChain {
	bytes := tunnel{table: envoy.TableFormat, all: true, stat: wire.VirtualOutbound, mesh: in.Mesh, told: in.Ends, own: in.Own}
	tls := bytes
	tls.tls = true
	return []*listenerv3.FilterChain{
		envoy.FilterChain(chainTLS, nil, tls.filters()...),
		envoy.FilterChain(chainHTTP, nil, in.requests(envoy.HCM{Stat: wire.VirtualOutbound, Named: envoy.TableFormat, Pods: true})...),
		envoy.FilterChain(chainTCP, nil, bytes.filters()...),
	}
}

// bySpoken leads to them.
var bySpoken = envoy.ProtocolChains{TLS: envoy.OnMatchChain(chainTLS), HTTP: envoy.OnMatchChain(chainHTTP), Rest: envoy.OnMatchChain(chainTCP)}

// rangesOf are the chains of a port's ranges of addresses, and what leads to them, or past them to those of other ports; nil of a port without any. A longer prefix comes before a
// shorter one. In a TLS service's range, names come before its host, and what is not TLS is not the service's.
func (in Inputs) rangesOf(p Listening) (chains []*listenerv3.FilterChain, to *envoy.OnMatch) {
	if len(p.Ranges) == 0 {
		return nil, nil
	}
	all := bySpoken
	leads := map[netip.Prefix]*envoy.OnMatch{}
	for _, made := range [...]netip.Prefix{host.MadeUp4, host.MadeUp6} {
		if slices.ContainsFunc(p.Ranges, func(r part.RangeUse) bool { return r.Prefix.Overlaps(made) }) {
			leads[made] = all.Rest
		}
	}
	for _, r := range p.Ranges {
		name := fmt.Sprintf("%d-%s", p.Number, r.Prefix)
		bytes := tunnel{table: envoy.TableFormat, all: true, stat: wire.VirtualOutbound, mesh: in.Mesh, told: in.Ends, own: in.Own, asRange: wire.HostPort(r.Host, r.Port), tls: r.TLS}
		chains = append(chains, envoy.FilterChain(name, nil, bytes.filters()...))
		leads[r.Prefix] = envoy.OnMatchChain(name)
		if r.TLS {
			leads[r.Prefix] = envoy.OnMatchMatcher(envoy.ProtocolChains{TLS: envoy.OnMatchChain(name), HTTP: all.HTTP, Rest: all.Rest}.Chosen())
		}
	}
	return chains, envoy.OnMatchMatcher(envoy.MatchList(envoy.LongestFirst(leads), envoy.OnMatchMatcher(all.Chosen())))
}
