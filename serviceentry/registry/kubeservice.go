package registry

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry/ordered"
)

// fromKubeService makes the mesh's view of a Kubernetes Service. Of its endpoints a headless one has the addresses.
func fromKubeService(o *config.Object, spec *corev1.Service, endpoints *EndpointSet, at *Snapshot) *Service {
	s := &Service{
		Host:       Ref{o.Namespace, o.Name}.Host(),
		Namespace:  o.Namespace,
		Source:     o.Key,
		Revision:   o.Revision,
		Created:    o.Created,
		Ports:      kubePorts(spec.Spec.Ports),
		Resolution: Static,
		Traits: &Traits{
			Addresses:           clusterIPs(spec),
			TrafficDistribution: prefersOf(o, spec),
			NodeLocal:           nodeLocal(spec),
			HasSelector:         len(spec.Spec.Selector) > 0,
			ByClientIP:          spec.Spec.SessionAffinity == corev1.ServiceAffinityClientIP,
			ExportTo:            exportTo(splitList(o.Annotations[exportAnnotation]), o.Namespace, at.Mesh.DefaultServiceExportTo),
		},
	}
	if headless(spec) {
		s.Resolution, s.Addresses = None, nil
		if endpoints != nil {
			here := at.ClientLocation(at.topology.Network(nil), locality.Client{}).Here(endpoints.List)
			s.Addresses = podAddresses(here)
			s.Written = writtenAddresses(here)
			s.OfNodes = podAddresses(slices.DeleteFunc(slices.Clone(here), func(e Endpoint) bool { return !e.OfNode }))
		}
	}
	return s
}

// nodeLocal says whether clients are led to endpoints on their own Node only.
func nodeLocal(s *corev1.Service) bool {
	return s.Spec.InternalTrafficPolicy != nil && *s.Spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
}

func headless(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }

// podAddresses are a headless service's: its clients choose among the pods themselves.
func podAddresses(endpoints []Endpoint) []netip.Prefix {
	all := make([]string, len(endpoints))
	for i, e := range endpoints {
		all[i] = e.Address
	}
	return prefixes(all)
}

// writtenAddresses are those of them that no pod has: somebody wrote them.
func writtenAddresses(endpoints []Endpoint) []netip.Prefix {
	ofPods := map[string]bool{}
	for _, e := range endpoints {
		ofPods[e.Address] = ofPods[e.Address] || !e.Written
	}
	return podAddresses(slices.DeleteFunc(slices.Clone(endpoints), func(e Endpoint) bool { return ofPods[e.Address] }))
}

// Headless says whether a service is a Kubernetes Service without an address of its own. Its pods have names below its.
func (s *Service) Headless() bool {
	return s.Source.Kind == config.KindService && s.Resolution == None
}

func kubePorts(in []corev1.ServicePort) []Port {
	out := make([]Port, 0, len(in))
	for _, p := range in {
		if config.IsBoundPort(uint32(p.Port)) || !isPort(p.Port) || p.TargetPort.IntVal != 0 && !isPort(p.TargetPort.IntVal) {
			continue // pods' proxies listen there themselves, or nobody can; lint says so
		}
		target := uint32(p.TargetPort.IntVal)
		if target == 0 {
			target = uint32(p.Port)
		}
		out = append(out, Port{
			Name: p.Name, Number: uint32(p.Port), TargetPort: target,
			Explicit: p.TargetPort.IntVal != 0, Named: p.TargetPort.StrVal != "", Protocol: KubeProtocol(p),
		})
	}
	slices.SortFunc(out, func(a, b Port) int { return int(a.Number) - int(b.Number) })
	return out
}

// KubeProtocol follows Istio's protocol selection: appProtocol, then the port name's prefix, then what is well
// known.
func KubeProtocol(p corev1.ServicePort) Protocol {
	if p.Protocol == corev1.ProtocolUDP {
		return UDP
	}
	if p.AppProtocol != nil && *p.AppProtocol != "" {
		return appProtocol(*p.AppProtocol)
	}
	name, _, _ := strings.Cut(p.Name, "-")
	return ParseProtocol(name)
}

