package admission

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1"
	telemetry "istio.io/api/telemetry/v1alpha1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// oldestCounts says whether an object is of the kinds of which the oldest that is for a workload counts, and no other.
func oldestCounts(o *config.Object) bool {
	switch spec := o.Spec.(type) {
	case *networking.Sidecar, *security.PeerAuthentication:
		return true
	case *telemetry.Telemetry:
		return spec.GetTargetRef() == nil && len(spec.GetTargetRefs()) == 0 && registry.RecordsBy(spec) != ""
	}
	return false
}

// secondChosen warns of objects that are for the same workloads as an older one, and so for nobody.
func (w *world) secondChosen() (findings []Finding) {
	var list []*config.Object
	for i := range w.objects {
		if oldestCounts(&w.objects[i]) {
			list = append(list, &w.objects[i])
		}
	}
	slices.SortFunc(list, func(a, b *config.Object) int { return cmp.Or(a.Created.Compare(b.Created), a.Key.Compare(b.Key)) })
	type workloads struct {
		kind                config.Kind
		namespace, selector string
	}
	oldest := map[workloads]*config.Object{}
	for _, o := range list {
		field, _, chosen := selectorOf(o)
		of := workloads{o.Kind, o.Namespace, labels.FormatLabels(chosen)}
		if oldest[of] == nil {
			oldest[of] = o
			continue
		}
		r := &report{of: *o}
		r.warn(field, nil, fmt.Sprintf("%s is older and for the same workloads, of which one object counts, so this one is for nobody", oldest[of].Key), "write what both say into one object, or select other workloads")
		findings = append(findings, r.findings...)
	}
	return findings
}

// checkRootSelector says that a PeerAuthentication of the root namespace selects nobody: there one is for the whole mesh, or for none.
func (w *world) checkRootSelector(r *report, p *security.PeerAuthentication) {
	if r.of.Namespace == w.cfg.RootNamespace && len(p.GetSelector().GetMatchLabels()) > 0 {
		r.warn("spec.selector", nil, "in the root namespace it is for nobody: what it asks of connections is asked of none", "write it into the namespace of the workloads that are meant; without a selector it is for the whole mesh")
	}
}
