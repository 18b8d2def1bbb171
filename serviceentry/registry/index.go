package registry

import (
	"cmp"
	"maps"
	"net/netip"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// index is the writer's own memory of how Kubernetes objects hang together: which slices and pods stand behind
// which service. Readers never see it.
type index struct {
	services  map[string]map[config.Key]*corev1.Service                // by namespace
	slices    map[config.Key]map[config.Key]*discoveryv1.EndpointSlice // service → slices
	sliceOf   map[config.Key]config.Key                                // slice → service
	pods      map[string]map[config.Key]*corev1.Pod                    // by namespace
	podClaims podClaims
	byIP      map[netip.Addr]map[config.Key]*corev1.Pod   // several on the host's network share one
	entries   map[string]map[config.Key]map[string]string // selectors of ServiceEntries, by namespace
	shared    sharedEndpoints
	// workloads are the WorkloadEntries, by namespace.
	workloads map[string]map[config.Key]workload
	rules     map[config.Key]*DestinationRule
	ruled     map[string]bool // patterns whose rules the current batch changed
	// credentials are the rules that name a Secret.
	credentials map[CredentialRef]map[config.Key]bool
	virtual     virtuals
	below       map[string]*belowPattern // what is below patterns that VirtualServices and DestinationRules are for, by tailOf
	gatewayAPI  gatewayAPIUses
	mesh        meshRoutes
	places      map[string]string       // where Nodes are, by their names
	names       map[config.Key][]string // what ingress gateways are asked for by a VirtualService, or a Gateway
	aliases     *ordered.KeyedEdit[aliasKey, Ref]
	// gatewayHosts are the hosts that Gateways of Istio's name, but for "*", and which do.
	gatewayHosts users[string]
}

func newIndex() index {
	return index{
		services: map[string]map[config.Key]*corev1.Service{},
		slices:   map[config.Key]map[config.Key]*discoveryv1.EndpointSlice{},
		sliceOf:  map[config.Key]config.Key{},
		pods:     map[string]map[config.Key]*corev1.Pod{},

		podClaims: newPodClaims(),
		byIP:      map[netip.Addr]map[config.Key]*corev1.Pod{},
		entries:   map[string]map[config.Key]map[string]string{},
		shared:    newSharedEndpoints(),
		workloads: map[string]map[config.Key]workload{},
		rules:     map[config.Key]*DestinationRule{},
		ruled:     map[string]bool{},

		credentials: map[CredentialRef]map[config.Key]bool{},
		virtual:     newVirtuals(),
		below:       map[string]*belowPattern{},
		mesh:        newMeshRoutes(),
		gatewayAPI:  gatewayAPIUses{users[config.Key]{}, users[string]{}, users[config.Key]{}, users[string]{}, users[string]{}},
		names:       map[config.Key][]string{},

		aliases:      ordered.NewKeyed[aliasKey, Ref](aliasKey.compare).Edit(),
		gatewayHosts: users[string]{},
	}
}

func (x *index) setService(key config.Key, o *config.Object) {
	in := x.services[key.Namespace]
	if o == nil {
		delete(in, key)
		return
	}
	if in == nil {
		in = map[config.Key]*corev1.Service{}
		x.services[key.Namespace] = in
	}
	in[key] = o.Spec.(*corev1.Service)
}

// setSlice gives the services whose endpoints may have changed.
func (x *index) setSlice(key config.Key, o *config.Object) map[config.Key]bool {
	changed := map[config.Key]bool{}
	if svc, ok := x.sliceOf[key]; ok {
		delete(x.slices[svc], key)
		delete(x.sliceOf, key)
		changed[svc] = true
	}
	if o == nil {
		return changed
	}
	slice := o.Spec.(*discoveryv1.EndpointSlice)
	svc := config.Key{Kind: config.KindService, Namespace: key.Namespace, Name: o.Labels[discoveryv1.LabelServiceName], Cluster: key.Cluster}
	if x.slices[svc] == nil {
		x.slices[svc] = map[config.Key]*discoveryv1.EndpointSlice{}
	}
	x.slices[svc][key], x.sliceOf[key] = slice, svc
	changed[svc] = true
	return changed
}

// setPod gives the services and entries that may select the pod, before or now.
func (x *index) setPod(key config.Key, o *config.Object) map[config.Key]bool {
	in := x.pods[key.Namespace]
	var both []map[string]string
	old := in[key]
	if old != nil {
		both = append(both, old.Labels)
		for _, ip := range addressesOfPod(old) {
			if delete(x.byIP[ip], key); len(x.byIP[ip]) == 0 {
				delete(x.byIP, ip)
			}
		}
		delete(in, key)
	}
	if o != nil {
		pod := o.Spec.(*corev1.Pod)
		both = append(both, pod.Labels)
		if in == nil {
			in = map[config.Key]*corev1.Pod{}
			x.pods[key.Namespace] = in
		}
		in[key] = pod
		for _, ip := range addressesOfPod(pod) {
			if x.byIP[ip] == nil {
				x.byIP[ip] = map[config.Key]*corev1.Pod{}
			}
			x.byIP[ip][key] = pod
		}
	}
	return x.selecting(key.Namespace, both...)
}

// setSelecting notes the workload selector of a ServiceEntry, if it has one.
func (x *index) setSelecting(key config.Key, o *config.Object) {
	delete(x.entries[key.Namespace], key)
	x.shared.note(key, o)
	if o == nil {
		return
	}
	labels := o.Spec.(*networking.ServiceEntry).GetWorkloadSelector().GetLabels()
	if len(labels) == 0 {
		return
	}
	if x.entries[key.Namespace] == nil {
		x.entries[key.Namespace] = map[config.Key]map[string]string{}
	}
	x.entries[key.Namespace][key] = labels
}

// endpoints gives a service's: from its slices, or without any from the pods that its selector picks; and the workloads that
// it does.
func (x *index) endpoints(svc config.Key) []Endpoint {
	var selector map[string]string
	var ports []corev1.ServicePort
	if spec := x.services[svc.Namespace][svc]; spec != nil {
		selector, ports = spec.Spec.Selector, spec.Spec.Ports
	}
	var out []Endpoint
	if len(selector) > 0 {
		out = x.workloadEndpoints(svc.Namespace, selector, false)
		for i := range out {
			out[i].Written, out[i].Ports = true, byTarget(out[i].Ports, ports)
		}
	}
	switch found := x.slices[svc]; {
	case len(found) > 0:
		out = append(out, x.sliceEndpoints(found, svc.Namespace, ports)...)
	case len(selector) > 0:
		out = append(out, x.podEndpoints(svc.Namespace, selector, ports)...)
	}
	return sortedEndpoints(served(out))
}

// sliceEndpoints gives the endpoints of slices, for the ports of their service.
func (x *index) sliceEndpoints(found map[config.Key]*discoveryv1.EndpointSlice, ns string, of []corev1.ServicePort) []Endpoint {
	var out []Endpoint
	for _, slice := range found {
		ports := slicePorts(slice.Ports, of)
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			for _, a := range e.Addresses {
				found := Endpoint{Address: a, Ports: ports}
				if pod := x.podAt(a, ns); pod != nil {
					found.ServiceAccount, found.Labels, found.Node, found.OfNode = account(pod), pod.Labels, pod.Spec.NodeName, pod.Spec.HostNetwork
					found.Locality = x.placeOf(pod)
				} else {
					found.Written = true
				}
				out = append(out, found)
			}
		}
	}
	return out
}

