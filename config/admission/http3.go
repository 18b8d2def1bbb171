package admission

import (
	"fmt"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// http3 warns of servers that cannot be had by HTTP/3 though somebody gave their gateway's Service the port for it: because of what they ask for, or because of the mesh's settings.
// It asks the registry, as proxies' translation does. Where nobody gave a Service such a port, nobody expects it.
func (w *world) http3() []Finding {
	asked := w.asksForHTTP3()
	if !w.cfg.Ingress.HTTP3 {
		return w.http3Unspoken(asked)
	}
	var services []config.Key
	var changes []config.Change
	for i := range asked { // what an object of this name says counts, if there is one
		changes = append(changes, config.Change{Key: serviceOf(asked[i]), Object: w.kubeGatewayService(asked[i])})
		services = append(services, serviceOf(asked[i]))
	}
	for i := range w.objects {
		o := &w.objects[i]
		switch spec := o.Spec.(type) {
		case *corev1.Service:
			if takesUDP(spec) {
				services = append(services, o.Key)
			}
		case *networking.Gateway, *gatewayv1.GatewaySpec, *gatewayv1.GatewayClassSpec, *gatewayv1.ListenerSetSpec, *corev1.Namespace, *corev1.Pod:
		default:
			if o.Kind != config.KindReferenceGrant {
				continue
			}
		}
		changes = append(changes, config.Change{Key: o.Key, Object: o})
	}
	if len(services) == 0 {
		return nil
	}
	s, _ := registry.New(&w.cfg).Apply(changes)
	return w.withoutHTTP3(s, services)
}

// withoutHTTP3 names the servers at gateways of Services: of those of an object that have none for one reason, the first.
func (w *world) withoutHTTP3(s *registry.Snapshot, services []config.Key) (findings []Finding) {
	said := map[string]bool{}
	for _, key := range services {
		gateways, _ := s.IngressesOf(key) // a Service that is of none says nothing of HTTP/3
		for _, g := range gateways {
			g.OnDemand = true // as agents are
			for _, server := range s.Opened(g.Ingress).Servers {
				about := server.Gateway.Key.String() + " " + server.NoHTTP3
				if server.NoHTTP3 == "" || said[about] {
					continue
				}
				said[about] = true
				if o, field := w.writtenAt(server); o != nil {
					r := &report{of: *o}
					r.warn(field, nil, fmt.Sprintf("%s has port %d for UDP, and there is no HTTP/3: %s", key, server.Port, server.NoHTTP3), "nothing has to be done: clients come by TCP, and are told of nothing else")
					findings = append(findings, r.findings...)
				}
			}
		}
	}
	return findings
}

// http3Unspoken says it of all.
func (w *world) http3Unspoken(asked []*config.Object) (findings []Finding) {
	for _, o := range asked {
		r := &report{of: *o}
		r.warn(strict.Join("metadata.annotations", gatewayapi.HTTP3Annotation), "true", "the mesh's settings do not have HTTP/3 spoken: the Service takes UDP, and nobody answers", "set sallyport.ingress.http3, or remove the annotation")
		findings = append(findings, r.findings...)
	}
	return findings
}

// asksForHTTP3 are the Gateways of the Gateway API whose Service is to take UDP.
func (w *world) asksForHTTP3() (out []*config.Object) {
	for i := range w.objects {
		o := &w.objects[i]
		if spec, is := o.Spec.(*gatewayv1.GatewaySpec); is && o.Annotations[gatewayapi.HTTP3Annotation] == "true" && !gatewayapi.IsWaypoint(spec.GatewayClassName) {
			out = append(out, o)
		}
	}
	return out
}

func serviceOf(gateway *config.Object) config.Key {
	return config.Key{Kind: config.KindService, Namespace: gateway.Namespace, Name: gatewayapi.ObjectsName(gateway.Name, gateway.Spec.(*gatewayv1.GatewaySpec).GatewayClassName)}
}

// kubeGatewayService is what the control plane makes of a Gateway, as far as it is about ports.
func (w *world) kubeGatewayService(g *config.Object) *config.Object {
	var ports []corev1.ServicePort
	add := func(number gatewayv1.PortNumber, protocol gatewayv1.ProtocolType) {
		for _, by := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			if by == corev1.ProtocolTCP || protocol == gatewayv1.HTTPSProtocolType {
				ports = append(ports, corev1.ServicePort{Name: fmt.Sprintf("%s-%d", strings.ToLower(string(by)), number), Port: number, TargetPort: intstr.FromInt32(number), Protocol: by})
			}
		}
	}
	for _, l := range g.Spec.(*gatewayv1.GatewaySpec).Listeners {
		add(l.Port, l.Protocol)
	}
	for i := range w.objects {
		if set, is := w.objects[i].Spec.(*gatewayv1.ListenerSetSpec); is {
			if parent, of := gatewayapi.SetParent(&w.objects[i]); of && parent == g.Key {
				for _, l := range set.Listeners {
					add(l.Port, l.Protocol)
				}
			}
		}
	}
	return &config.Object{Key: serviceOf(g), Spec: &corev1.Service{Spec: corev1.ServiceSpec{Selector: gatewayapi.PodLabels(g), Ports: ports}}}
}

// takesUDP says whether a Service has a port for both.
func takesUDP(s *corev1.Service) bool {
	tcp := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		tcp[p.Port] = tcp[p.Port] || p.Protocol != corev1.ProtocolUDP
	}
	for _, p := range s.Spec.Ports {
		if p.Protocol == corev1.ProtocolUDP && tcp[p.Port] {
			return true
		}
	}
	return false
}

// writtenAt is the object that a server is written in, and its field there.
func (w *world) writtenAt(s *registry.IngressServer) (*config.Object, string) {
	for i := range w.objects {
		if w.objects[i].Key == s.Gateway.Key {
			if _, listener, is := gatewayapi.ParseRef(s.Ref); is {
				return &w.objects[i], "spec.listeners[" + listener + "]"
			}
			return &w.objects[i], at("spec.servers", s.Index)
		}
	}
	return nil, ""
}
