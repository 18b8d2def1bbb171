package admission

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
)

// Addresses that somebody wrote for a headless Service, and no pod of its namespace has, lead to it in that namespace only
// (docs/adr/0012-neighbours.md, "Addresses"). Nobody else would see why nothing comes.

// checkSlice judges an EndpointSlice among the Services, and warns of its such addresses. One that says that it is a pod's is believed where the namespace's pods are not known.
func (w *world) checkSlice(r *report, s *discoveryv1.EndpointSlice) {
	w.checkSlicePorts(r, s)
	svc := w.headless[r.of.Namespace][s.Labels[discoveryv1.LabelServiceName]]
	if svc == nil || s.AddressType == discoveryv1.AddressTypeFQDN || !staysHome(svc, &w.cfg) {
		return
	}
	pods := w.podAddresses[r.of.Namespace]
	for i, e := range s.Endpoints {
		if len(pods) == 0 && e.TargetRef != nil && e.TargetRef.Kind == string(config.KindPod) || e.Conditions.Ready != nil && !*e.Conditions.Ready {
			continue
		}
		for j, a := range e.Addresses {
			if !pods[a] {
				r.ownOnly(at("endpoints", i, "addresses", j), a, svc.Name, w.cfg.RootNamespace)
			}
		}
	}
}

// ownOnlyBehind does so of a WorkloadEntry, given the headless Services of its namespace.
func (r *report) ownOnlyBehind(e *networking.WorkloadEntry, headless []*config.Object, cfg *mesh.Config) {
	if !isAddress(e.Address) {
		return
	}
	labels := workloadLabels(r.of, e)
	slices.SortFunc(headless, func(a, b *config.Object) int { return a.Key.Compare(b.Key) })
	for _, svc := range headless {
		selector := svc.Spec.(*corev1.Service).Spec.Selector
		if len(selector) > 0 && hasLabels(labels, selector) && staysHome(svc, cfg) {
			r.ownOnly("spec.address", e.Address, svc.Name, cfg.RootNamespace)
		}
	}
}

func (r *report) ownOnly(field, address, service, root string) {
	r.warn(field, address, fmt.Sprintf("no pod of namespace %s has it, so it leads to the headless Service %s in this namespace only: which addresses others reach is not for a namespace to write", r.of.Namespace, service),
		"register it by a ServiceEntry in the root namespace "+root+`, let the mesh settings allow it (sallyport.exports), or export the Service to its own namespace (the annotation `+exportToAnnotation+`: ".") if nobody else is meant`)
}

const exportToAnnotation = "networking.istio.io/exportTo" // of Services

// IsHeadless says of an object whether it is a Service without addresses of its own.
func IsHeadless(o *config.Object) bool {
	svc, is := o.Spec.(*corev1.Service)
	return is && svc.Spec.ClusterIP == corev1.ClusterIPNone && svc.Spec.Type != corev1.ServiceTypeExternalName
}

// staysHome says of a headless Service whether others are meant to reach it, and do not reach what was written for it.
func staysHome(svc *config.Object, cfg *mesh.Config) bool {
	exports := cfg.DefaultServiceExportTo
	if list := svc.Annotations[exportToAnnotation]; list != "" {
		exports = strings.Split(list, ",")
	}
	beyond := len(exports) == 0 || slices.ContainsFunc(exports, func(ns string) bool {
		ns = strings.TrimSpace(ns)
		return ns != "" && ns != "." && ns != "~" && ns != svc.Namespace
	})
	name := host.Name(svc.Name + "." + svc.Namespace + "." + clusterDomain)
	return beyond && svc.Namespace != cfg.RootNamespace && !cfg.Exports.Allows(svc.Namespace, name, true)
}
