package registry

import (
	"cmp"
	"math"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/locality"
)

// GatewayAnnotation picks the egress gateway of a ServiceEntry (or of all in a namespace): "NS/SERVICE", or
// "direct" for none.
const (
	GatewayAnnotation = "egress.sallyport.io/gateway"
	ExitDirect        = "direct"
)

// FromEntry makes one service of each host of a ServiceEntry. The namespace's annotation stands in for the
// entry's own, and the mesh's default gateway for both.
func FromEntry(o *config.Object, spec *networking.ServiceEntry, nsGateway string, cfg *mesh.Config) []*Service {
	external := spec.Location == networking.ServiceEntry_MESH_EXTERNAL
	base := Service{
		Namespace:  o.Namespace,
		Source:     o.Key,
		Revision:   o.Revision,
		Created:    o.Created,
		Ports:      entryPorts(spec.Ports),
		Resolution: entryResolution(spec.Resolution),
		Endpoints:  entryEndpoints(spec.Endpoints),
	}
	traits := Traits{
		External:            external,
		Addresses:           prefixes(spec.Addresses),
		ExportTo:            exportTo(spec.ExportTo, o.Namespace, cfg.DefaultServiceEntryExportTo),
		SANs:                slices.Sorted(slices.Values(spec.SubjectAltNames)),
		TrafficDistribution: prefersOf(o, nil),
		Beside:              uint16(min(max(len(spec.Hosts)-1, 0), math.MaxUint16)),
	}
	if external {
		traits.Exit = exit(o.Annotations[GatewayAnnotation], nsGateway, Ref(cfg.DefaultGateway))
		traits.RootExit = !traits.Exit.IsZero() && o.Namespace == cfg.RootNamespace
		traits.Borrowed = !traits.Exit.IsZero() && traits.Exit != Ref(cfg.DefaultGateway) && traits.Exit.Namespace != o.Namespace && o.Namespace != cfg.RootNamespace
	}
	services := make([]*Service, 0, len(spec.Hosts))
	for _, h := range spec.Hosts {
		if host.Partial(h) {
			continue // nothing looks hosts up by a part of a label
		}
		s := base
		s.Traits = new(traits) // its own until it is sealed
		s.Host = CanonicalHost(h)
		if field, why := cfg.Withheld(o.Namespace, spec, host.Name(s.Host), mesh.Gateway(traits.Exit)); why != "" {
			if own := s.ExportTo.within(o.Namespace); s.ExportTo.All || len(s.ExportTo.Namespaces) > len(own.Namespaces) {
				s.Withheld, s.ExportTo = &ExportRefusal{field, why}, own
			}
		}
		services = append(services, &s)
	}
	return services
}

// exit picks the first gateway that is written: on the entry, on its namespace, in the mesh.
func exit(entry, namespace string, def Ref) Ref {
	for _, v := range [...]string{entry, namespace} {
		if v == "" {
			continue
		}
		if v == ExitDirect {
			return Ref{}
		}
		if ns, name, ok := strings.Cut(v, "/"); ok && ns != "" && name != "" {
			return Ref{Namespace: ns, Name: name}
		}
	}
	return def
}

func entryPorts(in []*networking.ServicePort) []Port {
	out := make([]Port, 0, len(in))
	for _, p := range in {
		if config.IsOwnPort(p.Number) || !isPort(p.Number) || p.TargetPort > 65535 {
			continue // admission refuses it; here it would take a pod's proxy its listener
		}
		target := p.TargetPort
		if target == 0 {
			target = p.Number
		}
		out = append(out, Port{
			Name: p.Name, Number: p.Number, TargetPort: target,
			Explicit: p.TargetPort != 0, Protocol: ParseProtocol(p.Protocol),
		})
	}
	slices.SortFunc(out, func(a, b Port) int { return int(a.Number) - int(b.Number) })
	return out
}

