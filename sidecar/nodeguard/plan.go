package nodeguard

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Plan is all that the kernel is to hold.
type Plan struct {
	Sets   []Set
	Chains []Chain
	Pods   map[netip.Addr]Owner // whose the addresses are that this node's pods have
}

// Set is a named set of one family. Its elements are sorted and do not overlap.
type Set struct {
	Name     string // "open4"
	IPv6     bool
	Interval bool           // elements are networks; otherwise each is one address
	Counted  bool           // each element counts the packets that it matched
	Elements []netip.Prefix // addresses as networks of full length
}

// ErrNoNetworks says that the addresses of the cluster's pods are unknown, so that a plan would cut pods from each other.
var ErrNoNetworks = errors.New("no Node has spec.podCIDRs, because the network plugin keeps its own ranges: name the pods' networks with --pod-network")

// linkScope is what no router sends on. Bridges do, and a node may have its bridges' packets judged (br_netfilter): without
// neighbour discovery (RFC 4861) pods on one bridge could not find each other. 169.254.0.0/16 is not in it: clouds route
// their metadata services there.
var linkScope = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/24"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff02::/16")}

// Build makes the plan.
func Build(o Options, v View) (Plan, error) {
	sets := map[string][]netip.Prefix{SetNetworks: slices.Concat(linkScope, o.Allow, o.PodNetworks), SetLocal: nil}
	if !slices.ContainsFunc(v.Nodes, func(n Node) bool { return n.Name == o.Node }) {
		return Plan{}, fmt.Errorf("there is no Node %q in the cluster: name the one that this runs on with --node-name", o.Node)
	}
	pods := 0
	for _, n := range v.Nodes {
		sets[SetNetworks] = append(sets[SetNetworks], n.PodNetworks...)
		pods += len(n.PodNetworks)
		if n.Name == o.Node {
			sets[SetLocal] = append(sets[SetLocal], n.PodNetworks...)
		}
		for _, a := range n.Addresses {
			sets[SetAddresses] = append(sets[SetAddresses], alone(a))
		}
	}
	if pods += len(o.PodNetworks); pods == 0 {
		return Plan{}, ErrNoNetworks
	}
	if len(sets[SetLocal]) == 0 {
		// Any address of a pod could then be of one here.
		sets[SetLocal] = o.PodNetworks
	}
	for _, a := range v.Services {
		sets[SetAddresses] = append(sets[SetAddresses], alone(a))
	}
	owners := place(o, v, sets)
	sets[SetRefused] = sets[SetGuarded]
	sets[SetNetworks] = disjoint(sets[SetNetworks])
	sets[SetAddresses] = slices.DeleteFunc(sets[SetAddresses], func(p netip.Prefix) bool { return covered(sets[SetNetworks], p) })

	p := Plan{Chains: chains(o), Pods: owners}
	for _, name := range []string{SetNetworks, SetAddresses, SetOpen, SetGuarded, SetRefused, SetLocal} {
		elements := disjoint(sets[name])
		for _, six := range []bool{false, true} {
			p.Sets = append(p.Sets, Set{
				Name: name + suffix(six), IPv6: six, Interval: name == SetNetworks || name == SetLocal, Counted: name == SetRefused,
				Elements: slices.DeleteFunc(slices.Clone(elements), func(e netip.Prefix) bool { return e.Addr().Is6() != six }),
			})
		}
	}
	return p, nil
}

// place puts the node's pods into the sets. Where two pods claim an address, of which one has just ended or begun, the
// guarded one has it.
func place(o Options, v View, sets map[string][]netip.Prefix) map[netip.Addr]Owner {
	guarded := map[netip.Addr]bool{}
	owners := map[netip.Addr]Owner{}
	for _, p := range v.Pods {
		if p.HostNetwork || p.Ended {
			continue
		}
		is := o.Guards(p, v.Namespaces)
		for _, a := range p.Addresses {
			was, taken := guarded[a]
			owner := p.Owner()
			if !taken || is && !was || is == was && owner.String() < owners[a].String() {
				owners[a] = owner
			}
			guarded[a] = was || is
		}
	}
	for a := range maps.Keys(guarded) {
		set := SetOpen
		if guarded[a] {
			set = SetGuarded
		}
		sets[set] = append(sets[set], alone(a))
		sets[SetAddresses] = append(sets[SetAddresses], alone(a))
	}
	return owners
}

// Guarded and Open count addresses, for metrics.
func (p Plan) Guarded() int { return p.count(SetGuarded) }

// Open counts the addresses of pods that may reach the world.
func (p Plan) Open() int { return p.count(SetOpen) }

// Samples tells whether the plan has the kernel take samples.
func (p Plan) Samples() bool {
	return slices.ContainsFunc(p.Chains, func(c Chain) bool {
		return slices.ContainsFunc(c.Rules, func(r Rule) bool { return r.Terms[0].Kind == Sample })
	})
}

func (p Plan) count(set string) int {
	n := 0
	for _, s := range p.Sets {
		if s.Name == set+suffix(s.IPv6) {
			n += len(s.Elements)
		}
	}
	return n
}

func suffix(six bool) string {
	if six {
		return "6"
	}
	return "4"
}

// alone is the network of one address.
func alone(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

// disjoint sorts networks and leaves out those that others hold: networks either nest or have nothing in common.
func disjoint(networks []netip.Prefix) []netip.Prefix {
	sorted := slices.Clone(networks)
	slices.SortFunc(sorted, netip.Prefix.Compare)
	var kept []netip.Prefix
	for _, p := range sorted {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return kept
}

// covered tells whether one of the sorted, disjoint networks holds the other.
func covered(networks []netip.Prefix, p netip.Prefix) bool {
	i, exact := slices.BinarySearchFunc(networks, p.Addr(), func(n netip.Prefix, a netip.Addr) int { return n.Addr().Compare(a) })
	return exact || i > 0 && networks[i-1].Contains(p.Addr())
}
