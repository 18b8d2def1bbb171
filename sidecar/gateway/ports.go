package gateway

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/sidecar/inject"
)

// Port is one that a gateway opens.
type Port struct {
	Number   int32
	Protocol corev1.Protocol
	// HTTPS says that requests come there in TLS, for which HTTP/3 can be spoken, too.
	HTTPS bool
}

// PortOf is the port of a listener.
func PortOf(number gatewayv1.PortNumber, protocol gatewayv1.ProtocolType) Port {
	p := Port{Number: number, Protocol: corev1.ProtocolTCP, HTTPS: protocol == gatewayv1.HTTPSProtocolType}
	if protocol == gatewayv1.UDPProtocolType {
		p.Protocol = corev1.ProtocolUDP
	}
	return p
}

// ownPorts are the proxy's, which no listener gets.
var ownPorts = map[int32]bool{15000: true, 15001: true, 15006: true, 15053: true, inject.StatusPort: true, inject.ReadyPort: true, inject.StatsPort: true}

// meshPort is where waypoints take what is for the Services that they stand before.
const meshPort = 15008

// ports are those of a Gateway's listeners and of the listeners attached to it, each once, in order.
func ports(of *gatewayv1.Gateway, as As, more []Port) []Port {
	if as == Waypoint { // whatever else is written is not opened, and its status says so
		return []Port{{Number: meshPort, Protocol: corev1.ProtocolTCP}}
	}
	all := slices.Clone(more)
	for _, l := range of.Spec.Listeners {
		all = append(all, PortOf(l.Port, l.Protocol))
	}
	all = slices.DeleteFunc(all, func(p Port) bool { return p.Protocol == corev1.ProtocolTCP && ownPorts[p.Number] })
	for i := range all {
		if all[i].HTTPS && speaksHTTP3(of) {
			all = append(all, Port{Number: all[i].Number, Protocol: corev1.ProtocolUDP})
		}
		all[i].HTTPS = false // two listeners of one port are one port
	}
	slices.SortFunc(all, func(a, b Port) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Protocol, b.Protocol))
	})
	return slices.Compact(all)
}

// service is where others come. Its first port is the one that load balancers ask whether the pods are ready.
func (g made) service(kind corev1.ServiceType) *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: g.meta(),
		Spec: corev1.ServiceSpec{
			Type: kind, Selector: g.selector(), IPFamilyPolicy: new(corev1.IPFamilyPolicyPreferDualStack),
			Ports: []corev1.ServicePort{{Name: "status-port", Port: inject.ReadyPort, TargetPort: intstr.FromInt32(inject.ReadyPort), Protocol: corev1.ProtocolTCP}},
		},
	}
	if kind == corev1.ServiceTypeLoadBalancer {
		s.Spec.LoadBalancerIP = g.address()
	}
	for _, p := range g.ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: g.portName(p), Port: p.Number, TargetPort: intstr.FromInt32(p.Number), Protocol: p.Protocol})
	}
	return s
}

// address is the first that the Gateway asks its load balancer for; "" for whichever that chooses. Whose an address is, the load balancer
// says: spec.externalIPs would take anybody's, without a question.
func (g made) address() string {
	for _, a := range g.Spec.Addresses {
		if a.Value != "" {
			return a.Value
		}
	}
	return ""
}

// portName is what the Service calls a port.
func (g made) portName(p Port) string {
	switch {
	case g.as == Waypoint:
		return "mesh"
	case p.Protocol == corev1.ProtocolUDP:
		return fmt.Sprintf("udp-%d", p.Number)
	default:
		return fmt.Sprintf("tcp-%d", p.Number)
	}
}
