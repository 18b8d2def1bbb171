package registry

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// Which pods have a waypoint before their own addresses: what nodes pass on to such an address, and not to a Service, goes by that.
//
// An address is one pod's: of several that say it is theirs the eldest's, and it counts in the cluster's own networks alone. So what a pod says of itself changes nothing of
// what is sent to another, to a Node or to anything outside.

// FrontedPod is a pod without a sidecar that asks for a waypoint, as its own label or its namespace's says. Whether that is for pods' addresses, its Gateway says.
type FrontedPod struct {
	Pod      config.Key
	Address  netip.Addr
	Account  string
	Labels   map[string]string
	Waypoint Ref
}

// PodWaypoint gives the waypoint before a pod's own address; false where what is sent there goes straight, as to all pods whose waypoint is for Services alone.
func (s *Snapshot) PodWaypoint(p *FrontedPod) (WaypointUse, bool) {
	if s.LeavesPods(p.Waypoint) {
		return WaypointUse{}, false
	}
	return s.AskedWaypoint(p), true
}

// AskedWaypoint is the waypoint that a pod asks for, whatever that is for.
func (s *Snapshot) AskedWaypoint(p *FrontedPod) WaypointUse {
	_, why := gatewayapi.Waypoint(s.World(), p.Waypoint.Namespace, p.Waypoint.Name, p.Pod.Namespace)
	return WaypointUse{p.Waypoint, why}
}

// LeavesPods says whether a waypoint is for other things than pods' own addresses.
func (s *Snapshot) LeavesPods(waypoint Ref) bool {
	return gatewayapi.Leaves(s.World(), waypoint.Namespace, waypoint.Name, gatewayapi.ToWorkloads)
}

// PodAt is the pod that asks for a waypoint and has an address.
func (s *Snapshot) PodAt(a netip.Addr) (*FrontedPod, bool) { return s.frontedPods.Get(a.Unmap()) }

// FrontedPods are all that ask for a waypoint, by their addresses.
func (s *Snapshot) FrontedPods() iter.Seq2[netip.Addr, *FrontedPod] {
	return func(yield func(netip.Addr, *FrontedPod) bool) { s.frontedPods.Walk(yield) }
}

// FrontedNetworks are the networks, of 256 addresses, or 64 bits of IPv6, that have a pod with a waypoint before its own address, in order. Pods come and go in them, and
// tables stay what they are.
func (s *Snapshot) FrontedNetworks() []netip.Prefix { return s.frontedNets }

