package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// checkNamesHad warns of hosts that other namespaces' VirtualServices have at a Gateway, so that none of the routes counts there. It does not say whose they are.
func (w *world) checkNamesHad(r *report, v *networking.VirtualService) {
	for j, h := range v.Hosts {
		var places []string
		for _, name := range route.Gateways(v.Gateways, r.of.Namespace) {
			ingresses := w.openedBy(name).ingresses
			if len(ingresses) > 0 && !slices.ContainsFunc(ingresses, func(i resolve.Ingress) bool {
				return !i.LeftOut(w.gateways[name].Key, r.of.Key, route.FullName(h, r.of.Namespace))
			}) {
				places = append(places, name)
			}
		}
		if len(places) > 0 {
			r.warn(at("spec.hosts", j), h, fmt.Sprintf("at Gateway %s another namespace's VirtualService has it, or a pattern that covers it, since it is older, or of the Gateway's namespace: nobody is led by the routes there", strings.Join(places, " and ")),
				"let whoever has it delegate to this one, or name another host")
		}
	}
}