// appProtocol reads Kubernetes' own names (KEP-3726), and those of Istio's ports.
func appProtocol(name string) Protocol {
	switch name {
	case "kubernetes.io/h2c":
		return HTTP2
	case "kubernetes.io/ws":
		return HTTP
	case "kubernetes.io/wss":
		return TLS
	default:
		return ParseProtocol(strings.TrimPrefix(name, "kubernetes.io/"))
	}
}

func clusterIPs(s *corev1.Service) []netip.Prefix {
	ips := s.Spec.ClusterIPs
	if len(ips) == 0 && s.Spec.ClusterIP != "" {
		ips = []string{s.Spec.ClusterIP}
	}
	return prefixes(ips)
}

// outsideOf are the addresses by which a Service is reached from outside of the cluster.
func outsideOf(s *corev1.Service) []netip.Addr {
	list := append(slices.Clone(s.Spec.ExternalIPs), s.Spec.LoadBalancerIP)
	for _, i := range s.Status.LoadBalancer.Ingress {
		list = append(list, i.IP)
	}
	var out []netip.Addr
	for _, text := range list {
		if addr, err := netip.ParseAddr(text); err == nil {
			out = append(out, addr.WithZone("").Unmap())
		}
	}
	return out
}

func splitList(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

// setKube notes that a Service of the own cluster, or of another one, came, changed or went.
func (b *batch) setKube(ref Ref) {
	b.changed.Kube = true
	was, _ := b.kube.Get(ref)
	is := b.kubeService(ref)
	if (was == nil) != (is == nil) {
		b.noteKubeNames(ref)
	}
	for _, r := range b.next.selecting[ref.Namespace] { // others may select the gateway
		b.touchCovered(r.Host)
	}
	if is == nil {
		b.kube.Delete(ref)
	} else {
		b.kube.Put(ref, is)
	}
	b.touchSelecting(was, is)
	b.noteWaypoint(was, is)
}

// untranslatedLabel is Istio's, on Services: with any value.
const untranslatedLabel = "experimental.istio.io/disable-gateway-port-translation"

// kubeService is what gateways' pods need to know of a Service; of one that only other clusters have, that it is there.
func (b *batch) kubeService(ref Ref) *KubeService {
	key := config.Key{Kind: config.KindService, Namespace: ref.Namespace, Name: ref.Name}
	if spec := b.index.services[ref.Namespace][key]; spec != nil {
		k := &KubeService{Ref: ref, Host: ref.Host(), Selector: spec.Spec.Selector, Ports: kubePorts(spec.Spec.Ports), Outside: outsideOf(spec)}
		if o := b.objects.Get(key); o != nil {
			k.Waypoint = b.useWaypoint(o, k.Selector)
			k.Ingressed = !k.Waypoint.IsZero() && IngressByWaypoint(o.Labels, b.next.namespaces[o.Namespace])
			_, k.Untranslated = o.Labels[untranslatedLabel]
		}
		return k
	}
	for cluster, x := range b.remotes {
		if x.services[ref.Namespace][key.In(cluster)] != nil {
			return &KubeService{Ref: ref, Host: ref.Host()}
		}
	}
	return nil
}

// kubeServices are the Services that there are, of the own cluster and of others.
type kubeServices struct {
	ordered.Keyed[Ref, *KubeService]
}

func newKubeServices() kubeServices {
	return kubeServices{ordered.NewKeyed[Ref, *KubeService](func(a, b Ref) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})}
}

// in goes through those of a namespace until f says false.
func (k kubeServices) in(ns string, f func(*KubeService) bool) {
	k.From(Ref{Namespace: ns}, func(ref Ref, s *KubeService) bool { return ref.Namespace == ns && f(s) })
}

// FullName is the name in the cluster that is made of a shorter one; "" where nothing has it: no Service, no other name of one, and no entry.
func (s *Snapshot) FullName(ref Ref) string {
	if k, ok := s.kube.Get(ref); ok {
		return k.Host
	}
	if s.aliases.Len() == 0 && s.find.inClusterForm == 0 {
		return ""
	}
	return ref.Host()
}
