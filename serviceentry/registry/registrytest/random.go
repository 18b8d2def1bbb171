// Package registrytest makes random configuration for property tests: of the registry, and of what is made from it.
package registrytest

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/locality"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// World makes changes to a small world in which things collide: few namespaces, few hosts, few names.
type World struct {
	rand    *rand.Rand
	version uint64
	// Objects is what stands after the changes so far.
	Objects map[config.Key]*config.Object
}

// NewWorld makes an empty world; equal seeds make equal worlds.
func NewWorld(seed uint64) *World {
	return &World{rand: rand.New(rand.NewPCG(seed, 7)), Objects: map[config.Key]*config.Object{}}
}

// Namespaces are all that objects are in.
var Namespaces = []string{"default", "team-a", "team-b", "istio-system"}

// Change makes one change: mostly a new or changed object, at times a removal.
func (w *World) Change() config.Change {
	o := w.object()
	if w.rand.IntN(4) == 0 {
		delete(w.Objects, o.Key)
		return config.Change{Key: o.Key}
	}
	w.Objects[o.Key] = o
	return config.Change{Key: o.Key, Object: o}
}

// Mutual makes one change of what says who speaks mutual TLS: a PeerAuthentication, or a pod with a proxy.
func (w *World) Mutual() config.Change {
	o := w.aged(w.made(config.KindPeerAuthentication, pick(w, Namespaces), pick(w, []string{"p1", "p2", "p3"}), w.peerAuthentication(), nil))
	if w.rand.IntN(3) == 0 {
		p := w.pod()
		p.Labels["security.istio.io/tlsMode"] = "istio"
		o = w.made(config.KindPod, "istio-system", pick(w, []string{"g1", "g2"}), p, nil)
	}
	w.Objects[o.Key] = o
	return config.Change{Key: o.Key, Object: o}
}

// Shuffled gives all that stands, in an order of its own.
func (w *World) Shuffled() []config.Change {
	var out []config.Change
	for k, o := range w.Objects {
		out = append(out, config.Change{Key: k, Object: o})
	}
	w.rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (w *World) object() *config.Object {
	ns := pick(w, Namespaces)
	switch w.rand.IntN(19) {
	case 0:
		return w.made(config.KindSidecar, ns, pick(w, []string{"one", "two"}), w.sidecar(), nil)
	case 1:
		return w.made(config.KindDestinationRule, ns, pick(w, []string{"r1", "r2", "r3"}), w.rule(), nil)
	case 2:
		return w.made(config.KindService, "istio-system", "istio-egressgateway", w.gateway(), nil)
	case 3:
		return w.made(config.KindPod, "istio-system", pick(w, []string{"g1", "g2"}), w.pod(), nil)
	case 4:
		at := pick(w, [][2]string{{"default", "web"}, {"default", "web"}, {"default", "other"}, {"team-a", "other"}, {"istio-system", "pods"}})
		return w.made(config.KindService, at[0], at[1], w.service(), nil)
	case 16, 17:
		o := w.made(config.KindVirtualService, ns, pick(w, []string{"v1", "v2", "v3", "d1", "d2"}), w.virtualService(), nil)
		o.Created = time.Unix(1_600_000_000+int64(w.rand.IntN(3)), 0)
		return o
	case 9:
		return w.serviceRoute(ns, Namespaces, []string{"web", "other", "pods"}, Ports)
	case 18:
		return w.made(config.KindGateway, ns, pick(w, []string{"g1", "g2"}), w.gatewayObject(), nil)
	case 8:
		o := w.made(config.KindWorkloadEntry, ns, pick(w, []string{"w1", "w2", "w3"}), w.workload(), nil)
		o.Out = pick(w, []string{"", "", "its probe fails"})
		return o
	case 7:
		return w.made(config.KindSecret, ns, pick(w, []string{"client", "client-cacert"}), w.secret(), nil)
	case 5:
		return w.made(config.KindNamespace, "", ns, &corev1.Namespace{}, w.annotations())
	case 6:
		o := w.made(config.KindNode, "", pick(w, []string{"n1", "n2", "n3"}), w.node(), nil)
		o.Labels = w.topology()
		return o
	default:
		return w.made(config.KindServiceEntry, ns, fmt.Sprintf("e%d", w.rand.IntN(12)), w.entry(), w.annotations())
	}
}

// node has one of four neighbouring networks, so that they join and part.
func (w *World) node() *corev1.Node {
	return &corev1.Node{
		Spec:   corev1.NodeSpec{PodCIDR: pick(w, []string{"10.4.0.0/24", "10.4.1.0/24", "10.4.2.0/24", "fd00:4::/64"})},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: pick(w, []string{"192.0.2.4", "10.4.1.7"})}}},
	}
}

