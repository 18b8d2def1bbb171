package registry

import (
	"maps"
	"math"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/locality"
)

// ClientLocation is where somebody stands who connects to endpoints. The zero value reaches all of them alike.
type ClientLocation struct {
	Network  string
	Topology *Topology
	// Client is where it is, as far as a host's endpoints are told apart by that (see For), and Default the mesh's setting that says how.
	Client  locality.Client
	Default *networking.LocalityLoadBalancerSetting
}

// ClientLocation is where a proxy of a network stands.
func (s *Snapshot) ClientLocation(network string, client locality.Client) ClientLocation {
	n := ClientLocation{Client: client, Default: s.Mesh.LocalityLb}
	if s.topology != nil {
		n.Network, n.Topology = network, s.topology
	}
	return n
}

// For is what of it counts for services with their rules: clients are the same to whoever does not ask where they are.
func (n ClientLocation) For(ends ...ServiceAndRule) ClientLocation {
	if n.Client == (locality.Client{}) && n.Default == nil {
		return n
	}
	var a localityNeeds
	for _, e := range ends {
		if e.Service != nil {
			a = a.and(asksAt(e.Service, e.Rule, n.Default))
		}
	}
	if n.Client = a.of(n.Client); !a.counts {
		n.Default = nil
	}
	return n
}

// ServiceAndRule is a service and the rule that counts for it.
type ServiceAndRule struct {
	Service *Service
	Rule    *DestinationRule
}

// EndpointGroup is endpoints that are asked alike, as locality.Group says. Priority, Locality and Weight are zero where all are.
type EndpointGroup struct {
	Priority  uint32
	Locality  string
	Weight    uint32
	Endpoints []Endpoint
}

// Groups puts a service's endpoints in the order in which they are asked. reach makes of a group's what is connected to.
func (n ClientLocation) Groups(svc *Service, t TrafficPolicy, list []Endpoint, reach func([]Endpoint) []Endpoint) []EndpointGroup {
	if svc.NodeLocal {
		list = slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return e.Cluster != "" || e.Node == "" || e.Node != n.Client.Node })
	}
	setting := n.Spread(svc, t)
	if setting == nil {
		return []EndpointGroup{{Endpoints: reach(list)}}
	}
	client := n.Client
	client.Network = n.Network
	ends := make([]locality.Endpoint, len(list))
	for i, e := range list {
		ends[i] = locality.Endpoint{Locality: e.Locality, Weight: e.Weight, Label: e.label}
	}
	var out []EndpointGroup
	for _, g := range setting.Spread(client, ends) {
		in := make([]Endpoint, len(g.Members))
		for i, m := range g.Members {
			in[i] = list[m]
		}
		if in = reach(in); len(in) > 0 {
			out = append(out, EndpointGroup{g.Priority, g.Locality, g.Weight, in})
		}
	}
	locality.CloseGaps(out, func(g *EndpointGroup) *uint32 { return &g.Priority })
	return out
}

// Reach gives the endpoints as they are connected to at a service's port: those of other networks by the gateways of those, as in Istio. That takes
// mutual TLS (mutual says that it is spoken), by whose name the gateway knows whereto; what does not take it is left out. A network
// without a gateway is reached straight. A gateway has the weight of all that is behind it.
func (n ClientLocation) Reach(list []Endpoint, port Port, mutual bool) []Endpoint {
	list = having(list, port)
	if n.Topology == nil {
		return list
	}
	out := make([]Endpoint, 0, len(list))
	behind := map[NetworkGateway]uint64{}
	scale := n.scale(list)
	for _, e := range list {
		lead := n.by(e)
		switch {
		case lead == nil:
			if scale > 1 {
				e.Weight = weigh(uint64(max(e.Weight, 1)) * uint64(scale))
			}
			out = append(out, e)
		case mutual && e.Meshed(e.PortOf(port)):
			for _, g := range lead {
				behind[g] += uint64(max(e.Weight, 1)) * uint64(scale) / uint64(len(lead))
			}
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(behind), NetworkGateway.compare) {
		out = append(out, Endpoint{Address: g.Address, Ports: map[string]uint32{port.Name: g.Port}, Weight: weigh(behind[g]), Proxied: true, Cluster: g.Cluster})
	}
	return out
}

// having are the endpoints that have a port.
func having(list []Endpoint, port Port) []Endpoint {
	lacks := func(e Endpoint) bool { return e.PortOf(port) == 0 }
	if !slices.ContainsFunc(list, lacks) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), lacks)
}

// ReachExit gives an egress gateway's endpoints at a port, in the groups in which they are asked: those that are connected to straight, and, where none
// of them is left, the gateways of the networks that have others. What goes to an egress gateway is mutual TLS, whatever its pods are labelled.
func (n ClientLocation) ReachExit(list []Endpoint, port Port) (out []EndpointGroup) {
	list = having(list, port)
	straight := n.Here(list)
	var far []Endpoint
	if len(straight) < len(list) {
		far = slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return n.by(e) == nil })
		for i := range far {
			far[i].Proxied = true
		}
		far = n.Reach(far, port, true)
	}
	for _, group := range [][]Endpoint{straight, far} {
		if len(group) > 0 {
			out = append(out, EndpointGroup{Priority: uint32(len(out)), Endpoints: group})
		}
	}
	return out
}

// weigh is a weight as far as it can be said.
func weigh(w uint64) uint32 { return uint32(min(w, math.MaxUint32)) }

// Here are the endpoints that are connected to straight.
func (n ClientLocation) Here(list []Endpoint) []Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return n.Topology != nil && n.by(e) != nil })
}

// Own are the endpoints in the same network, or in one that nobody says.
func (n ClientLocation) Own(list []Endpoint) []Endpoint {
	return slices.DeleteFunc(slices.Clone(list), func(e Endpoint) bool { return n.Topology != nil && !sameNetwork(e.Network, n.Network) })
}

// by gives the gateways that an endpoint is reached by; nil where it is reached straight.
func (n ClientLocation) by(e Endpoint) []NetworkGateway {
	if sameNetwork(e.Network, n.Network) {
		return nil
	}
	return n.Topology.lead(e)
}

// scale is what weights are multiplied by, so that each is shared among the gateways of its network without a rest.
func (n ClientLocation) scale(list []Endpoint) uint32 {
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
