package controlplane

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/identity"
)

// keptGone is how many pods are remembered that are no more: the last records of a pod come after its end.
const keptGone = 4096

// addresses finds pods by their addresses. Pods on their node's network are not among them: they share the node's.
type addresses struct {
	of   map[netip.Addr][]*config.Object
	gone []*config.Object // the last ones at the end
}

func (a *addresses) replace(old, now *config.Object) {
	if old == now {
		return
	}
	for _, ip := range addressesOf(old) {
		list := slices.DeleteFunc(slices.Clone(a.of[ip]), func(o *config.Object) bool { return o.Key == old.Key })
		if a.of[ip] = list; len(list) == 0 {
			delete(a.of, ip)
		}
	}
	for _, ip := range addressesOf(now) {
		if a.of == nil {
			a.of = map[netip.Addr][]*config.Object{}
		}
		a.of[ip] = append(a.of[ip], now)
	}
	if old != nil && now == nil {
		if len(a.gone) == keptGone {
			a.gone = slices.Delete(a.gone, 0, keptGone/2)
		}
		a.gone = append(a.gone, old)
	}
}

func addressesOf(o *config.Object) (out []netip.Addr) {
	if o == nil {
		return nil
	}
	pod, ok := o.Spec.(*corev1.Pod)
	if !ok || pod.Spec.HostNetwork {
		return nil
	}
	for _, text := range podIPs(pod) {
		if ip, err := netip.ParseAddr(text); err == nil {
			out = append(out, ip.Unmap())
		}
	}
	return out
}

func podIPs(pod *corev1.Pod) (ips []string) {
	for _, ip := range pod.Status.PodIPs {
		ips = append(ips, ip.IP)
	}
	if len(ips) == 0 {
		ips = []string{pod.Status.PodIP}
	}
	return slices.DeleteFunc(ips, func(text string) bool { // what is none is refused, but may be of before
		_, err := netip.ParseAddr(text)
		return err != nil
	})
}

// running says whether a pod may still have its address: one that is done has given it back.
func running(o *config.Object) bool {
	phase := o.Spec.(*corev1.Pod).Status.Phase
	return phase != corev1.PodSucceeded && phase != corev1.PodFailed
}

func account(o *config.Object) string {
	if a := o.Spec.(*corev1.Pod).Spec.ServiceAccountName; a != "" {
		return a
	}
	return "default"
}

// podAt is the pod that runs at an address; nil if none does, or several seem to.
func (v *inventory) podAt(ip netip.Addr) *config.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return only(v.at.of[ip], running)
}

// clientAt is the pod of a verified identity that has an address, or had it lately.
func (v *inventory) clientAt(ip netip.Addr, id identity.ID) *config.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if o := only(v.at.of[ip], running); o != nil {
		if isOf(o, id) {
			return o
		}
		return nil
	}
	is := func(o *config.Object) bool { return isOf(o, id) && slices.Contains(addressesOf(o), ip) }
	if o := only(v.at.of[ip], is); o != nil || len(v.at.of[ip]) > 0 {
		return o
	}
	return v.at.last(is)
}

// goneAs is a pod of that name and identity that is no more.
func (v *inventory) goneAs(name string, id identity.ID) *config.Object {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.at.last(func(o *config.Object) bool { return o.Name == name && isOf(o, id) })
}

func isOf(o *config.Object, id identity.ID) bool {
	return o.Namespace == id.Namespace && account(o) == id.ServiceAccount
}

// only is the one of a list that fits; nil if several do.
func only(list []*config.Object, fits func(*config.Object) bool) (found *config.Object) {
	for _, o := range list {
		if fits(o) {
			if found != nil {
				return nil
			}
			found = o
		}
	}
	return found
}

func (a *addresses) last(fits func(*config.Object) bool) *config.Object {
	for _, o := range slices.Backward(a.gone) {
		if fits(o) {
			return o
		}
	}
	return nil
}

// label gives a record the labels of a workload's pod, by what the control plane knows.
func label(r *record.Record, w *record.Workload, field string, labels map[string]string) {
	text, cut := record.Labels(labels)
	w.Labels = text
	if cut && !slices.Contains(r.Cut, field) {
		r.Cut = append(slices.Clip(r.Cut), field)
	}
}

// enrich adds to a record of the caller id what only the control plane knows: which workload of the mesh was reached, and which
// pod it was of a client whose identity a gateway verified, by the address that the gateway saw.
func (p *plane) enrich(r *record.Record, id identity.ID) {
	if to, err := netip.ParseAddrPort(r.Destination); err == nil {
		if pod := p.known.podAt(to.Addr().Unmap()); pod != nil {
			if r.Direction == record.Outbound {
				r.Direction = record.Lateral
			}
			w := &r.DestinationWorkload
			w.Namespace, w.ServiceAccount, w.Name = pod.Namespace, account(pod), pod.Name
			w.Principal = identity.ID{TrustDomain: id.TrustDomain, Namespace: pod.Namespace, ServiceAccount: account(pod)}.String()
			label(r, w, "destinationWorkload.labels", pod.Labels)
		}
	}
	if r.Reporter != record.ReporterGateway || r.Workload.Principal == "" || r.Workload.Principal == id.String() {
		return
	}
	client, err := identity.ParseID(r.Workload.Principal)
	from, bad := netip.ParseAddrPort(r.Source)
	if err != nil || bad != nil {
		return
	}
	if pod := p.known.clientAt(from.Addr().Unmap(), client); pod != nil {
		r.Workload.Name = pod.Name
		label(r, &r.Workload, "workload.labels", pod.Labels)
	}
}
