package kube

import (
	"reflect"

	"istio.io/api/annotation"
	"istio.io/api/label"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
)

// The functions of this file keep of Kubernetes' own objects what the registry reads, and nothing else: what is not
// kept takes no memory and makes no change.

// trimService keeps addresses, ports, the selector, and which endpoints it wants asked.
func trimService(s *corev1.Service) version {
	trimmed := &corev1.Service{
		ObjectMeta: trimMeta(&s.ObjectMeta),
		Spec: corev1.ServiceSpec{
			Type: s.Spec.Type, ExternalName: s.Spec.ExternalName, Selector: s.Spec.Selector,
			ClusterIP: s.Spec.ClusterIP, ClusterIPs: s.Spec.ClusterIPs, Ports: s.Spec.Ports,
			ExternalIPs: s.Spec.ExternalIPs, LoadBalancerIP: s.Spec.LoadBalancerIP,
			TrafficDistribution: s.Spec.TrafficDistribution, InternalTrafficPolicy: nodeLocal(s), SessionAffinity: affinity(s),
		},
		Status: corev1.ServiceStatus{LoadBalancer: s.Status.LoadBalancer},
	}
	return native(config.KindService, &s.ObjectMeta, s.Annotations, trimmed)
}

// affinity is what keeps clients with their pods; the usual one, which is none, is left out.
func affinity(s *corev1.Service) corev1.ServiceAffinity {
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		return corev1.ServiceAffinityClientIP
	}
	return ""
}

// nodeLocal is the policy that keeps clients to their own node; the usual one is left out.
func nodeLocal(s *corev1.Service) *corev1.ServiceInternalTrafficPolicy {
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		return p
	}
	return nil
}

// trimSlice keeps addresses, readiness and ports, and which Service they are of.
func trimSlice(s *discoveryv1.EndpointSlice) version {
	trimmed := &discoveryv1.EndpointSlice{
		ObjectMeta: trimMeta(&s.ObjectMeta), AddressType: s.AddressType, Ports: s.Ports,
		Endpoints: make([]discoveryv1.Endpoint, len(s.Endpoints)),
	}
	trimmed.Labels = nil
	if of, ok := s.Labels[discoveryv1.LabelServiceName]; ok {
		trimmed.Labels = map[string]string{discoveryv1.LabelServiceName: of}
	}
	for i, e := range s.Endpoints {
		trimmed.Endpoints[i] = discoveryv1.Endpoint{
			Addresses: e.Addresses, Conditions: discoveryv1.EndpointConditions{Ready: e.Conditions.Ready},
		}
	}
	return native(config.KindEndpointSlice, &s.ObjectMeta, nil, trimmed)
}

// trimPod keeps labels, the uid, the account, the addresses and whose they are, the phase, the names of ports, and that it has a sidecar; of one
// without, the ports that the kubelet connects to, and what a gateway's agent is told of the proxies in front of it.
func trimPod(p *corev1.Pod) version {
	trimmed := &corev1.Pod{
		ObjectMeta: trimMeta(&p.ObjectMeta),
		Spec:       corev1.PodSpec{ServiceAccountName: p.Spec.ServiceAccountName, HostNetwork: p.Spec.HostNetwork, NodeName: p.Spec.NodeName},
		Status:     corev1.PodStatus{Phase: p.Status.Phase, PodIP: p.Status.PodIP},
	}
	if len(p.Status.PodIPs) > 1 { // else PodIP says it
		trimmed.Status.PodIPs = p.Status.PodIPs
	}
	trimmed.UID, trimmed.DeletionTimestamp = p.UID, p.DeletionTimestamp
	_, injected := p.Annotations[annotation.SidecarStatus.Name]
	for i := range p.Spec.Containers {
		if kept := trimContainer(&p.Spec.Containers[i], injected); !reflect.DeepEqual(kept, corev1.Container{}) {
			trimmed.Spec.Containers = append(trimmed.Spec.Containers, kept)
		}
	}
	for i := range p.Spec.InitContainers {
		c := &p.Spec.InitContainers[i]
		if kept := trimContainer(c, injected); !injected && isNative(c) && connected(&kept) {
			kept.RestartPolicy = c.RestartPolicy
			trimmed.Spec.InitContainers = append(trimmed.Spec.InitContainers, kept)
		}
	}
	var kept map[string]string
	if injected {
		kept = map[string]string{annotation.SidecarStatus.Name: ""}
	}
	return native(config.KindPod, &p.ObjectMeta, kept, trimmed)
}

// trimNamespace keeps labels and annotations; the server sends nothing else.
func trimNamespace(n *metav1.PartialObjectMetadata) version {
	return native(config.KindNamespace, &n.ObjectMeta, n.Annotations, &corev1.Namespace{ObjectMeta: trimMeta(&n.ObjectMeta)})
}

// trimNode keeps the networks of its pods, its addresses in the cluster, and the labels that say where it is. A node tells about itself every few
// seconds; nothing of that is kept, so it is no change.
func trimNode(n *corev1.Node) version {
	trimmed := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: corev1.NodeSpec{PodCIDR: n.Spec.PodCIDR, PodCIDRs: n.Spec.PodCIDRs}}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			trimmed.Status.Addresses = append(trimmed.Status.Addresses, a)
		}
	}
	for _, key := range [...]string{corev1.LabelTopologyRegion, corev1.LabelTopologyZone, label.TopologySubzone.Name} {
		if v, has := n.Labels[key]; has {
			if trimmed.Labels == nil {
				trimmed.Labels = map[string]string{}
			}
			trimmed.Labels[key] = v
		}
	}
	return native(config.KindNode, &n.ObjectMeta, nil, trimmed)
}

func trimMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: m.Name, Namespace: m.Namespace, Labels: m.Labels}
}

// native makes the version of one of Kubernetes' own objects.
func native(kind config.Kind, m *metav1.ObjectMeta, annotations map[string]string, trimmed metav1.Object) version {
	if delete(annotations, lastApplied); len(annotations) == 0 {
		annotations = nil
	}
	v := version{key: config.Key{Kind: kind, Namespace: m.Namespace, Name: m.Name}}
	o := config.Object{
		Key: v.key, Labels: trimmed.GetLabels(), Annotations: annotations, Created: m.CreationTimestamp.Time, Origin: origin, Spec: trimmed,
	}
	decode.Stamp(&o)
	v.take(o)
	return v
}