// byTarget lets a WorkloadEntry name a port as pods do, by the name of a Service's target port.
func byTarget(has map[string]uint32, ports []corev1.ServicePort) map[string]uint32 {
	out := has
	for _, p := range ports {
		number, named := has[p.TargetPort.StrVal]
		if _, own := has[p.Name]; own || !named || p.TargetPort.StrVal == "" {
			continue
		}
		if len(out) == len(has) {
			out = maps.Clone(has)
		}
		out[p.Name] = number
	}
	return out
}

// slicePorts are those that the endpoints of a slice have, by their names. A service's port that a slice does not name is none of its endpoints', as for
// kube-proxy and in Istio; a slice that names no port at all, or one without a number, says nothing of them.
func slicePorts(list []discoveryv1.EndpointPort, of []corev1.ServicePort) map[string]uint32 {
	ports, all := map[string]uint32{}, len(list) == 0
	for _, p := range list {
		switch {
		case p.Port == nil:
			all = true
		case isPort(*p.Port) && p.Name != nil:
			ports[*p.Name] = uint32(*p.Port)
		case isPort(*p.Port):
			ports[""] = uint32(*p.Port)
		}
	}
	for _, p := range of {
		if _, named := ports[p.Name]; !named && !all {
			ports[p.Name] = 0
		}
	}
	return ports
}

