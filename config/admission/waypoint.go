package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// waypointLabels says where a label asks for a waypoint that nothing is sent to.
func (r *report) waypointLabels() {
	value := r.of.Labels[gatewayapi.UseWaypointLabel]
	if value == "" || value == gatewayapi.NoWaypoint {
		return
	}
	field := strict.Join("metadata.labels", gatewayapi.UseWaypointLabel)
	switch spec := r.of.Spec.(type) {
	case *networking.ServiceEntry:
		if spec.Location == networking.ServiceEntry_MESH_INTERNAL {
			r.reject(field, value, "waypoints stand before Services, and what policies and routes say there would not be kept for the entry", "remove it, or make a Service of it")
		} else {
			r.reject(field, value, "hosts outside have no waypoints, and what policies say there would not be kept: what leaves the mesh leaves by an egress gateway, with the pod's identity",
				"remove it, and write an EgressPolicy; the annotation "+GatewayAnnotation+" picks the gateway")
		}
	case *corev1.Service:
		if spec.Spec.ClusterIP == corev1.ClusterIPNone {
			r.warn(field, value, "a headless Service has no waypoint, since its clients choose a pod themselves", "give the Service an address, or remove the label")
		}
	case *corev1.Pod:
		r.warn(field, value, "waypoints stand before Services, and what goes to a pod's own address goes straight to it", "label the Service, or the namespace")
	}
}

// ingressWaypoint says that ingress gateways send nothing to waypoints.
func (r *report) ingressWaypoint() {
	if value := r.of.Labels[gatewayapi.IngressUseWaypointLabel]; value == "true" {
		r.warn(strict.Join("metadata.labels", gatewayapi.IngressUseWaypointLabel), value, "ingress gateways lead straight to pods, around the waypoint and what policies say there",
			"write AuthorizationPolicies for the ingress gateway, or for the pods")
	}
}

// fronted says whether a policy targets a Service that is known to have a waypoint.
func (w *world) fronted(p selection.Workloads) bool {
	return slices.ContainsFunc(w.objects, func(o config.Object) bool {
		if o.Kind != config.KindService || o.Namespace != p.Namespace || !slices.Contains(p.Services, o.Name) {
			return false
		}
		use := o.Labels[gatewayapi.UseWaypointLabel]
		if use == "" {
			use = w.namespaces[o.Namespace].Labels[gatewayapi.UseWaypointLabel]
		}
		return use != "" && use != gatewayapi.NoWaypoint
	})
}
