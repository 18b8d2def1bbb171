package registry

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/inside"
	"github.com/sallyport/sallyport/serviceentry/locality"
)

// Endpoint is an address that serves a service.
type Endpoint struct {
	Address        string            // IP, or a DNS name with resolution DNS
	Ports          map[string]uint32 // by port name, where it differs from the target port; 0 where the endpoint has no such port
	ServiceAccount string            // SPIFFE id's last part, "" if unknown
	Weight         uint32            // 0 counts as 1
	Labels         map[string]string // of the pod or workload
	Locality       string            // "region/zone/subzone", "" if unknown
	// Network is where its address is one; "" where nobody says. Cluster is whose it is, "" for the own one.
	Network string `json:",omitzero"`
	Cluster string `json:",omitzero"`
	Node    string `json:",omitzero"` // that its pod is on
	// OfNode says that its pod has the network of its Node, and none of its own.
	OfNode bool `json:",omitzero"`
	// Proxied says that a proxy of the mesh stands before it which clients speak mutual TLS to, Plain that it takes no mutual TLS, and PlainAt where that is otherwise, by the
	// endpoint's own ports: see Meshed.
	Proxied bool            `json:",omitzero"`
	Plain   bool            `json:",omitzero"`
	PlainAt map[uint32]bool `json:",omitzero"`
	// Fronted says that it is a pod without a sidecar, of a Service that has a waypoint: it takes mutual TLS from that.
	Fronted bool `json:",omitzero"`
	// Written says of a Kubernetes Service's endpoint that somebody wrote its address, and no pod of the namespace has it.
	Written bool `json:",omitzero"`
}

// Serves says whether the endpoint can be connected to at a service's port, as far as it is known itself: one without an address is reached by its network's
// gateways, and one that has no port of that name is none there.
func (e Endpoint) Serves(p Port) bool { return e.Address != "" && e.PortOf(p) != 0 }

// PortOf gives the endpoint's port for a service port; 0 where it has none.
func (e Endpoint) PortOf(p Port) uint32 {
	if n, ok := e.Ports[p.Name]; ok {
		return n
	}
	return p.TargetPort
}

// label is one of the endpoint's, or what stands for where it is.
func (e Endpoint) label(key string) string {
	at := locality.Place{Locality: e.Locality, Network: e.Network, Cluster: e.Cluster}
	if e.Cluster == "" { // another cluster's Node may have the name
		at.Node = e.Node
	}
	return cmp.Or(at.Label(key), e.Labels[key])
}

func (e Endpoint) equal(o Endpoint) bool {
	return e.Address == o.Address && e.ServiceAccount == o.ServiceAccount && e.Weight == o.Weight && e.Locality == o.Locality && e.Node == o.Node && e.OfNode == o.OfNode && e.Network == o.Network && e.Cluster == o.Cluster &&
		e.Proxied == o.Proxied && e.Fronted == o.Fronted && e.Written == o.Written && e.Plain == o.Plain && maps.Equal(e.PlainAt, o.PlainAt) && maps.Equal(e.Ports, o.Ports) && maps.Equal(e.Labels, o.Labels)
}

// EndpointSet is the endpoints of one Kubernetes Service, in order. They are a table of their own beside the Services: one that
// comes or goes touches its set, and neither the Service nor what was made of it. Equal sets are one value.
type EndpointSet struct {
	List     []Endpoint
	Accounts []string // of those that take mutual TLS, see AccountsOf
}

// Tabled says whether a service's endpoints are in that table, rather than written with it.
func (s *Service) Tabled() bool { return s.Source.Kind == config.KindService }

// EndpointSet gives those of a Service that has its host's name; nil for others, and where there are none.
func (s *Snapshot) EndpointSet(host string) *EndpointSet {
	set, _ := s.endpoints.Get(host)
	return set
}

// EndpointsOf gives a service's endpoints, wherever they are. The slice must not be changed.
func (s *Snapshot) EndpointsOf(svc *Service) []Endpoint {
	if !svc.Tabled() {
		return svc.Endpoints
	}
	if set := s.EndpointSet(svc.Host); set != nil {
		return set.List
	}
	return nil
}

// findEndpoints brings the endpoints of a Service up to date. A headless one is found by their addresses, so that it is another Service
// with other ones.
func (b *batch) findEndpoints(service config.Key) {
	host := Ref{service.Namespace, service.Name}.Host()
	list := b.endpointsOf(service)
	was, _ := b.endpoints.Get(host)
	if was == nil && len(list) == 0 || was != nil && slices.EqualFunc(was.List, list, Endpoint.equal) {
		return
	}
	if len(list) == 0 {
		b.endpoints.Delete(host)
	} else {
		b.endpoints.Put(host, &EndpointSet{list, AccountsOf(list)})
	}
	b.repopulated[host] = true
	if spec := b.index.services[service.Namespace][service]; spec != nil && headless(spec) {
		b.dirty[service] = true
	}
}

// served are the endpoints that proxies may connect to: addresses, since one that is none would make Envoy refuse them all, and never
// their own host, where their administration is.
func served(list []Endpoint) []Endpoint {
	return slices.DeleteFunc(list, func(e Endpoint) bool {
		addr, ok := host.Reachable(e.Address)
		return !ok || inside.OwnHost(addr)
	})
}

// isPort says whether a number is one of a port.
func isPort[N int32 | uint32](n N) bool { return n > 0 && n <= 65535 }

// portsByName leaves out what is no port: then the service's own number counts. Admission refuses them.
func portsByName(in map[string]uint32) map[string]uint32 {
	for _, n := range in {
		if !isPort(n) {
			in = maps.Clone(in)
			maps.DeleteFunc(in, func(_ string, n uint32) bool { return !isPort(n) })
			break
		}
	}
	return in
}

func sortedEndpoints(in []Endpoint) []Endpoint {
	slices.SortFunc(in, compareEndpoints)
	return slices.CompactFunc(in, Endpoint.equal)
}

func compareEndpoints(a, b Endpoint) int {
	if c := cmp.Compare(a.Address, b.Address); c != 0 {
		return c
	}
	if c := cmp.Or(cmp.Compare(a.ServiceAccount, b.ServiceAccount), cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Locality, b.Locality), cmp.Compare(a.Node, b.Node)); c != 0 {
		return c
	}
	if c := cmp.Or(compareClusters(a, b), comparePorts(a.Ports, b.Ports)); c != 0 {
		return c
	}
	return cmp.Compare(selectorText(a.Labels), selectorText(b.Labels))
}

// comparePorts orders by the names, then by the numbers.
func comparePorts(a, b map[string]uint32) int {
	names := slices.Sorted(maps.Keys(a))
	if c := slices.Compare(names, slices.Sorted(maps.Keys(b))); c != 0 {
		return c
	}
	for _, name := range names {
		if c := cmp.Compare(a[name], b[name]); c != 0 {
			return c
		}
	}
	return 0
}