// podEndpoints gives the running pods of a namespace that carry the labels. The ports are those of the service,
// if there is one: a named target port is another number in each pod.
func (x *index) podEndpoints(ns string, selector map[string]string, ports []corev1.ServicePort) []Endpoint {
	var out []Endpoint
	for _, p := range x.pods[ns] {
		running := p.Status.Phase == "" || p.Status.Phase == corev1.PodRunning
		if _, reached := host.Reachable(p.Status.PodIP); reached && running && p.DeletionTimestamp == nil && selects(selector, p.Labels) {
			out = append(out, Endpoint{
				Address: p.Status.PodIP, Ports: namedPorts(p, ports), ServiceAccount: account(p), Labels: p.Labels,
				Node: p.Spec.NodeName, OfNode: p.Spec.HostNetwork, Locality: x.placeOf(p),
			})
		}
	}
	return out
}

// namedPorts finds, in a pod's containers, the numbers of the target ports that a service names; 0 of one that the pod does not have.
func namedPorts(p *corev1.Pod, ports []corev1.ServicePort) map[string]uint32 {
	var out map[string]uint32
	for _, want := range ports {
		if want.TargetPort.StrVal == "" {
			continue
		}
		if out == nil {
			out = map[string]uint32{}
		}
		out[want.Name] = NamedPort(p, want.TargetPort.StrVal)
	}
	return out
}

// NamedPort is the number of a pod's port of a name; 0 where no container that runs with the others has one.
func NamedPort(p *corev1.Pod, name string) (number uint32) {
	for _, c := range p.Spec.Containers {
		number = cmp.Or(number, portNamed(c.Ports, name))
	}
	for _, c := range p.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			number = cmp.Or(number, portNamed(c.Ports, name))
		}
	}
	return number
}

func portNamed(list []corev1.ContainerPort, name string) uint32 {
	for _, p := range list {
		if p.Name == name && isPort(p.ContainerPort) {
			return uint32(p.ContainerPort)
		}
	}
	return 0
}

// podAt is the first pod of a namespace at an address, in name order; nil without one. Pods of other namespaces may have the
// address too, as on a host's network; a Service's are of its own.
func (x *index) podAt(text, ns string) *corev1.Pod {
	ip, err := netip.ParseAddr(text)
	if err != nil {
		return nil
	}
	var first config.Key
	var found *corev1.Pod
	for key, pod := range x.byIP[ip.Unmap()] {
		if key.Namespace == ns && (found == nil || key.Compare(first) < 0) {
			first, found = key, pod
		}
	}
	return found
}

// placeOf is where a pod is: as its own label says, else as its Node does.
func (x *index) placeOf(p *corev1.Pod) string {
	return cmp.Or(locality.OfLabels(p.Labels), x.places[p.Spec.NodeName])
}

func account(p *corev1.Pod) string { return cmp.Or(p.Spec.ServiceAccountName, "default") }
