package registry

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// LabeledWorkload is a workload whose labels the registry knows for certain: of a Pod, or of a WorkloadEntry.
type LabeledWorkload struct {
	Account   string
	Labels    map[string]string
	Addresses []netip.Addr
}

// Policies gives the EgressPolicies of a namespace, in order.
func (s *Snapshot) Policies(ns string) egresspolicy.Level { return s.policies[ns] }

// PolicedNamespaces gives the namespaces that have policies, in name order.
func (s *Snapshot) PolicedNamespaces() []string { return slices.Sorted(maps.Keys(s.policies)) }

// NamespaceLabels gives those of a Namespace, as far as there is one.
func (s *Snapshot) NamespaceLabels(ns string) map[string]string { return s.namespaces[ns] }

// LabelledNamespaces gives the namespaces that have labels, in name order.
func (s *Snapshot) LabelledNamespaces() []string { return slices.Sorted(maps.Keys(s.namespaces)) }

// People gives the workloads of a namespace in which policies select by labels.
func (s *Snapshot) People(ns string) []LabeledWorkload { return s.people[ns] }

// PeopledNamespaces gives the namespaces that have some, in name order.
func (s *Snapshot) PeopledNamespaces() []string { return slices.Sorted(maps.Keys(s.people)) }

// RootPolicies gives the policies of the root namespace that are for workloads of a namespace.
func (s *Snapshot) RootPolicies(ns string) egresspolicy.Level {
	all := s.policies[s.Mesh.RootNamespace]
	if !slices.ContainsFunc(all, func(p *egresspolicy.Policy) bool { return p.Namespaces != nil }) {
		return all
	}
	var out egresspolicy.Level
	for _, p := range all {
		if s.MeansNamespace(p, ns) {
			out = append(out, p)
		}
	}
	return out
}

// MeansNamespace says whether a policy of the root namespace is for workloads of a namespace.
func (s *Snapshot) MeansNamespace(p *egresspolicy.Policy, ns string) bool {
	n := p.Namespaces
	switch {
	case n == nil || slices.Contains(n.Names, ns):
		return true
	case len(n.Labels) == 0:
		return false
	default:
		return selects(n.Labels, s.namespaces[ns])
	}
}

// OwnPolicies gives the policies of a namespace that are for its workloads alone: those of the root namespace are for all.
func (s *Snapshot) OwnPolicies(ns string) egresspolicy.Level {
	if ns == s.Mesh.RootNamespace {
		return nil
	}
	return s.policies[ns]
}

// PolicySet is all that governs a workload.
func (s *Snapshot) PolicySet(ns, account string, labels map[string]string) egresspolicy.Set {
	return egresspolicy.Set{Root: s.RootPolicies(ns).Selecting(account, labels), Own: s.OwnPolicies(ns).Selecting(account, labels)}
}

func (b *batch) setPolicy(c config.Change) {
	b.next.policies = afterChange(b.next.policies, c, func(o *config.Object) *egresspolicy.Policy {
		return egresspolicy.FromSpec(o, o.Spec.(*v1alpha1.EgressPolicy))
	}, func(p *egresspolicy.Policy) config.Key { return p.Key }, (*egresspolicy.Policy).Compare)
	b.policed[c.Key.Namespace] = true
	if letsOut(c.Object) || len(b.hostsOf.Get(c.Key)) > 0 {
		b.dirty[c.Key] = true
	}
}

func (b *batch) setNamespaceLabels(c config.Change) {
	b.unseen = true // a policy may ask for them later
	was := b.next.namespaces[c.Key.Name]
	b.next.namespaces = maps.Clone(b.next.namespaces)
	delete(b.next.namespaces, c.Key.Name)
	if c.Object != nil && len(c.Object.Labels) > 0 {
		b.next.namespaces[c.Key.Name] = c.Object.Labels
	}
	b.relabelWaypoints(c.Key.Name, was)
	for _, p := range b.next.policies[b.next.Mesh.RootNamespace] {
		if p.Namespaces != nil && len(p.Namespaces.Labels) > 0 {
			b.policed[c.Key.Name] = true
			if len(b.hostsOf.Get(p.Key)) > 0 {
				b.dirty[p.Key] = true // it is another namespace's now, or no longer
			}
		}
	}
}

