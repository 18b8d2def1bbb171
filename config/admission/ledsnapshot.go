package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// led is what the registry makes of the objects that have to do with where VirtualServices lead: of the hosts that these name, the Services of gateways, and what says which those are. Pods are not
// among them: who is about to write an object hears the same as who has them all.
func (w *world) led() *registry.Snapshot {
	if w.ledWorld != nil {
		return w.ledWorld
	}
	named := w.namedByRoutes()
	var changes []config.Change
	exits := map[[2]string]bool{} // by whose word there is a gateway
	for i := range w.objects {
		o, matters := &w.objects[i], false
		switch spec := o.Spec.(type) {
		case *networking.VirtualService, *networking.Gateway, *corev1.Namespace:
			matters = true
		case *networking.DestinationRule:
			n := w.fullName(spec.Host, o.Namespace)
			matters = named[n] || n.IsWildcard()
		case *corev1.Service:
			n := host.Name(registry.Ref{Namespace: o.Namespace, Name: o.Name}.Host())
			matters = named[n] || w.isGateway(n)
		case *networking.ServiceEntry:
			if by := [2]string{o.Namespace, w.gatewayOf(&entry{object: *o})}; spec.Location == networking.ServiceEntry_MESH_EXTERNAL && !exits[by] {
				exits[by], matters = true, true
			}
			for _, h := range spec.Hosts {
				matters = matters || named[host.Name(registry.CanonicalHost(h))]
			}
		}
		if matters {
			changes = append(changes, config.Change{Key: o.Key, Object: o})
		}
	}
	w.ledWorld, _ = registry.New(&w.cfg).Apply(changes)
	return w.ledWorld
}

// namedByRoutes are the hosts that VirtualServices are for, or lead to.
func (w *world) namedByRoutes() map[host.Name]bool {
	named := map[host.Name]bool{}
	for key, o := range w.virtual {
		v := o.Spec.(*networking.VirtualService)
		for _, h := range v.Hosts {
			named[host.Name(route.FullName(h, key.Namespace))] = true
		}
		for _, x := range portedRoutes(v) {
			for _, d := range x.destinations {
				named[host.Name(route.FullName(d.to.GetHost(), key.Namespace))] = true
			}
		}
	}
	return named
}

// gatewayProxies are the proxies that a Gateway object is about.
type gatewayProxies struct {
	services  []serviceOfGateway // of their pods
	exits     []resolve.Exit     // what they would be as egress gateways
	leaving   bool               // they are that
	ingresses []resolve.Ingress
}

// known says whether it is known which there are.
func (p gatewayProxies) known() bool { return len(p.services) > 0 }

// namespaces are those of the pods, in order.
func (p gatewayProxies) namespaces() (out []string) {
	for _, s := range p.services {
		out = append(out, s.namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lack says whether the pods surely have other labels.
func (p gatewayProxies) lack(labels map[string]string) bool {
	return !slices.ContainsFunc(p.services, func(s serviceOfGateway) bool { return !contradict(s.selector, labels) })
}

// openedBy finds them, of a Gateway object "NAMESPACE/NAME", by the Services of their pods; none where these are not known.
func (w *world) openedBy(gateway string) gatewayProxies {
	out, found := w.proxiesOf[gateway]
	o := w.gateways[gateway]
	if found || o == nil {
		return out
	}
	s, selector := w.led(), o.Spec.(*networking.Gateway).Selector
	for _, x := range w.ingresses() {
		if hasLabels(x.selector, selector) {
			ref := registry.Ref{Namespace: x.namespace, Name: x.name}
			out.services = append(out.services, x)
			out.exits = append(out.exits, resolve.GatewayOf(s, ref, registry.SecretsUnseen))
			out.leaving = out.leaving || s.IsExit(ref) || ref == registry.Ref(w.cfg.DefaultGateway)
		}
	}
	pods, _ := s.IngressesOf(o.Key)
	for _, p := range pods {
		out.ingresses = append(out.ingresses, resolve.IngressOf(s, p.Ingress, registry.SecretsUnseen))
	}
	if w.proxiesOf == nil {
		w.proxiesOf = map[string]gatewayProxies{}
	}
	w.proxiesOf[gateway] = out
	return out
}
