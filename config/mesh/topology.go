package mesh

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/config/host"
)

// EastWestPort is where a network's gateways are reached by other networks' proxies; Istio's.
const EastWestPort = 15443

// Topology is what the settings say of networks and clusters. What is not said here, labels of namespaces, Services and pods say.
type Topology struct {
	// Cluster is the own cluster's name, by which ranges and other clusters mean it.
	Cluster string
	// Network is the own cluster's; "" where only its root namespace's label says it, if anything does.
	Network string
	// Networks are Istio's meshNetworks, by their names.
	Networks map[string]Network
	// Local says which Services have endpoints of the own cluster only; the last row that means one counts.
	Local []ClusterLocal
}

// Network is one of Istio's meshNetworks.
type Network struct {
	Ranges   []netip.Prefix // of endpoints' addresses
	Clusters []string
	Gateways []NetworkGateway
}

// NetworkGateway is how a network is reached: a Service of the own cluster or another, or an address.
type NetworkGateway struct {
	Service Gateway
	Address netip.Addr
	Port    uint32
}

// ClusterLocal is a row of serviceSettings.
type ClusterLocal struct {
	Host  string // exact, or a pattern
	Local bool
}

// defaultTopology is that of one cluster; what is the own cluster's only is as in Istio.
func defaultTopology() Topology {
	return Topology{Cluster: defaultCluster, Local: []ClusterLocal{{"*.kube-system.svc.cluster.local", true}, {"kubernetes.default.svc.cluster.local", true}}}
}

// defaultCluster is what a cluster is called that has no name; Istio's.
const defaultCluster = "Kubernetes"

// applyServiceSettings reads which Services are the own cluster's only, after Istio's own.
func (c *Config) applyServiceSettings(in []*meshconfig.MeshConfig_ServiceSettings) (problems []strict.Problem) {
	c.Topology.Local = slices.Clip(c.Topology.Local)
	for i, s := range in {
		for j, h := range s.Hosts {
			if _, err := host.ParsePattern(h); err != nil {
				problems = append(problems, problem(fmt.Sprintf("serviceSettings[%d].hosts[%d]", i, j), h, "is no host", `write it as in "*.shop.svc.cluster.local"`))
				continue
			}
			c.Topology.Local = append(c.Topology.Local, ClusterLocal{strings.ToLower(h), s.GetSettings().GetClusterLocal()})
		}
	}
	return problems
}

// topology reads the names of the own cluster and its network, and the networks of the mesh.
func (b *block) topology(t *Topology, top map[string]any) {
	if s := b.text("sallyport.cluster", top["cluster"]); s != "" {
		t.Cluster = s
	}
	t.Network = b.text("sallyport.network", top["network"])
	b.meshNetworks(t, "sallyport.networks", top["networks"])
}

// meshNetworks reads what Istio has in a file of its own.
func (b *block) meshNetworks(t *Topology, at string, tree any) {
	if tree == nil {
		return
	}
	tree = map[string]any{"networks": tree}
	in := &meshconfig.MeshNetworks{}
	wrong := strict.Message(tree, in.ProtoReflect().Descriptor(), strings.TrimSuffix(at, ".networks"))
	b.problems = append(b.problems, wrong...)
	if len(wrong) > 0 {
		return
	}
	plain, err := json.Marshal(tree)
	if err == nil {
		err = json.Unmarshal(plain, in)
	}
	if err != nil {
		b.add(at, nil, err.Error(), "write it as Istio's meshNetworks")
		return
	}
	t.Networks = map[string]Network{}
	for _, name := range slices.Sorted(maps.Keys(in.Networks)) {
		t.Networks[name] = b.network(at+"."+name, in.Networks[name])
	}
}

func (b *block) network(at string, in *meshconfig.Network) (out Network) {
	for i, e := range in.GetEndpoints() {
		if e.GetFromRegistry() != "" {
			out.Clusters = append(out.Clusters, e.GetFromRegistry())
			continue
		}
		p, err := netip.ParsePrefix(e.GetFromCidr())
		if err != nil {
			b.add(fmt.Sprintf("%s.endpoints[%d].fromCidr", at, i), e.GetFromCidr(), "is no range of addresses", `write it as in "10.4.0.0/16"`)
			continue
		}
		out.Ranges = append(out.Ranges, p.Masked())
	}
	for i, g := range in.GetGateways() {
		field := fmt.Sprintf("%s.gateways[%d]", at, i)
		if g.GetLocality() != "" {
			b.add(field+".locality", g.GetLocality(), "is not read: all gateways of a network are asked alike", "remove it")
		}
		made := NetworkGateway{Port: g.GetPort()}
		if made.Port == 0 {
			made.Port = EastWestPort
		}
		if s := g.GetRegistryServiceName(); s != "" {
			parts := strings.Split(s, ".")
			if len(parts) < 2 {
				b.add(field+".registryServiceName", s, "is no Service's name", `write it as in "istio-eastwestgateway.istio-system.svc.cluster.local"`)
				continue
			}
			made.Service = Gateway{Namespace: parts[1], Name: parts[0]}
		} else if addr, err := netip.ParseAddr(g.GetAddress()); err == nil {
			made.Address = addr
		} else {
			b.add(field+".address", g.GetAddress(), "is no address: names are not looked up", "write an IP address, or registryServiceName")
			continue
		}
		out.Gateways = append(out.Gateways, made)
	}
	return out
}

// networks reads a list of ranges of addresses.
func (b *block) networks(at string, v any) (out []netip.Prefix) {
	for path, s := range b.texts(at, v) {
		p, err := netip.ParsePrefix(s)
		switch {
		case err != nil:
			b.add(path, s, "is no range of addresses", `write it as in "10.0.0.0/8" or "fd00::/8"`)
		case p.Addr().Is4In6() || p != p.Masked():
			b.add(path, s, "has bits behind its mask, or is an IPv4 range written as IPv6", "write "+netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked().String())
		case p.Bits() == 0:
			b.add(path, s, "holds every address, so that nothing would be outside", "name the pods' and the nodes' networks")
		default:
			out = append(out, p)
		}
	}
	return out
}
