package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/sallyport/sallyport/serviceentry/selection"
)

// checkNobodySelected warns of an object of Istio's whose selector no workload that is known has, where pods are known that it could be for. Pods of a
// Gateway of the Gateway API are made when the Gateway is, and are not waited for.
func (w *world) checkNobodySelected(r *report) {
	field, labels := "spec.selector.matchLabels", map[string]string(nil)
	switch spec := r.of.Spec.(type) {
	case *security.AuthorizationPolicy:
		labels = spec.GetSelector().GetMatchLabels()
	case *security.RequestAuthentication:
		labels = spec.GetSelector().GetMatchLabels()
	case *security.PeerAuthentication:
		if r.of.Namespace == w.cfg.RootNamespace {
			return // it says there that it is for nobody
		}
		labels = spec.GetSelector().GetMatchLabels()
	case *telemetry.Telemetry:
		labels = spec.GetSelector().GetMatchLabels()
	case *networking.Sidecar:
		field, labels = "spec.workloadSelector.labels", spec.GetWorkloadSelector().GetLabels()
	}
	if _, ofGateway := labels[selection.GatewayName]; len(labels) == 0 || ofGateway || Refused(r.findings) {
		return
	}
	known := false
	for ns, list := range w.workloads {
		if ns != r.of.Namespace && r.of.Namespace != w.cfg.RootNamespace {
			continue
		}
		known = known || w.podAddresses[ns] != nil
		if slices.ContainsFunc(list, func(x workload) bool { return hasLabels(x.labels, labels) }) {
			return
		}
	}
	if known {
		r.warn(field, nil, "no workload that is known has these labels, so it is for nobody", "mend the labels, if the workloads are there already")
	}
}
