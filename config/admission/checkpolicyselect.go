package admission

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// workload is a Pod or a WorkloadEntry, as policies select it.
type workload struct {
	labels  map[string]string
	account string
}

func (w *world) addWorkload(o config.Object, labels map[string]string, account string) {
	w.workloads[o.Namespace] = append(w.workloads[o.Namespace], workload{labels, cmp.Or(account, "default")})
}

func (w *world) addWorkloadEntry(o config.Object, spec *networking.WorkloadEntry) {
	w.addWorkload(o, workloadLabels(o, spec), spec.ServiceAccount)
}

// workloadLabels are a WorkloadEntry's.
func workloadLabels(o config.Object, spec *networking.WorkloadEntry) map[string]string {
	labels := maps.Clone(spec.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, o.Labels) // the object's own win, as in Istio
	return labels
}

func (w *world) addPolicy(o config.Object, spec *v1alpha1.EgressPolicy) {
	p := &policy{object: o, spec: spec, asked: egresspolicy.FromSpec(&o, spec)}
	for _, rule := range spec.Rules {
		p.matchers = append(p.matchers, newMatcher(rule))
	}
	w.policies[o.Namespace] = append(w.policies[o.Namespace], p)
}

// checkSelected warns of a policy that is for no workload that is known, where any of its namespaces is.
func (w *world) checkSelected(r *report, p *policy) {
	known := false
	for ns, list := range w.workloads {
		if !w.means(p, ns) {
			continue
		}
		known = known || len(list) > 0
		if slices.ContainsFunc(list, func(x workload) bool { return p.selects(x) }) {
			return
		}
	}
	if known {
		field := "spec.serviceAccounts"
		if p.spec.Selector != nil {
			field = "spec.selector.matchLabels"
		}
		r.warn(field, nil, "no workload that is known is selected, so the policy is for nobody", "mend the labels or the service accounts, if the workloads are there already")
	}
}

// means says whether the policy can be for workloads of a namespace.
func (w *world) means(p *policy, ns string) bool {
	if p.object.Namespace != w.cfg.RootNamespace {
		return p.object.Namespace == ns
	}
	n := p.spec.Namespaces
	return n == nil || slices.Contains(n.Names, ns) || len(n.MatchLabels) > 0 && hasLabels(w.namespaces[ns].Labels, n.MatchLabels)
}

func (p *policy) selects(x workload) bool {
	return hasLabels(x.labels, p.spec.Selector.GetMatchLabels()) && (len(p.spec.ServiceAccounts) == 0 || slices.Contains(p.spec.ServiceAccounts, x.account))
}

// hasLabels says whether labels have all that are asked for.
func hasLabels(labels, asked map[string]string) bool {
	for k, v := range asked {
		if has, ok := labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// checkPolicyNamespaces warns of namespaces that are not there, if the input has any.
func (w *world) checkPolicyNamespaces(r *report, p *v1alpha1.EgressPolicy) {
	if p.Namespaces == nil || len(w.namespaces) == 0 {
		return
	}
	w.checkNamespaces(r, "spec.namespaces.names", p.Namespaces.Names)
	if labels := p.Namespaces.MatchLabels; len(labels) > 0 && !slices.ContainsFunc(slices.Collect(maps.Values(w.namespaces)), func(ns config.Object) bool { return hasLabels(ns.Labels, labels) }) {
		r.warn("spec.namespaces.matchLabels", nil, "no namespace has these labels", "label the namespaces that are meant, or mend the labels")
	}
}
