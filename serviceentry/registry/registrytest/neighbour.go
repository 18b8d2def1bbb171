package registrytest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// Prey is what a neighbour has its eyes on.
type Prey struct {
	Names     []string // hosts and patterns of others
	Addresses []string // addresses and ranges of others: hosts', Services', pods'
	Services  []string // NAMESPACE/NAME
	Gateways  []string // full names of gateways' Services, and the control plane's
	Ports     []uint32
	// Unwritten keeps the neighbour from writing addresses: where the mesh settings let everybody, that is trusted.
	Unwritten bool
}

// Neighbour makes an object of any kind in a namespace, with every field that is read, about what others have.
func (w *World) Neighbour(ns string, prey Prey) config.Change {
	o := w.neighbour(ns, prey)
	if w.rand.IntN(2) == 0 {
		o.Created = time.Unix(int64(1_500_000_000+w.rand.IntN(200_000_000)), 0) // before and after what is there
	}
	w.Objects[o.Key] = o
	return config.Change{Key: o.Key, Object: o}
}

func (w *World) neighbour(ns string, prey Prey) *config.Object {
	name := fmt.Sprintf("n%d", w.rand.IntN(8))
	switch w.rand.IntN(21) {
	case 19, 20:
		return w.made(config.KindServiceEntry, ns, name, w.preyGatewayName(prey), nil)
	case 18:
		return w.preyServiceRoute(ns, prey)
	case 0:
		return w.made(config.KindSidecar, ns, name, w.sidecar(), nil)
	case 1, 2:
		return w.made(config.KindDestinationRule, ns, name, w.preyRule(prey), nil)
	case 14, 15, 16:
		return w.made(config.KindVirtualService, ns, name, w.preyRoutes(prey), nil)
	case 17:
		return w.made(config.KindGateway, ns, name, w.preyGateway(), nil)
	case 3:
		return w.made(config.KindService, ns, w.nameOf(prey), w.preyService(prey), map[string]string{"networking.istio.io/exportTo": pick(w, []string{"", "*", ".", "team-a"})})
	case 4:
		o := w.made(config.KindEndpointSlice, ns, name, w.preySlice(prey), nil)
		o.Labels = map[string]string{discoveryv1.LabelServiceName: w.nameOf(prey)}
		return o
	case 5:
		return w.made(config.KindPod, ns, "a"+name, w.preyPod(prey), nil)
	case 6:
		return w.made(config.KindNamespace, "", ns, &corev1.Namespace{}, w.preyAnnotations(prey))
	default:
		return w.made(config.KindServiceEntry, ns, name, w.preyEntry(prey), w.preyAnnotations(prey))
	}
}

// nameOf is a Service's name without its namespace.
func (w *World) nameOf(prey Prey) string {
	_, name, _ := strings.Cut(pick(w, prey.Services), "/")
	return name
}

func (w *World) preyAnnotations(prey Prey) map[string]string {
	if w.rand.IntN(2) == 0 {
		return nil
	}
	return map[string]string{registry.GatewayAnnotation: pick(w, append([]string{registry.ExitDirect, "team-b/own-gateway"}, prey.Services...))}
}

// preyHost is one of others' names, what is below it or a pattern over it, in any case.
func (w *World) preyHost(prey Prey) string {
	h := pick(w, prey.Names)
	bare := strings.TrimPrefix(h, "*.")
	switch w.rand.IntN(7) {
	case 0:
		h = "*." + bare
	case 1:
		h = "x." + bare
	case 2:
		if _, rest, ok := strings.Cut(bare, "."); ok {
			h = "*." + rest
		}
	case 3:
		h = strings.ToUpper(h) + "."
	case 4:
		h = pick(w, []string{"h-159.example", "h-71.example", "theirs.test", "*.theirs.test"})
	}
	return h
}

func (w *World) preyEntry(prey Prey) *networking.ServiceEntry {
	e := &networking.ServiceEntry{
		Location:   pick(w, []networking.ServiceEntry_Location{networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_MESH_EXTERNAL, networking.ServiceEntry_MESH_INTERNAL}),
		Resolution: pick(w, []networking.ServiceEntry_Resolution{networking.ServiceEntry_DNS, networking.ServiceEntry_NONE, networking.ServiceEntry_STATIC, networking.ServiceEntry_DNS_ROUND_ROBIN, networking.ServiceEntry_DYNAMIC_DNS}),
		ExportTo:   pick(w, [][]string{nil, nil, {"*"}, {"."}, {"team-a"}, {".", "team-a"}, {"~"}}),
	}
	for range 1 + w.rand.IntN(3) {
		e.Hosts = append(e.Hosts, w.preyHost(prey))
	}
	for i := range 1 + w.rand.IntN(4) {
		e.Ports = append(e.Ports, &networking.ServicePort{
			Number: pick(w, prey.Ports), Name: fmt.Sprintf("p%d", i), Protocol: pick(w, []string{"HTTP", "HTTPS", "TLS", "TCP", "TCP", "GRPC", "HTTP2", "MYSQL", "UDP"}),
			TargetPort: pick(w, []uint32{0, 0, 443, 15001, 8080}),
		})
	}
	for !prey.Unwritten && w.rand.IntN(3) == 0 {
		e.Addresses = append(e.Addresses, pick(w, prey.Addresses))
	}
	if w.rand.IntN(3) == 0 {
		e.Endpoints = []*networking.WorkloadEntry{{Address: pick(w, []string{"198.51.100.66", "evil.test", "127.0.0.1", "10.96.0.10"}), ServiceAccount: "other", Weight: uint32(w.rand.IntN(3)), Ports: map[string]uint32{"p0": 15000}}}
	} else if w.rand.IntN(5) == 0 {
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"istio": "egressgateway"}}
	}
	if w.rand.IntN(4) == 0 {
		e.SubjectAltNames = []string{"evil.test"}
	}
	return e
}

