package registry

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
)

// maxNetworks bounds the cluster's own networks: every sidecar holds them once for each port in use.
const maxNetworks = 256

// Networks are the cluster's own: where its pods and nodes are, as the mesh's settings say, or as its Nodes do. They are
// sorted, and none is within another. Addresses there are not outside, whoever registered them or not.
func (s *Snapshot) Networks() []netip.Prefix { return s.nets }

// InCluster says whether an address is in one of the cluster's own networks.
func (s *Snapshot) InCluster(a netip.Addr) bool {
	return slices.ContainsFunc(s.nets, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
}

func (b *batch) setNode(c config.Change) {
	b.netsMoved = true
	was := b.nodes[c.Key]
	defer func() {
		for _, a := range b.index.podClaims.setNode(was, b.nodes[c.Key]) {
			b.reclaimed[a] = true
		}
	}()
	if c.Object == nil {
		delete(b.nodes, c.Key)
		return
	}
	node := c.Object.Spec.(*corev1.Node)
	texts := node.Spec.PodCIDRs
	if len(texts) == 0 && node.Spec.PodCIDR != "" {
		texts = []string{node.Spec.PodCIDR}
	}
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			texts = append(slices.Clone(texts), a.Address)
		}
	}
	b.nodes[c.Key] = prefixes(texts)
}

// joinNetworks finds the cluster's networks anew.
func (b *batch) joinNetworks() {
	if !b.netsMoved {
		return
	}
	if all := clusterNetworks(b.next.Mesh.ClusterNetworks, b.nodes); !slices.Equal(all, b.snap.nets) {
		b.next.nets, b.changed.Nets = all, true
	}
}

// clusterNetworks are those that the settings name, or else those of nodes.
func clusterNetworks(named []netip.Prefix, nodes map[config.Key][]netip.Prefix) []netip.Prefix {
	all := slices.Clone(named)
	if len(all) == 0 {
		for _, list := range nodes {
			all = append(all, list...)
		}
	}
	if all = joined(all); len(all) > maxNetworks {
		all = all[:maxNetworks] // the widest come first; the settings can say it in fewer
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return all
}

// joined gives the fewest prefixes that hold the same addresses, the widest first.
func joined(in []netip.Prefix) []netip.Prefix {
	set := map[netip.Prefix]bool{}
	for _, p := range in {
		if p.IsValid() && p.Bits() > 0 { // everything is no network of the cluster's own
			set[netip.PrefixFrom(p.Addr().Unmap(), p.Bits()).Masked()] = true
		}
	}
	for again := true; again; {
		again = false
		for p := range set {
			up := netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked()
			switch {
			case covered(set, up):
				delete(set, p)
			case up.Bits() > 0 && set[sibling(p)]:
				delete(set, p)
				delete(set, sibling(p))
				set[up], again = true, true
			}
		}
	}
	out := make([]netip.Prefix, 0, len(set))
	for p := range set {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int {
		if wide := (a.Bits() - a.Addr().BitLen()) - (b.Bits() - b.Addr().BitLen()); wide != 0 {
			return wide
		}
		return a.Compare(b)
	})
	return out
}

// covered says whether a prefix, or one around it, is in the set.
func covered(set map[netip.Prefix]bool, p netip.Prefix) bool {
	for ; p.Bits() > 0; p = netip.PrefixFrom(p.Addr(), p.Bits()-1).Masked() {
		if set[p] {
			return true
		}
	}
	return false
}

// sibling is the other half of the prefix that is one bit wider.
func sibling(p netip.Prefix) netip.Prefix {
	bytes := p.Addr().AsSlice()
	last := p.Bits() - 1
	bytes[last/8] ^= 0x80 >> (last % 8)
	a, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(a, p.Bits())
}
