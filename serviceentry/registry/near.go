package registry

import (
	"maps"
	"slices"
)

// Near is where somebody stands who connects to endpoints. The zero value reaches all of them.
type Near struct {
	Network  string
	Topology *Topology
}

// Near is where a proxy of a network stands.
func (s *Snapshot) Near(network string) Near {
	if s.topology == nil {
		return Near{}
	}
	return Near{network, s.topology}
}

// Reach gives the endpoints as they are connected to at a service's port: those of other networks by the gateways of those, as in Istio. That takes
// mutual TLS (mutual says that it is spoken), by whose name the gateway knows whereto; what does not take it is left out. A network
// without a gateway is reached straight. A gateway has the weight of all that is behind it.
func (n Near) Reach(list []Endpoint, port Port, mutual bool) []Endpoint {
	if n.Topology == nil {
		return list
	}
	out := make([]Endpoint, 0, len(list))
	behind := map[NetworkGateway]uint32{}
	scale := n.scale(list)
	for _, e := range list {
		lead := n.by(e)
		switch {
		case lead == nil:
			if scale > 1 {
				e.Weight = max(e.Weight, 1) * scale
			}
			out = append(out, e)
		case mutual && e.Meshed(e.PortOf(port)):
			for _, g := range lead {
				behind[g] += max(e.Weight, 1) * scale / uint32(len(lead))
			}
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(behind), NetworkGateway.compare) {
		out = append(out, Endpoint{Address: g.Address, Ports: map[string]uint32{port.Name: g.Port}, Weight: behind[g], Proxied: true, Cluster: g.Cluster})
	}
	return out
}

// Here are the endpoints that are connected to straight.
func (n Near) Here(list []Endpoint) []Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return n.Topology != nil && n.by(e) != nil })
}

// Own are the endpoints in the same network, or in one that nobody says.
func (n Near) Own(list []Endpoint) []Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return n.Topology != nil && !sameNetwork(e.Network, n.Network) })
}

// by gives the gateways that an endpoint is reached by; nil where it is reached straight.
func (n Near) by(e Endpoint) []NetworkGateway {
	if sameNetwork(e.Network, n.Network) {
		return nil
	}
	return n.Topology.lead(e)
}

// scale is what weights are multiplied by, so that each is shared among the gateways of its network without a rest.
func (n Near) scale(list []Endpoint) uint32 {
	scale := uint32(1)
	for _, e := range list {
		if count := uint32(len(n.by(e))); count > 1 {
			scale = scale / gcd(scale, count) * count
		}
	}
	return scale
}

func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
