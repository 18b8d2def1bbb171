package resolve

import (
	"slices"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// UDPService is a Service that a port for UDP leads to.
type UDPService struct {
	IngressTarget
	Port     registry.Port
	Sessions uint32 // how many clients it has at a time
}

// datagrams are the Services that a port's routes lead to. They share its sessions by their weights, as they share its clients.
func (a Ingress) datagrams(routes []Route) (out []UDPService) {
	if len(routes) == 0 || routes[0].Action != Forward {
		return nil
	}
	var sum uint64
	for _, t := range routes[0].To {
		sum += uint64(t.Weight)
	}
	weights := []uint64{}
	for _, t := range routes[0].To {
		if t.Closed != nil {
			continue
		}
		i := slices.IndexFunc(out, func(d UDPService) bool { return d.Service.Host == t.Service.Host && d.Port.Number == t.Port.Number })
		if i < 0 {
			i = len(out)
			out, weights = append(out, UDPService{IngressTarget: a.target(*t.ReachedDestination, nil), Port: t.Port}), append(weights, 0)
		}
		weights[i] += uint64(t.Weight)
		out[i].Sessions = uint32(max(uint64(a.Sessions)*weights[i]/max(sum, 1), 1))
	}
	return out
}
