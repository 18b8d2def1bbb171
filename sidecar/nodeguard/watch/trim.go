package watch

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The functions of this file keep of an object what the view reads. What is not kept takes no memory.

func trimPod(o any) (any, error) {
	p, ok := o.(*corev1.Pod)
	if !ok {
		return nil, fmt.Errorf("a %T came among the pods", o)
	}
	return &corev1.Pod{
		ObjectMeta: trimMeta(&p.ObjectMeta), Spec: corev1.PodSpec{HostNetwork: p.Spec.HostNetwork},
		Status: corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP, PodIPs: p.Status.PodIPs},
	}, nil
}

func trimNode(o any) (any, error) {
	n, ok := o.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("a %T came among the nodes", o)
	}
	lean := &corev1.Node{
		ObjectMeta: trimMeta(&n.ObjectMeta), Spec: corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs},
		Status: corev1.NodeStatus{Addresses: n.Status.Addresses},
	}
	lean.Labels = nil
	return lean, nil
}

func trimNamespace(o any) (any, error) {
	n, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, fmt.Errorf("a %T came among the namespaces", o)
	}
	return &metav1.PartialObjectMetadata{ObjectMeta: trimMeta(&n.ObjectMeta)}, nil
}

func trimService(o any) (any, error) {
	s, ok := o.(*corev1.Service)
	if !ok {
		return nil, fmt.Errorf("a %T came among the services", o)
	}
	lean := &corev1.Service{ObjectMeta: trimMeta(&s.ObjectMeta), Spec: corev1.ServiceSpec{ClusterIPs: s.Spec.ClusterIPs}}
	lean.Labels = nil
	return lean, nil
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, ResourceVersion: m.ResourceVersion, Labels: m.Labels}
}

func podAddresses(p *corev1.Pod) []netip.Addr {
	texts := []string{p.Status.PodIP}
	for _, a := range p.Status.PodIPs {
		if a.IP != p.Status.PodIP {
			texts = append(texts, a.IP)
		}
	}
	return parseAll(texts)
}

func podNetworks(n *corev1.Node) []netip.Prefix {
	texts := n.Spec.PodCIDRs
	if len(texts) == 0 {
		texts = []string{n.Spec.PodCIDR}
	}
	var list []netip.Prefix
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			list = append(list, p.Masked())
		}
	}
	return list
}

// nodeAddresses leaves out what is no internal address: an external one belongs to the world.
func nodeAddresses(n *corev1.Node) []netip.Addr {
	var texts []string
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			texts = append(texts, a.Address)
		}
	}
	return parseAll(texts)
}