func (w *World) made(kind config.Kind, ns, name string, spec any, annotations map[string]string) *config.Object {
	w.version++
	return &config.Object{
		Key: config.Key{Kind: kind, Namespace: ns, Name: name}, Annotations: annotations, Spec: spec, Hash: w.version, Revision: fmt.Sprintf("%032x", w.version),
	}
}

func (w *World) annotations() map[string]string {
	switch w.rand.IntN(4) {
	case 0:
		return map[string]string{registry.GatewayAnnotation: registry.ExitDirect}
	case 1:
		return map[string]string{registry.GatewayAnnotation: "team-a/own-gateway"}
	default:
		return nil
	}
}

// hosts has two whose made-up addresses fall on the same slot of their table: h-71.example and h-159.example.
var hosts = []string{
	"a.example", "b.example", "*.example", "*.b.example", "x.b.example", "h-71.example", "h-159.example", "c.test",
	"web.default", "web", "other.default", "*.pods.istio-system.svc.cluster.local", "*.pods",
	"*.web.default", "db-0.web.default", "*.default", "web.default.svc.cluster.local",
}

// Addresses are the single ones that several entries write, and Ports what they are written for.
var (
	Addresses = []string{"203.0.113.7", "203.0.113.8", "10.0.0.9", "240.240.0.9"}
	Ports     = []uint32{80, 443, 5432, 9000}
)

func (w *World) entry() *networking.ServiceEntry {
	e := &networking.ServiceEntry{
		Hosts:      []string{pick(w, hosts), pick(w, hosts)},
		Location:   networking.ServiceEntry_MESH_EXTERNAL,
		Resolution: pick(w, []networking.ServiceEntry_Resolution{networking.ServiceEntry_DNS, networking.ServiceEntry_NONE}),
		ExportTo:   pick(w, [][]string{nil, {"*"}, {"."}, {"team-b"}, {".", "team-a"}, {"~"}}),
	}
	if e.Hosts[0] == e.Hosts[1] {
		e.Hosts = e.Hosts[:1]
	}
	for _, p := range [][]*networking.ServicePort{
		{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 443, Name: "tls", Protocol: "TLS"}},
		{{Number: 443, Name: "tls", Protocol: "HTTPS"}},
		{{Number: 5432, Name: "pg", Protocol: "TCP"}},
		{{Number: 80, Name: "http", Protocol: "HTTP"}, {Number: 9000, Name: "grpc", Protocol: "GRPC"}},
	} {
		if w.rand.IntN(2) == 0 || e.Ports == nil {
			e.Ports = p
		}
	}
	if w.rand.IntN(3) == 0 {
		e.Addresses = pick(w, [][]string{
			{"203.0.113.7"}, {"203.0.113.7", "203.0.113.8"}, {"10.0.0.9"}, {"240.240.0.9"}, {"203.0.113.64/28"}, {"203.0.113.64/28", "203.0.113.96/28"},
		})
	}
	switch w.rand.IntN(6) {
	case 0:
		e.Resolution = pick(w, []networking.ServiceEntry_Resolution{networking.ServiceEntry_STATIC, networking.ServiceEntry_DNS})
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"istio": pick(w, []string{"egressgateway", "app"})}}
	case 1:
		e.Resolution, e.Addresses = networking.ServiceEntry_STATIC, nil
		for range 1 + w.rand.IntN(2) { // outside, inside, gateways, the proxy's own host
			e.Endpoints = append(e.Endpoints, &networking.WorkloadEntry{Address: pick(w, []string{"203.0.113.9", "203.0.113.2", "10.0.0.2", "10.1.0.1", "127.0.0.1"}), Locality: pick(w, []string{"", "r1/z1", "r2"})})
		}
	}
	return e
}

// secret is one of two pairs, roots, or no credential.
func (w *World) secret() *corev1.Secret {
	pair := Pair(w.rand.IntN(2))
	return &corev1.Secret{StringData: pick(w, []map[string]string{
		{"tls.crt": pair.Certificate, "tls.key": pair.Key}, {"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": pair.Certificate},
		{"ca.crt": pair.Certificate}, {"other": "x"},
	})}
}

// service is one with an address, a headless one, or another name of a host.
func (w *World) service() *corev1.Service {
	s := web()
	switch w.rand.IntN(8) {
	case 0:
		s.Spec.TrafficDistribution = new(pick(w, []string{"PreferClose", "PreferSameNode"}))
		s.Spec.Selector = map[string]string{"istio": "egressgateway"}
	case 1:
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		s.Spec.Selector = map[string]string{"istio": "egressgateway"}
	}
	switch w.rand.IntN(4) {
	case 0:
		s.Spec.ClusterIP, s.Spec.Selector = corev1.ClusterIPNone, map[string]string{"istio": "egressgateway"}
	case 1:
		s.Spec.ClusterIP, s.Spec.Type = "", corev1.ServiceTypeExternalName
		s.Spec.ExternalName = pick(w, []string{"a.example", "b.example", "web.default.svc.cluster.local", "other.default.svc.cluster.local", "other.team-a.svc.cluster.local"})
	}
	return s
}

