package registry

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// perPod are labels that controllers give to pods to tell those of one workload apart. Whoever asks for one does not make the others no gateways.
var perPod = []string{"pod-template-hash", "controller-revision-hash", "pod-template-generation", "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}

// common are the labels that all of the gateway's pods have.
func (i Ingress) common() map[string]string {
	out := i.PodLabels()
	for _, key := range perPod {
		delete(out, key)
	}
	return out
}

// IsItself says whether a Service is of gateways: as IsGateway says, or by a selector that takes none but the gateway's own pods.
func (s *Snapshot) IsItself(i Ingress, ref Ref) bool {
	if s.IsGateway(ref) {
		return true
	}
	k, ok := s.KubeService(ref)
	return ok && i.Has(ref) && len(i.Labels) > 0 && (selects(i.common(), k.Selector) || selects(s.firstSelector(i), k.Selector))
}

// firstSelector is that of the first Gateway (gatewaysOrder) that opens anything at the gateway's pods: what it selects there are gateways, whatever labels others
// ask for beside it. Pods of one gateway may differ in these (a version, say), and would lead to each other otherwise.
func (s *Snapshot) firstSelector(i Ingress) map[string]string {
	var first *Gateway
	labels, order := i.PodLabels(), s.gatewaysOrder(i.Namespace)
	for _, g := range s.gateways {
		if s.mayOpen(g, i.Namespace) && len(g.Selector) > 0 && selects(g.Selector, labels) && (first == nil || order(g, first) < 0) {
			first = g
		}
	}
	if first == nil {
		return i.common()
	}
	return first.Selector
}

// refusals remembers, of one snapshot, what gateways do not connect to.
type refusals = remembered[[]netip.Addr]

// RefusedAt are the addresses that an ingress gateway does not connect to, sorted: the mesh's reserved addresses, and of the endpoints of its Services its own
// pods. What else such a Service selects is an app like any other. The slice must not be changed.
func (s *Snapshot) RefusedAt(i Ingress) []netip.Addr {
	i.Sessions, i.Topology = 0, mesh.GatewayTopology{} // it is the same whatever these are
	return s.refusals.get(i, s.refusedAt)
}

func (s *Snapshot) refusedAt(i Ingress) []netip.Addr {
	out := slices.Clone(s.ReservedAddresses())
	selectors := append(s.saidGateways(i), i.common(), s.firstSelector(i))
	for _, ref := range i.Services() {
		set := s.EndpointSet(ref.Host())
		if set == nil {
			continue
		}
		itself := s.IsItself(i, ref)
		for _, e := range set.List {
			// Of whom nobody knows a pod it may be one.
			own := itself || e.Labels == nil || slices.ContainsFunc(selectors, func(selector map[string]string) bool { return selects(selector, e.Labels) })
			if addr, err := netip.ParseAddr(e.Address); err == nil && own {
				out = append(out, addr.WithZone("").Unmap())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// saidGateways are the selectors by which the gateway's own namespace and the root namespace say that its pods are gateways.
func (s *Snapshot) saidGateways(i Ingress) (out []map[string]string) {
	labels := i.PodLabels()
	for _, g := range s.gateways {
		if s.says(g, i.Namespace) && selects(g.Selector, labels) {
			out = append(out, g.Selector)
		}
	}
	return out
}

// says is whether a Gateway's word counts on which pods of a namespace are gateways.
func (s *Snapshot) says(g *Gateway, ns string) bool {
	mine := g.Key.Namespace == ns || g.Key.Namespace == s.Mesh.RootNamespace && g.Key.Kind == config.KindGateway
	return mine && len(g.Selector) > 0
}
