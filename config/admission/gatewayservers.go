package admission

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// servers says of a Gateway of Istio's which of its servers the ingress gateways that it selects do not open, or not for all of their hosts: another
// Gateway has the port or the host, or it is nothing that is served. Of what Validate says nothing is repeated.
func (g *gatewayStatuses) servers(r *report) {
	if g.refused(r.of.Key) {
		return
	}
	pods, _ := g.s.IngressesOf(r.of.Key) // none where they are not known, or an egress gateway's
	if len(pods) == 0 {
		g.nobody(r)
	}
	said := map[string]bool{}
	for _, p := range pods {
		for _, s := range g.s.Opened(p.Ingress).Servers {
			if s.Gateway.Key != r.of.Key || s.Why != "" && g.knownOf(r, s) {
				continue
			}
			if field := at("spec.servers", s.Index, "port.number"); s.Serves != registry.NotServed && !said[field] && g.s.LacksPort(p.Ingress, s) {
				said[field] = true
				r.warn(field, s.Port, "no Service of "+gatewayOf(p.Ingress)+" has the port, nor leads to it at its pods, so nobody comes in there by one", "add the port to the Service, or write one that it has")
			}
			for _, why := range s.Closed {
				field, reason, _ := strings.Cut(why, ": ")
				field = at("spec.servers", s.Index, field)
				if said[field+why] {
					continue
				}
				said[field+why] = true
				r.warn(field, nil, reason+", so "+gatewayOf(p.Ingress)+" does not open it", fixServer(why))
			}
		}
	}
}

// nobody warns of a Gateway of Istio's whose selector no pod has, where Pods are known. Pods of a Gateway of the Gateway API are made when that is, and are not waited for.
func (g *gatewayStatuses) nobody(r *report) {
	selector := r.of.Spec.(*networking.Gateway).Selector
	if _, ofGateway := selector[selection.GatewayName]; len(selector) == 0 || ofGateway || !g.has[string(config.KindPod)] {
		return
	}
	has := func(o config.Object) bool {
		switch spec := o.Spec.(type) {
		case *corev1.Pod, *networking.WorkloadEntry:
			return hasLabels(o.Labels, selector)
		case *corev1.Service:
			return hasLabels(spec.Spec.Selector, selector) || hasLabels(selector, spec.Spec.Selector) && len(spec.Spec.Selector) > 0
		}
		return false
	}
	if !slices.ContainsFunc(g.objects, has) {
		r.warn("spec.selector", nil, "no pod that is known has these labels, so nobody opens the servers", "mend the labels, if the gateway's pods are there already")
	}
}

// knownOf says whether Validate says something of a server.
func (g *gatewayStatuses) knownOf(r *report, s *registry.IngressServer) bool {
	return slices.ContainsFunc(g.known[r.of.Key], func(f Finding) bool { return strings.HasPrefix(f.Field, at("spec.servers", s.Index)+".") })
}

func gatewayOf(i registry.Ingress) string {
	if i.Service.IsZero() {
		return "the gateway in namespace " + i.Namespace
	}
	return "the gateway " + i.Service.String()
}

// fixServer is what to do about a server that is not opened.
func fixServer(why string) string {
	field, _, _ := strings.Cut(why, ":")
	if registry.LedAlready(why) {
		return "name other hosts, or have the VirtualService lead it from this Gateway (spec.gateways), or no longer from the other one"
	}
	switch field {
	case "hosts":
		return "name other hosts, or take it from the other Gateway; among Gateways those of the gateway's own namespace come first, then the root namespace's, then the oldest"
	case "port.number", "port.protocol":
		return "write another port or protocol, or let the gateways of another selector open it"
	default:
		return "write what ingress gateways serve, or remove the server"
	}
}
