package admission

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	telemetry "istio.io/api/telemetry/v1alpha1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// chosen says by which labels an object chooses its workloads, of the kinds of which the oldest that is for a workload counts and no other; the field that
// does so, and false for all other objects.
func chosen(o *config.Object) (field string, labels map[string]string, is bool) {
	switch spec := o.Spec.(type) {
	case *networking.Sidecar:
		return "spec.workloadSelector", spec.GetWorkloadSelector().GetLabels(), true
	case *security.PeerAuthentication:
		return "spec.selector", spec.GetSelector().GetMatchLabels(), true
	case *telemetry.Telemetry:
		targets := spec.GetTargetRef() != nil || len(spec.GetTargetRefs()) > 0
		return "spec.selector", spec.GetSelector().GetMatchLabels(), !targets && registry.RecordsBy(spec) != ""
	}
	return "", nil, false
}

// secondChosen warns of objects that are for the same workloads as an older one, and so for nobody.
func (w *world) secondChosen() []Finding {
	of := map[config.Key][]*config.Object{} // by kind and namespace
	for i := range w.objects {
		o := &w.objects[i]
		if _, _, is := chosen(o); is {
			group := config.Key{Kind: o.Kind, Namespace: o.Namespace}
			of[group] = append(of[group], o)
		}
	}
	var findings []Finding
	for _, list := range of {
		slices.SortFunc(list, func(a, b *config.Object) int { return cmp.Or(a.Created.Compare(b.Created), a.Key.Compare(b.Key)) })
		for i, o := range list {
			field, labels, _ := chosen(o)
			older := slices.IndexFunc(list[:i], func(x *config.Object) bool {
				_, theirs, _ := chosen(x)
				return maps.Equal(labels, theirs)
			})
			if older < 0 {
				continue
			}
			r := &report{of: *o}
			r.warn(field, nil, fmt.Sprintf("%s is older and for the same workloads, of which one object counts, so this one is for nobody", list[older].Key), "write what both say into one object, or select other workloads")
			findings = append(findings, r.findings...)
		}
	}
	return findings
}

// checkRootSelector says that a PeerAuthentication of the root namespace selects nobody: there one is for the whole mesh, or for none.
func (w *world) checkRootSelector(r *report, p *security.PeerAuthentication) {
	if r.of.Namespace == w.cfg.RootNamespace && len(p.GetSelector().GetMatchLabels()) > 0 {
		r.warn("spec.selector", nil, "in the root namespace it is for nobody: what it asks of connections is asked of none", "write it into the namespace of the workloads that are meant; without a selector it is for the whole mesh")
	}
}
