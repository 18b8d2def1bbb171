package registry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
)

// A route that is attached to an egress Gateway registers the hosts that it lets out, as a ServiceEntry of its namespace would, and leads what
// comes for them at the egress gateway that the Gateway stands for (docs/adr/0084-egress-gateways-of-the-gateway-api.md). It leads nothing but
// what its own namespace registered.

// EgressRoutePort is a host's port that a route lets out by an egress gateway.
type EgressRoutePort struct {
	gatewayapi.Leaving
	Exit Ref
}

// letsOutBy are those of a route, by the gateways that its attachments stand for.
func (b *batch) letsOutBy(attached []gatewayapi.Attachment) (out []EgressRoutePort) {
	for _, a := range attached {
		for _, l := range a.Leaves {
			if exit := b.next.StandsFor(a.Stands); !exit.IsZero() {
				out = append(out, EgressRoutePort{l, exit})
			}
		}
	}
	return out
}

// StandsFor is the egress gateway that a Gateway means which names a Service, or none; the zero value where the mesh has none of its own.
func (s *Snapshot) StandsFor(named types.NamespacedName) Ref {
	if named.Name != "" {
		return Ref(named)
	}
	return Ref(s.Mesh.DefaultGateway)
}

// asEntries makes what a ServiceEntry for each host would make, of the namespace and age of the route.
func (b *batch) asEntries(o *config.Object, leaves []EgressRoutePort) (out []*Service) {
	byHost := map[string][]EgressRoutePort{}
	for _, l := range leaves {
		byHost[l.Host] = append(byHost[l.Host], l)
	}
	for _, host := range slices.Sorted(maps.Keys(byHost)) {
		entry := &networking.ServiceEntry{
			Hosts: []string{host}, Location: networking.ServiceEntry_MESH_EXTERNAL, Resolution: networking.ServiceEntry_DNS,
			ExportTo: splitList(o.Annotations[exportAnnotation]),
		}
		for _, l := range byHost[host] {
			if slices.ContainsFunc(entry.Ports, func(p *networking.ServicePort) bool { return p.Number == l.Port }) {
				continue
			}
			spoken := HTTP
			if l.TLS {
				spoken = TLS
			}
			entry.Ports = append(entry.Ports, &networking.ServicePort{Number: l.Port, TargetPort: l.Port, Name: fmt.Sprintf("%s-%d", strings.ToLower(string(spoken)), l.Port), Protocol: string(spoken)})
		}
		as := *o
		as.Annotations = map[string]string{GatewayAnnotation: byHost[host][0].Exit.String()}
		out = append(out, FromEntry(&as, entry, "", b.next.Mesh)...)
	}
	return out
}

// remakeEgress looks at egress Gateways, and routes, again: the mesh's own gateway may be another one.
func (b *batch) remakeEgress() {
	b.gatewayAPI.WalkPrefix(string(config.KindKubeGateway)+" ", func(_ string, o *config.Object) bool {
		if gatewayapi.IsEgress(o.Spec.(*gatewayv1.GatewaySpec).GatewayClassName) {
			b.remade[o.Key] = true
		}
		return true
	})
}

// exportAnnotation says to which namespaces an object that has no field for it is exported; Istio's, of Services.
const exportAnnotation = "networking.istio.io/exportTo"

// isRoute says whether objects of a kind register hosts by being attached to egress Gateways.
func isRoute(k config.Kind) bool {
	return k == config.KindHTTPRoute || k == config.KindTLSRoute
}

// registers says whether objects of a kind register hosts, each as its namespace's own.
func registers(k config.Kind) bool { return k == config.KindServiceEntry || isRoute(k) }

// ByRoute says whether a port of the service is one that a route lets out: nothing leaves there but by the routes for it.
func (s *Service) ByRoute(p Port) bool { return isRoute(s.SourceOf(p).Kind) }

// WithoutRoutes is the service without the ports that routes let out, which leave by egress gateways only.
func (s *Service) WithoutRoutes() *Service {
	if !slices.ContainsFunc(s.Ports, s.ByRoute) {
		return s
	}
	rest := *s
	rest.Ports = slices.DeleteFunc(slices.Clone(s.Ports), s.ByRoute)
	rest.Hash = ^rest.Hash // another value
	return &rest
}

// EgressRoutes gives the routes of a service's own namespace that let it out by a gateway, in order of age.
func (s *Snapshot) EgressRoutes(svc *Service, exit Ref) []*VirtualService {
	if s.virtual.Len() == 0 {
		return nil
	}
	list, _ := s.virtual.Get(tailOf(svc.Host))
	return slices.DeleteFunc(slices.Clone(list), func(v *VirtualService) bool {
		return v.Key.Namespace != svc.Namespace || !slices.ContainsFunc(v.Leaves, func(l EgressRoutePort) bool { return l.Exit == exit && l.Host == svc.Host })
	})
}

// WithRouted is the service with ports that it is led to and does not have: those of a route lead to it at the far end, and nobody else gets
// there. It is itself where it has them all.
func (s *Service) WithRouted(ports []uint32, tls func(uint32) bool) *Service {
	var more []Port
	for _, number := range ports {
		if _, has := s.Port(number); has || config.IsOwnPort(number) {
			continue
		}
		p := Port{Name: fmt.Sprintf("routed-%d", number), Number: number, TargetPort: number, Explicit: true, Protocol: HTTP, Routed: true}
		if tls(number) {
			p.Protocol = TLS
		}
		more = append(more, p)
	}
	if len(more) == 0 {
		return s
	}
	led := *s
	led.Ports = append(slices.Clone(s.Ports), more...)
	for _, p := range more {
		led.Hash = led.Hash*1099511628211 ^ uint64(p.Number)<<1 // another value
		if p.Protocol == TLS {
			led.Hash ^= 1
		}
	}
	return &led
}