// web is a service whose short names and address entries may take.
func web() *corev1.Service {
	return &corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: "10.0.0.9", Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "tcp-pg", Port: 5432}}}}
}

func (w *World) sidecar() *networking.Sidecar {
	s := &networking.Sidecar{Egress: []*networking.IstioEgressListener{{
		Hosts: pick(w, [][]string{{"./*"}, {"*/*"}, {"team-a/*.example", "./*"}, {"istio-system/*"}}),
	}}}
	if w.rand.IntN(2) == 0 {
		s.OutboundTrafficPolicy = &networking.OutboundTrafficPolicy{Mode: networking.OutboundTrafficPolicy_REGISTRY_ONLY}
	}
	return s
}

func (w *World) rule() *networking.DestinationRule {
	r := &networking.DestinationRule{
		Host: pick(w, hosts), ExportTo: pick(w, [][]string{nil, nil, {"."}, {"team-a"}, {"*"}, {".", "team-a"}}),
		TrafficPolicy: &networking.TrafficPolicy{Tls: &networking.ClientTLSSettings{
			Mode: pick(w, []networking.ClientTLSSettings_TLSmode{networking.ClientTLSSettings_DISABLE, networking.ClientTLSSettings_SIMPLE}),
		}},
	}
	switch w.rand.IntN(5) {
	case 0:
		r.TrafficPolicy.Tls = &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_MUTUAL, CredentialName: "client"}
	case 1:
		r.TrafficPolicy.Tls = &networking.ClientTLSSettings{Mode: networking.ClientTLSSettings_SIMPLE, CredentialName: "client"}
	case 2:
		r.TrafficPolicy.Tls.Mode = networking.ClientTLSSettings_ISTIO_MUTUAL
	}
	if w.rand.IntN(3) == 0 {
		r.TrafficPolicy.OutlierDetection = &networking.OutlierDetection{Consecutive_5XxErrors: wrapperspb.UInt32(3)}
	}
	if w.rand.IntN(3) == 0 {
		r.TrafficPolicy.LoadBalancer = &networking.LoadBalancerSettings{LocalityLbSetting: w.locality()}
	}
	if tls := r.TrafficPolicy.Tls; tls.Mode != networking.ClientTLSSettings_DISABLE && w.rand.IntN(3) == 0 {
		tls.SubjectAltNames = []string{"a.example", "b.example"}
	}
	if w.rand.IntN(3) == 0 {
		r.Subsets = []*networking.Subset{{Name: "v1", Labels: map[string]string{"version": "v1"}}, {Name: "all"}}
	}
	if w.rand.IntN(4) == 0 {
		r.WorkloadSelector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"istio": pick(w, []string{"egressgateway", "app"})}}
	}
	return r
}

// topology are a Node's labels.
func (w *World) topology() map[string]string {
	return pick(w, []map[string]string{nil, {locality.LabelRegion: "r1", locality.LabelZone: "z1"}, {locality.LabelRegion: "r1", locality.LabelZone: "z2"}, {locality.LabelRegion: "r2"}})
}

func (w *World) locality() *networking.LocalityLoadBalancerSetting {
	return pick(w, []*networking.LocalityLoadBalancerSetting{
		{}, {Enabled: wrapperspb.Bool(false)},
		{Failover: []*networking.LocalityLoadBalancerSetting_Failover{{From: "r1", To: "r2"}}},
		{FailoverPriority: []string{"istio", locality.LabelRegion}}, {FailoverPriority: []string{"istio"}},
		{Distribute: []*networking.LocalityLoadBalancerSetting_Distribute{{From: "r1/*", To: map[string]uint32{"r1/z1": 70, "r2": 30}}}},
	})
}

