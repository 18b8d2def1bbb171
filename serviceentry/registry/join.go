package registry

import (
	"slices"

	"github.com/sallyport/sallyport/config"
)

// joinPorts lets entries of one namespace that register the same host, and are alike in all but their ports, count
// as one: users write a port an entry. The list is one host's, in order of precedence; the first of those that
// belong together gets the others' ports, each with the object that it is from. Where two have a port, the first's
// holds.
func joinPorts(list []*Service) {
	for i, first := range list {
		for _, later := range list[i+1:] {
			if !first.joins(later) {
				continue
			}
			for _, p := range ownPorts(later.Ports) {
				if _, has := first.Port(p.Number); !has {
					p.From, p.Revision = later.Source, later.Revision
					first.Ports = append(first.Ports, p)
				}
			}
		}
		slices.SortFunc(first.Ports, func(a, b Port) int { return int(a.Number) - int(b.Number) })
	}
}

// joins says whether two registrations of one host belong together.
func (s *Service) joins(o *Service) bool {
	return registers(s.Source.Kind) && registers(o.Source.Kind) &&
		s.Namespace == o.Namespace && s.External == o.External && s.Resolution == o.Resolution && s.Exit == o.Exit && s.Waypoint == o.Waypoint &&
		s.ExportTo.All == o.ExportTo.All && slices.Equal(s.ExportTo.Namespaces, o.ExportTo.Namespaces) &&
		slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.SANs, o.SANs) &&
		slices.EqualFunc(s.Endpoints, o.Endpoints, Endpoint.equal)
}

// ownPorts are those that the service's own object registered. The slice is the caller's.
func ownPorts(ports []Port) []Port {
	return slices.DeleteFunc(slices.Clone(ports), func(p Port) bool { return p.From != (config.Key{}) })
}