// preyGatewayName registers a gateway, or the control plane, at addresses of others.
func (w *World) preyGatewayName(prey Prey) *networking.ServiceEntry {
	e := w.preyEntry(prey)
	e.Hosts, e.Location, e.WorkloadSelector, e.Endpoints = []string{pick(w, prey.Gateways)}, networking.ServiceEntry_MESH_INTERNAL, nil, nil
	for _, a := range prey.Addresses {
		if ip, err := netip.ParseAddr(a); err == nil && !prey.Unwritten {
			e.Addresses = append(e.Addresses, ip.String())
			e.Endpoints = append(e.Endpoints, &networking.WorkloadEntry{Address: ip.String()})
		}
	}
	return e
}

func (w *World) preyRule(prey Prey) *networking.DestinationRule {
	tls := &networking.ClientTLSSettings{
		Mode: networking.ClientTLSSettings_TLSmode(w.rand.IntN(4)), Sni: pick(w, []string{"", "evil.test"}),
		InsecureSkipVerify: wrapperspb.Bool(w.rand.IntN(2) == 0), CredentialName: pick(w, []string{"", "secret"}),
	}
	r := &networking.DestinationRule{
		Host: w.preyHost(prey), ExportTo: pick(w, [][]string{nil, {"*"}, {"."}, {"team-a"}}),
		TrafficPolicy: &networking.TrafficPolicy{Tls: tls},
	}
	if w.rand.IntN(3) == 0 {
		r.TrafficPolicy = &networking.TrafficPolicy{PortLevelSettings: []*networking.TrafficPolicy_PortTrafficPolicy{{Port: &networking.PortSelector{Number: pick(w, prey.Ports)}, Tls: tls}}}
	}
	return r
}

// preyRoutes lead others' hosts elsewhere, or nowhere, for whoever would follow them.
func (w *World) preyRoutes(prey Prey) *networking.VirtualService {
	_, gateway, _ := strings.Cut(pick(w, prey.Services), "/")
	destination := &networking.Destination{Host: pick(w, []string{w.preyHost(prey), gateway, "evil.test", pick(w, prey.Gateways)})}
	v := &networking.VirtualService{
		Hosts: []string{w.preyHost(prey)}, ExportTo: pick(w, [][]string{nil, {"*"}, {"."}, {"team-a"}}),
		Gateways: pick(w, [][]string{nil, {"mesh"}, {"mesh", "n1"}, {"n1"}, {"istio-system/n1"}}),
	}
	switch h := (&networking.HTTPRoute{}); w.rand.IntN(5) {
	case 0:
		h.Redirect = &networking.HTTPRedirect{Authority: "evil.test"}
		v.Http = append(v.Http, h)
	case 1:
		h.DirectResponse = &networking.HTTPDirectResponse{Status: 503}
		v.Http = append(v.Http, h)
	case 2:
		v.Tls = []*networking.TLSRoute{{Match: []*networking.TLSMatchAttributes{{SniHosts: v.Hosts}}, Route: []*networking.RouteDestination{{Destination: destination}}}}
		v.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: destination}}}}
	default:
		h.Match = []*networking.HTTPMatchRequest{{SourceNamespace: pick(w, []string{"", "team-a"}), SourceLabels: pick(w, []map[string]string{nil, {"app": "a"}})}}
		h.Route = []*networking.HTTPRouteDestination{{Destination: destination}}
		h.Fault = &networking.HTTPFaultInjection{Abort: &networking.HTTPFaultInjection_Abort{ErrorType: &networking.HTTPFaultInjection_Abort_HttpStatus{HttpStatus: 503}, Percentage: &networking.Percent{Value: 100}}}
		v.Http = append(v.Http, h)
	}
	return v
}

// preyGateway is for the pods of the mesh's gateway, with everybody's hosts.
func (w *World) preyGateway() *networking.Gateway {
	return &networking.Gateway{
		Selector: map[string]string{"istio": "egressgateway"},
		Servers: []*networking.Server{
			{Port: &networking.Port{Number: 80, Name: "h", Protocol: "HTTP"}, Hosts: []string{"*"}}, {Port: &networking.Port{Number: 443, Name: "t", Protocol: "TLS"}, Hosts: []string{"*"}},
		},
	}
}

// preyService has an address of its own: the API server gives none twice. Its ports are such as are read anyhow: all
// Services of a cluster together decide that.
func (w *World) preyService(prey Prey) *corev1.Service {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		ClusterIP: fmt.Sprintf("10.96.7.%d", w.rand.IntN(200)), Selector: pick(w, []map[string]string{nil, {"istio": "egressgateway"}, {"app": "a"}}),
		ExternalIPs: []string{pick(w, prey.Addresses)},
	}}
	for i := range 1 + w.rand.IntN(2) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("%s-%d", pick(w, []string{"http", "tcp", "tls"}), i), Port: pick(w, []int32{80, 443, 8080}), TargetPort: intstr.FromInt32(8443)})
	}
	return s
}

func (w *World) preySlice(prey Prey) *discoveryv1.EndpointSlice {
	name, port := "http", int32(pick(w, prey.Ports))
	return &discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{strings.Split(pick(w, prey.Addresses), "/")[0]}}},
	}
}

func (w *World) preyPod(prey Prey) *corev1.Pod {
	p := &corev1.Pod{}
	p.Labels = pick(w, []map[string]string{{"istio": "egressgateway"}, {"app": "a"}, {"app": "db"}})
	p.Spec.ServiceAccountName = pick(w, []string{"default", "other"})
	p.Status.PodIP = strings.Split(pick(w, prey.Addresses), "/")[0]
	return p
}