// virtualService leads hosts to others, in all the ways in which objects hang together: by delegates, Gateways, sourceLabels and
// sourceNamespace. Without hosts it is a delegate.
func (w *World) virtualService() *networking.VirtualService {
	v := &networking.VirtualService{
		Hosts:    pick(w, [][]string{{"a.example"}, {"*.example"}, {"b.example", "c.test"}, {"web"}, {"web.default.svc.cluster.local"}, {"h-71.example"}, nil}),
		ExportTo: pick(w, [][]string{nil, nil, {"."}, {"team-b"}, {"*"}, {"~"}}),
	}
	if v.Hosts != nil {
		v.Gateways = pick(w, [][]string{nil, {"mesh", "g1"}, {"istio-system/g2"}})
	}
	for range 1 + w.rand.IntN(2) {
		h := &networking.HTTPRoute{Match: []*networking.HTTPMatchRequest{{}}}
		switch m := h.Match[0]; w.rand.IntN(4) {
		case 0:
			m.SourceLabels = map[string]string{"istio": pick(w, []string{"app", "other"})}
		case 1:
			m.SourceNamespace = pick(w, Namespaces)
		case 2:
			m.Gateways = []string{pick(w, []string{"mesh", "g1", "istio-system/g1"})}
		}
		if v.Hosts != nil && w.rand.IntN(3) == 0 {
			h.Delegate = &networking.Delegate{Name: pick(w, []string{"d1", "d2"}), Namespace: pick(w, []string{"", "team-a"})}
		} else {
			h.Route = []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: pick(w, hosts)}}}
		}
		v.Http = append(v.Http, h)
	}
	return v
}

// gatewayObject is about the pods of the gateway, or of others.
func (w *World) gatewayObject() *networking.Gateway {
	return &networking.Gateway{
		Selector: map[string]string{"istio": pick(w, []string{"egressgateway", "other"})},
		Servers:  []*networking.Server{{Port: &networking.Port{Number: pick(w, Ports), Name: "p", Protocol: "HTTP"}, Hosts: pick(w, [][]string{{"*"}, {"./a.example"}, {"team-a/*.example"}})}},
	}
}

func (w *World) gateway() *corev1.Service {
	s := &corev1.Service{}
	s.Spec.Selector = map[string]string{"istio": pick(w, []string{"egressgateway", "other"})}
	s.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443}}
	return s
}

func (w *World) pod() *corev1.Pod {
	p := &corev1.Pod{}
	p.Labels = map[string]string{"istio": "egressgateway"}
	p.Spec.ServiceAccountName = pick(w, []string{"egress", "other"})
	p.Spec.NodeName = pick(w, []string{"n1", "n2", ""})
	if w.rand.IntN(4) == 0 {
		p.Labels[locality.LabelPod] = "r2.z1"
	}
	p.Status.PodIP = pick(w, []string{"10.0.0.2", "10.0.0.3", "203.0.113.2"})
	return p
}

// workload is found by the selectors of entries, and of the gateway's Service.
func (w *World) workload() *networking.WorkloadEntry {
	return &networking.WorkloadEntry{
		Address: pick(w, []string{"10.2.0.1", "10.2.0.2", "203.0.113.9", "vm.test", ""}), Weight: uint32(w.rand.IntN(3)),
		Labels: map[string]string{"istio": pick(w, []string{"egressgateway", "app"})}, Ports: pick(w, []map[string]uint32{nil, {"p0": 8080}}),
		ServiceAccount: pick(w, []string{"", "vm"}), Locality: pick(w, []string{"", "r1/z1", "r2"}),
	}
}

func (w *World) peerAuthentication() *security.PeerAuthentication {
	mode := func() *security.PeerAuthentication_MutualTLS {
		return &security.PeerAuthentication_MutualTLS{Mode: security.PeerAuthentication_MutualTLS_Mode(w.rand.IntN(4))}
	}
	p := &security.PeerAuthentication{}
	if w.rand.IntN(4) > 0 {
		p.Mtls = mode()
	}
	if w.rand.IntN(2) == 0 {
		p.Selector = &typev1beta1.WorkloadSelector{MatchLabels: map[string]string{"istio": pick(w, []string{"egressgateway", "app"})}}
		p.PortLevelMtls = map[uint32]*security.PeerAuthentication_MutualTLS{pick(w, []uint32{80, 443, 8080}): mode()}
	}
	return p
}

func pick[T any](w *World, of []T) T { return of[w.rand.IntN(len(of))] }

// Accepted takes out the objects that are not accepted, and gives each Service an address of its own, as an API server does.
func (w *World) Accepted(accept func(config.Object) bool) {
	for key, o := range w.Objects {
		if !accept(*o) {
			delete(w.Objects, key)
			continue
		}
		if s, ok := o.Spec.(*corev1.Service); ok && s.Spec.Type == "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
			sum := 0
			for _, c := range key.Namespace + "/" + key.Name {
				sum += int(c)
			}
			s.Spec.ClusterIP = fmt.Sprintf("10.0.%d.%d", sum/250, sum%250)
			if key.Name == "web" {
				s.Spec.ClusterIP = "10.0.0.9" // which entries write
			}
		}
	}
}
