package registry

import (
	"slices"
	"strings"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// Which pods are an egress gateway by VirtualServices alone: pairs, as Istio's pages about egress gateways write them, a Gateway for the pods and a VirtualService
// that leads sidecars to them. Pods are an egress gateway or an ingress gateway, for everybody, so that not everybody's pair counts.

// LeadsBy says whether a VirtualService leads workloads to hosts by an egress gateway: the Service is one by the word of others
// (see IsExit), or the mesh's, or the VirtualService is for a Gateway object that is about its pods.
func (s *Snapshot) LeadsBy(v *VirtualService, ref Ref) bool {
	k, ok := s.KubeService(ref)
	return ok && (s.IsExit(ref) || ref == Ref(s.Mesh.DefaultGateway) || len(s.paired(v, k)) > 0)
}

// paired are the Gateway objects of a VirtualService that are about a Service's pods, and may open something there.
func (s *Snapshot) paired(v *VirtualService, k *KubeService) (out []*Gateway) {
	for _, name := range v.Gateways {
		if _, _, of := gatewayapi.ParseRef(name); of {
			continue
		}
		ns, name, _ := strings.Cut(name, "/")
		if g := s.Gateway(config.Key{Kind: config.KindGateway, Namespace: ns, Name: name}); g != nil && s.mayOpen(g, k.Ref.Namespace) && g.Selects(k) {
			out = append(out, g)
		}
	}
	return out
}

// ledTo says whether pods with these labels, of a Service, are an egress gateway since VirtualServices lead sidecars there. Where the pods' own namespace or the root
// namespace writes the pair, they are. Another namespace's is no word about what others come in by: it counts at pods that are labelled for it, else where no Gateway
// lets anybody in. A Gateway that its own namespace pairs does not; that somebody else pairs one says nothing of it.
func (s *Snapshot) ledTo(ref Ref, labels map[string]string) bool {
	k, ok := s.KubeService(ref)
	if !ok {
		return false
	}
	led, leaving := false, map[config.Key]bool{}
	list, _ := s.leading.Get(ref.Host())
	for _, v := range list {
		if !v.At(route.Mesh) {
			continue
		}
		for _, g := range s.paired(v, k) {
			if ns := v.Key.Namespace; (ns == ref.Namespace || ns == s.Mesh.RootNamespace) && s.says(g, ref.Namespace) {
				return true
			}
			led = true
			leaving[g.Key] = leaving[g.Key] || g.Key.Namespace == v.Key.Namespace
		}
	}
	return led && (labelledExit(labels) || !s.letsIn(ref.Namespace, labels, leaving))
}

// labelledExit says whether who deployed the pods calls them an egress gateway, as Istio's own installation and chart do: istio: egressgateway, istio: egress.
func labelledExit(labels map[string]string) bool { return strings.Contains(labels["istio"], "egress") }

// letsIn says whether a Gateway lets somebody in at pods, but for some Gateways.
func (s *Snapshot) letsIn(ns string, labels map[string]string, but map[config.Key]bool) bool {
	for _, g := range s.gateways {
		if !but[g.Key] && s.mayOpen(g, ns) && selects(g.Selector, labels) && g.opens() {
			return true
		}
	}
	return false
}

// LetsInBy says whether pods of a Service are an ingress gateway: nothing leaves by them, though a VirtualService leads there.
func (s *Snapshot) LetsInBy(ref Ref) bool {
	return slices.ContainsFunc(s.exitLabels(ref), func(labels map[string]string) bool {
		_, is := s.IngressOf(ref.Namespace, labels, 0)
		return is
	})
}

// opens says whether an ingress gateway does anything for one of the servers.
func (g *Gateway) opens() bool {
	for server := range g.all() {
		if server.Serves != NotServed {
			return true
		}
	}
	return false
}

// LedBy says whether some VirtualService leads workloads to a service outside by this gateway, and not only its own entry.
func (s *Snapshot) LedBy(svc *Service, ref Ref) bool {
	if !svc.External || svc.Exit == ref || s.virtual.Len() == 0 || ref.IsZero() {
		return false
	}
	for v := range s.covering(svc.Host) {
		if !v.At(route.Mesh) || !v.ends[ref.Host()] || !s.LeadsBy(v, ref) {
			continue
		}
		if ns := v.Key.Namespace; ns == svc.Namespace || ns == s.Mesh.RootNamespace || svc.ExportTo.Includes(ns) {
			return true
		}
	}
	return false
}