// peopleMoved notes that a workload of a namespace changed.
func (b *batch) peopleMoved(ns string) {
	if slices.ContainsFunc(b.next.policies[ns], (*egresspolicy.Policy).ByLabels) || slices.ContainsFunc(b.next.policies[b.next.Mesh.RootNamespace], (*egresspolicy.Policy).ByLabels) {
		b.populated[ns] = true
	}
}

// settlePolicies says which namespaces are governed by other policies, or have other people, than before. After one of the root
// namespace it is that namespace, which stands for all.
func (b *batch) settlePolicies() {
	root := b.next.Mesh.RootNamespace
	if len(b.policed) > 0 && slices.ContainsFunc(slices.Concat(b.snap.policies[root], b.next.policies[root]), (*egresspolicy.Policy).ByLabels) {
		for ns := range b.index.pods {
			b.populated[ns] = true
		}
		for ns := range b.index.workloads {
			b.populated[ns] = true
		}
	}
	if b.policed[root] && b.snap.policies[root].Unsettles() != b.next.policies[root].Unsettles() { // other namespaces' levels say more, or less
		for ns := range b.next.policies {
			b.policed[ns] = true
		}
	}
	for ns := range b.policed {
		b.populated[ns] = true
	}
	for ns := range b.populated {
		b.findPeople(ns)
	}
	b.changed.Policies = slices.Sorted(maps.Keys(b.policed))
}

// findPeople gathers a namespace's, if labels decide about any of them.
func (b *batch) findPeople(ns string) {
	was, had := b.next.people[ns]
	var now []LabeledWorkload
	if slices.ContainsFunc(b.next.policies[ns], (*egresspolicy.Policy).ByLabels) || slices.ContainsFunc(b.next.RootPolicies(ns), (*egresspolicy.Policy).ByLabels) {
		now = b.index.people(ns)
	}
	if (!had && now == nil) || (had && now != nil && slices.EqualFunc(was, now, LabeledWorkload.equal)) {
		return
	}
	b.next.people = maps.Clone(b.next.people)
	if b.next.people[ns] = now; now == nil {
		delete(b.next.people, ns)
	}
	b.policed[ns] = true
}

func (p LabeledWorkload) equal(o LabeledWorkload) bool {
	return p.Account == o.Account && maps.Equal(p.Labels, o.Labels) && slices.Equal(p.Addresses, o.Addresses)
}

// people are the workloads of a namespace that have an address of their own, in the order of their names; nil for none.
func (x *index) people(ns string) (out []LabeledWorkload) {
	for _, key := range slices.SortedFunc(maps.Keys(x.pods[ns]), config.Key.Compare) {
		pod := x.pods[ns][key]
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if at := addressesOfPod(pod); len(at) > 0 {
			out = append(out, LabeledWorkload{Account: account(pod), Labels: pod.Labels, Addresses: at})
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(x.workloads[ns]), config.Key.Compare) {
		w := x.workloads[ns][key]
		if ip, err := netip.ParseAddr(w.spec.Address); err == nil {
			out = append(out, LabeledWorkload{Account: cmp.Or(w.spec.ServiceAccount, "default"), Labels: w.labels, Addresses: []netip.Addr{ip.Unmap()}})
		}
	}
	return out
}

// addressesOfPod are a pod's, of both families.
func addressesOfPod(pod *corev1.Pod) (out []netip.Addr) {
	texts := []string{pod.Status.PodIP}
	for _, ip := range pod.Status.PodIPs {
		texts = append(texts, ip.IP)
	}
	for _, text := range texts {
		if ip, err := netip.ParseAddr(text); err == nil && !slices.Contains(out, ip.Unmap()) {
			out = append(out, ip.Unmap())
		}
	}
	return out
}
