package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/selection"
)

// selectorOf is the field by which an object of Istio's chooses workloads, and the labels in it, under a name of their own.
func selectorOf(o *config.Object) (field, under string, labels map[string]string) {
	switch spec := o.Spec.(type) {
	case *networking.Sidecar:
		return "spec.workloadSelector", "labels", spec.GetWorkloadSelector().GetLabels()
	case *security.AuthorizationPolicy, *security.RequestAuthentication, *security.PeerAuthentication, *telemetry.Telemetry:
		selector := spec.(interface {
			GetSelector() *typev1beta1.WorkloadSelector
		}).GetSelector()
		return "spec.selector", "matchLabels", selector.GetMatchLabels()
	}
	return "", "", nil
}

// checkNobodySelected warns of an object of Istio's whose selector no workload that is known has, where pods are known that it could be for. Pods of a
// Gateway of the Gateway API are made when the Gateway is, and are not waited for; of a PeerAuthentication of the root namespace it is said that it is for nobody.
func (w *world) checkNobodySelected(r *report) {
	field, under, labels := selectorOf(&r.of)
	if _, ofGateway := labels[selection.GatewayName]; len(labels) == 0 || ofGateway || Refused(r.findings) || r.of.Kind == config.KindPeerAuthentication && r.of.Namespace == w.cfg.RootNamespace {
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
		r.warn(at(field, under), nil, "no workload that is known has these labels, so it is for nobody", "mend the labels, if the workloads are there already")
	}
}
