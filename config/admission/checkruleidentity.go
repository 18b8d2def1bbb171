package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// checkIdentities warns of accounts of other namespaces that a rule has a Service's pods be, where a waypoint stands before the Service that is not the rule's to speak for:
// it shows its identity to nobody for that.
func (w *world) checkIdentities(r *report, field string, t *networking.ClientTLSSettings, n host.Name) {
	if t.Mode != networking.ClientTLSSettings_ISTIO_MUTUAL || r.of.Namespace == w.cfg.RootNamespace {
		return
	}
	ref, of := registry.RefOf(string(n))
	i := slices.IndexFunc(t.SubjectAltNames, func(id string) bool { return mesh.Elsewhere(w.cfg.TrustDomains(), id, ref.Namespace) })
	if !of || i < 0 || ref.Namespace != r.of.Namespace { // of others nothing counts there
		return
	}
	if waypoint := w.waypointOf(ref); !waypoint.IsZero() && waypoint.Namespace != r.of.Namespace {
		r.warn(at(field, "subjectAltNames", i), t.SubjectAltNames[i], "is of another namespace than the Service, for which it does not count at the waypoint "+waypoint.String()+": other namespaces share that, and it takes the pods for accounts of namespace "+ref.Namespace+" alone",
			"have the pods run in namespace "+ref.Namespace+", or write the rule into namespace "+waypoint.Namespace)
	}
}

// waypointOf is the waypoint before a Service; zero where none is known to be.
func (w *world) waypointOf(ref registry.Ref) registry.Ref {
	i := slices.IndexFunc(w.objects, func(o config.Object) bool {
		return o.Kind == config.KindService && o.Namespace == ref.Namespace && o.Name == ref.Name
	})
	if i < 0 {
		return registry.Ref{}
	}
	o := &w.objects[i]
	waypoint := registry.RequestedWaypoint(o.Namespace, o.Labels, w.namespaces[o.Namespace].Labels)
	if why, _ := w.unfronted(o, o.Spec.(*corev1.Service)); why != "" || !w.servesServices(waypoint) {
		return registry.Ref{}
	}
	return waypoint
}