// ParseProtocol reads the protocol of a port as Istio spells it; what is unknown is TCP.
func ParseProtocol(s string) Protocol {
	switch strings.ToUpper(s) {
	case "HTTP", "HTTP_PROXY":
		return HTTP
	case "HTTP2", "GRPC", "GRPC-WEB":
		return HTTP2
	case "HTTPS", "TLS":
		return TLS
	case "UDP":
		return UDP
	default:
		return TCP
	}
}

func entryResolution(r networking.ServiceEntry_Resolution) Resolution {
	switch r {
	case networking.ServiceEntry_STATIC:
		return Static
	case networking.ServiceEntry_NONE:
		return None
	default:
		return DNS
	}
}

func entryEndpoints(in []*networking.WorkloadEntry) []Endpoint {
	out := make([]Endpoint, 0, len(in))
	for _, e := range in {
		out = append(out, entryEndpoint(e))
	}
	return out
}

func entryEndpoint(e *networking.WorkloadEntry) Endpoint {
	return Endpoint{
		Address: strings.ToLower(e.Address), Ports: portsByName(e.Ports), ServiceAccount: e.ServiceAccount, Weight: e.Weight, Labels: e.Labels,
		Locality: cmp.Or(e.Locality, locality.OfLabels(e.Labels)), Network: e.Network,
	}
}

// exportTo reads "*", "." and names; an empty list means the mesh's default, and without one everybody.
func exportTo(in []string, own string, def []string) ExportTo {
	if len(in) == 0 {
		in = def
	}
	if len(in) == 0 {
		return ExportTo{All: true}
	}
	var out ExportTo
	for _, ns := range in {
		switch ns {
		case "*":
			return ExportTo{All: true}
		case ".":
			out.Namespaces = append(out.Namespaces, own)
		case "~":
		default:
			out.Namespaces = append(out.Namespaces, ns)
		}
	}
	slices.Sort(out.Namespaces)
	out.Namespaces = slices.Compact(out.Namespaces)
	return out
}

// prefixes reads addresses and CIDRs; admission refused what is neither. What lies in the ranges of made-up
// addresses is nobody's to write: it would be another host's.
func prefixes(in []string) []netip.Prefix {
	var out []netip.Prefix
	for _, a := range in {
		if p, err := netip.ParsePrefix(a); err == nil {
			out = append(out, p.Masked())
		} else if ip, err := netip.ParseAddr(a); err == nil {
			out = append(out, netip.PrefixFrom(ip, ip.BitLen()))
		}
	}
	out = slices.DeleteFunc(out, func(p netip.Prefix) bool { return host.MadeUp(p.Addr()) })
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}

// CanonicalHost is the form in which hosts are known here.
func CanonicalHost(h string) string { return strings.TrimSuffix(strings.ToLower(h), ".") }

// joinPorts lets entries of one namespace that register the same host, and are alike in all but their ports, count
// as one: users write a port an entry. The list is one host's, in order of precedence; the first of those that
// belong together gets the others' ports, each with the object that it is from. Where two have a port, the first's
// holds. Each port is looked at once for each first: a namespace may register tens of thousands of one host.
func joinPorts(list []*Service) {
	joined := make([]bool, len(list)) // to an earlier one, which counts wherever they do
	for i, first := range list {
		if joined[i] {
			continue
		}
		var has map[uint32]bool
		for j := i + 1; j < len(list); j++ {
			later := list[j]
			if joined[j] || !first.joins(later) {
				continue
			}
			if joined[j] = true; has == nil {
				has = numbersOf(first.Ports)
			}
			for _, p := range later.Ports {
				if !has[p.Number] {
					has[p.Number] = true
					p.From, p.Revision = later.Source, later.Revision
					first.Ports = append(first.Ports, p)
				}
			}
		}
	}
	for _, s := range list {
		slices.SortFunc(s.Ports, func(a, b Port) int { return int(a.Number) - int(b.Number) })
	}
}

func numbersOf(ports []Port) map[uint32]bool {
	out := make(map[uint32]bool, len(ports))
	for _, p := range ports {
		out[p.Number] = true
	}
	return out
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
