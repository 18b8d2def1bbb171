package registry

import (
	"cmp"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strconv"

	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// Topology is which networks and clusters there are, and how one network's proxies reach another. It is immutable; nil is that of a mesh of
// one network, as far as anybody says.
type Topology struct {
	own      string            // the network of the own cluster
	networks map[string]string // of clusters, by their names; "" is the own one
	ranges   []networkRange    // as the settings say it; the narrowest first
	gateways map[string][]NetworkGateway
}

// NetworkGateway is an address by which a network is reached from others.
type NetworkGateway struct {
	Address string
	Port    uint32
	Cluster string // whose it is; "" is the own one
}

type networkRange struct {
	prefix  netip.Prefix
	network string
}

// Topology gives it; nil where the mesh is one network.
func (s *Snapshot) Topology() *Topology { return s.topology }

// Network is that of a workload with these labels, which is not of another cluster; "" where nobody says.
func (t *Topology) Network(labels map[string]string) string {
	if t == nil {
		return ""
	}
	return cmp.Or(labels[label.TopologyNetwork.Name], t.own)
}

// place notes of endpoints of a cluster which network they are in, where they do not say so: by Istio's rules their labels do, then the
// root namespace of their cluster, then the settings, by their addresses.
func (t *Topology) place(cluster string, list []Endpoint) {
	for i := range list {
		e := &list[i]
		if e.Cluster = cluster; t != nil && e.Network == "" {
			e.Network = cmp.Or(e.Labels[label.TopologyNetwork.Name], t.networks[cluster], t.byAddress(e.Address))
		}
	}
}

func (t *Topology) byAddress(address string) string {
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for _, r := range t.ranges {
		if r.prefix.Contains(addr.Unmap()) {
			return r.network
		}
	}
	return ""
}

// elsewhere says whether an endpoint is in another network than the own cluster's, so that its address may be somebody else's here.
func (t *Topology) elsewhere(e Endpoint) bool { return t != nil && !sameNetwork(e.Network, t.own) }

// sameNetwork is Istio's rule: where nobody says which network something is in, it is reached.
func sameNetwork(a, b string) bool { return a == b || a == "" || b == "" }

// lead gives the gateways of an endpoint's network: those of its own cluster, else all.
func (t *Topology) lead(e Endpoint) (out []NetworkGateway) {
	all := t.gateways[e.Network]
	for _, g := range all {
		if g.Cluster == e.Cluster {
			out = append(out, g)
		}
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// Leads says whether an endpoint's network has a gateway that is known.
func (t *Topology) Leads(e Endpoint) bool { return t != nil && len(t.lead(e)) > 0 }

// setNetworkGateway notes whether a Service is a network's gateway, as its label says. Only those of the root namespace are: whoever could
// write one elsewhere would have what others send to that network.
func (b *batch) setNetworkGateway(c config.Change) {
	if c.Key.Namespace != b.next.Mesh.RootNamespace && !b.namedGateway(c.Key) {
		return
	}
	b.rewired = true
}

// namedGateway says whether the mesh's settings name a Service as a network's gateway.
func (b *batch) namedGateway(key config.Key) bool {
	for _, n := range b.next.Mesh.Topology.Networks {
		for _, g := range n.Gateways {
			if g.Service == (mesh.Gateway{Namespace: key.Namespace, Name: key.Name}) {
				return true
			}
		}
	}
	return false
}

// settleTopology finds anew how networks are reached, after a change of what says it, and has endpoints looked at again where they may be in
// other networks now.
func (b *batch) settleTopology() {
	if !b.rewired {
		return
	}
	was, is := b.snap.topology, b.topologyNow()
	if reflect.DeepEqual(was, is) {
		return
	}
	b.next.topology, b.changed.Networks = is, true
	b.readdressHeadless()
	if was != nil && is != nil && was.own == is.own && maps.Equal(was.networks, is.networks) && slices.Equal(was.ranges, is.ranges) {
		return // only gateways are others
	}
	b.peopleEverywhere()
}

// readdressHeadless marks headless Services, whose addresses are those of the endpoints that are reached straight.
func (b *batch) readdressHeadless() {
	for _, in := range b.index.services {
		for key, spec := range in {
			if headless(spec) {
				b.dirty[key] = true
			}
		}
	}
}

// topologyNow is what labels and settings say.
func (b *batch) topologyNow() *Topology {
	cfg := b.next.Mesh.Topology
	t := &Topology{networks: map[string]string{}, gateways: map[string][]NetworkGateway{}}
	names := slices.Sorted(maps.Keys(cfg.Networks))
	for _, cluster := range b.clusters() {
		ns := b.objects.Get(config.Key{Kind: config.KindNamespace, Name: b.next.Mesh.RootNamespace}.In(cluster))
		network := ""
		if ns != nil {
			network = ns.Labels[label.TopologyNetwork.Name]
		}
		name := cluster
		if cluster == "" {
			network, name = cmp.Or(network, cfg.Network), cfg.Cluster
		}
		for _, other := range names {
			if network == "" && slices.Contains(cfg.Networks[other].Clusters, name) {
				network = other
			}
		}
		if network != "" {
			t.networks[cluster] = network
		}
	}
	t.own = t.networks[""]
	for _, name := range names {
		n := cfg.Networks[name]
		for _, r := range n.Ranges {
			t.ranges = append(t.ranges, networkRange{r, name})
		}
		for _, g := range n.Gateways {
			b.addNetworkGateway(t, name, g)
		}
	}
	slices.SortStableFunc(t.ranges, func(x, y networkRange) int { return y.prefix.Bits() - x.prefix.Bits() })
	for _, cluster := range b.clusters() {
		for key, spec := range b.of(cluster).services[b.next.Mesh.RootNamespace] {
			if network := spec.Labels[label.TopologyNetwork.Name]; network != "" {
				t.add(network, key.Cluster, spec, gatewayPort(spec))
			}
		}
	}
	for network, list := range t.gateways {
		slices.SortFunc(list, NetworkGateway.compare)
		t.gateways[network] = slices.Compact(list)
	}
	if len(t.networks) == 0 && len(t.ranges) == 0 && len(t.gateways) == 0 {
		return nil
	}
	return t
}

// addNetworkGateway adds one that the settings name.
func (b *batch) addNetworkGateway(t *Topology, network string, g mesh.NetworkGateway) {
	if g.Address.IsValid() {
		t.gateways[network] = append(t.gateways[network], NetworkGateway{Address: g.Address.String(), Port: g.Port})
		return
	}
	for _, cluster := range b.clusters() {
		key := config.Key{Kind: config.KindService, Namespace: g.Service.Namespace, Name: g.Service.Name}.In(cluster)
		if spec := b.of(cluster).services[key.Namespace][key]; spec != nil {
			t.add(network, cluster, spec, g.Port)
		}
	}
}

func (t *Topology) add(network, cluster string, spec *corev1.Service, port uint32) {
	for _, a := range outsideOf(spec) {
		t.gateways[network] = append(t.gateways[network], NetworkGateway{a.String(), port, cluster})
	}
}

// gatewayPort is where a network's gateway is reached: as its label says, else where Istio's are.
func gatewayPort(spec *corev1.Service) uint32 {
	if n, err := strconv.ParseUint(spec.Labels[label.NetworkingGatewayPort.Name], 10, 16); err == nil && n > 0 {
		return uint32(n)
	}
	return mesh.EastWestPort
}

func (g NetworkGateway) compare(o NetworkGateway) int {
	return cmp.Or(cmp.Compare(g.Address, o.Address), cmp.Compare(g.Port, o.Port), cmp.Compare(g.Cluster, o.Cluster))
}