// frontedNetwork is that of an address.
func frontedNetwork(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// PodRequestedWaypoint is the waypoint that a pod with these labels, in a namespace with those, asks for; zero where none stands before it: it has a proxy of its own, or is no
// pod of the mesh, or is a gateway.
func PodRequestedWaypoint(ns string, labels, namespace map[string]string, root string) Ref {
	if _, gateway := labels[gatewayapi.GatewayLabel]; gateway || !byNode(ns, labels, namespace, root) {
		return Ref{}
	}
	return RequestedWaypoint(ns, labels, namespace)
}

func (s *Snapshot) podRequestedWaypoint(ns string, labels map[string]string) Ref {
	return PodRequestedWaypoint(ns, labels, s.namespaces[ns], s.Mesh.RootNamespace)
}

// frontedByItself says whether a pod takes mutual TLS since a waypoint stands before its own address.
func (s *Snapshot) frontedByItself(ns string, labels map[string]string) bool {
	ref := s.podRequestedWaypoint(ns, labels)
	return !ref.IsZero() && !s.LeavesPods(ref)
}

// podClaims are the pods that say that an address is theirs, by what each says.
type podClaims struct {
	at map[netip.Addr][]*config.Object
	of map[config.Key][]netip.Addr
	// networks is how many pods of a namespace ask for a waypoint in a network.
	networks map[frontedIn]int
	// nodes are addresses of Nodes, by how many have each.
	nodes map[netip.Addr]int
}

type frontedIn struct {
	network   netip.Prefix
	namespace string
	waypoint  Ref
}

func newPodClaims() podClaims {
	return podClaims{map[netip.Addr][]*config.Object{}, map[config.Key][]netip.Addr{}, map[frontedIn]int{}, map[netip.Addr]int{}}
}

// setNode replaces the addresses of a Node, and gives those that are its own no more, or now.
func (c *podClaims) setNode(was, is []netip.Prefix) (moved []netip.Addr) {
	for by, list := range map[int][]netip.Prefix{-1: was, +1: is} {
		for _, p := range list {
			if !p.IsSingleIP() {
				continue
			}
			a := p.Addr().Unmap()
			if c.nodes[a] += by; c.nodes[a] == 0 {
				delete(c.nodes, a)
			}
			moved = append(moved, a)
		}
	}
	return moved
}

// put replaces what a pod claims, and gives the addresses that it claimed, or claims.
func (c *podClaims) put(key config.Key, o *config.Object) (moved []netip.Addr) {
	for _, a := range c.of[key] {
		moved = append(moved, a)
		if c.at[a] = slices.DeleteFunc(c.at[a], func(o *config.Object) bool { return o.Key == key }); len(c.at[a]) == 0 {
			delete(c.at, a)
		}
	}
	delete(c.of, key)
	for _, a := range addressesOf(o) {
		c.at[a], c.of[key], moved = append(c.at[a], o), append(c.of[key], a), append(moved, a)
	}
	return moved
}

// owner is the eldest that claims an address; nil without one.
func (c *podClaims) owner(a netip.Addr) *config.Object {
	if len(c.at[a]) == 0 {
		return nil
	}
	return slices.MinFunc(c.at[a], gatewayapi.Older)
}

// addressesOf are the addresses of a pod that runs, or is about to.
func addressesOf(o *config.Object) []netip.Addr {
	if o == nil {
		return nil
	}
	pod := o.Spec.(*corev1.Pod)
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	return addressesOfPod(pod)
}

// frontedPodAt is the pod that asks for a waypoint before an address; nil where none does.
func (b *batch) frontedPodAt(a netip.Addr) *FrontedPod {
	o := b.index.podClaims.owner(a)
	if o == nil || !b.next.InCluster(a) || slices.Contains(b.next.ReservedAddresses(), a) || b.index.podClaims.nodes[a] > 0 || b.isService(a, o) {
		return nil
	}
	pod := o.Spec.(*corev1.Pod)
	ref := b.next.podRequestedWaypoint(o.Namespace, pod.Labels)
	if ref.IsZero() || pod.Spec.HostNetwork {
		return nil
	}
	return &FrontedPod{Pod: o.Key, Address: a, Account: account(pod), Labels: pod.Labels, Waypoint: ref}
}

// isService says whether an address is that of a Service which was there before a pod that says that it is its own.
func (b *batch) isService(a netip.Addr, pod *config.Object) bool {
	list, _ := b.next.written.Get(a)
	return slices.ContainsFunc(list, func(svc *Service) bool {
		return svc.Source.Kind == config.KindService && !svc.Headless() && cmp.Or(svc.Created.Compare(pod.Created), svc.Source.Compare(pod.Key)) < 0
	})
}

// relabelPods looks again at the pods of a namespace.
func (b *batch) relabelPods(ns string) {
	for key := range b.index.pods[ns] {
		b.refronted[key] = true
	}
}

func (b *batch) relabelAllPods() {
	for ns := range b.index.pods {
		b.relabelPods(ns)
	}
}

// settleFrontedPods brings up to date which pods ask for waypoints, and in which networks there are some that have one.
func (b *batch) settleFrontedPods() {
	if b.changed.Nets || b.authenticated[b.next.Mesh.RootNamespace] {
		b.relabelAllPods()
	}
	if b.changed.ReservedAddresses {
		for _, list := range [...][]netip.Addr{b.snap.ReservedAddresses(), b.next.ReservedAddresses()} {
			for _, a := range list {
				b.reclaimed[a] = true
			}
		}
	}
	for ns := range b.authenticated { // whether they take mutual TLS may be otherwise
		b.relabelPods(ns)
	}
	for key := range b.refronted {
		for _, a := range b.index.podClaims.put(key, b.objects.Get(key)) {
			b.reclaimed[a] = true
		}
	}
	networks := b.changed.Waypoints || b.changed.Nets
	for a := range b.rewritten {
		if a = a.Unmap(); len(b.index.podClaims.at[a]) > 0 {
			b.reclaimed[a] = true
		}
	}
	edit, told := b.next.frontedPods.Edit(), map[string]bool{}
	for a := range b.reclaimed {
		was, _ := edit.Get(a)
		is := b.frontedPodAt(a)
		networks = b.countFronted(was, -1) || networks
		networks = b.countFronted(is, +1) || networks
		if is != nil {
			edit.Put(a, is)
		} else if was != nil {
			edit.Delete(a)
		}
		if was != nil || is != nil {
			told[a.String()] = true
		}
	}
	b.next.frontedPods = edit.Done()
	b.changed.Pods = slices.Sorted(maps.Keys(told))
	b.tellHeadless(told)
	if networks {
		b.findFrontedNetworks()
	}
}

// tellHeadless marks the headless Services that have one of these addresses for a pod's.
func (b *batch) tellHeadless(told map[string]bool) {
	if len(told) == 0 {
		return
	}
	hosts := maps.Clone(b.repopulated)
	if hosts == nil {
		hosts = map[string]bool{}
	}
	for text := range told {
		list, _ := b.next.written.Get(netip.MustParseAddr(text))
		for _, svc := range list {
			if svc.Headless() {
				hosts[svc.Host] = true
			}
		}
	}
	b.changed.Endpoints = slices.Sorted(maps.Keys(hosts))
}

// countFronted counts a pod, and says whether it is the first, or the last, of its namespace that asks for its waypoint in its network.
func (b *batch) countFronted(p *FrontedPod, by int) bool {
	if p == nil {
		return false
	}
	in, counts := frontedIn{frontedNetwork(p.Address), p.Pod.Namespace, p.Waypoint}, b.index.podClaims.networks
	was := counts[in]
	if counts[in] += by; counts[in] == 0 {
		delete(counts, in)
	}
	return was == 0 || was+by == 0
}

// findFrontedNetworks finds the networks anew.
func (b *batch) findFrontedNetworks() {
	has := map[netip.Prefix]bool{}
	for in := range b.index.podClaims.networks {
		if !has[in.network] {
			_, has[in.network] = b.next.PodWaypoint(&FrontedPod{Pod: config.Key{Namespace: in.namespace}, Waypoint: in.waypoint})
		}
	}
	maps.DeleteFunc(has, func(_ netip.Prefix, has bool) bool { return !has })
	b.next.frontedNets = joined(b.next.insideCluster(slices.Collect(maps.Keys(has))))
	slices.SortFunc(b.next.frontedNets, netip.Prefix.Compare)
}

// insideCluster is what of some networks is in the cluster's own: nothing is passed on to others for a pod's sake.
func (s *Snapshot) insideCluster(list []netip.Prefix) (out []netip.Prefix) {
	for _, n := range list {
		for _, p := range s.nets {
			switch {
			case p.Bits() <= n.Bits() && p.Contains(n.Addr()):
				out = append(out, n)
			case p.Bits() > n.Bits() && n.Contains(p.Addr()):
				out = append(out, p)
			}
		}
	}
	return out
}
