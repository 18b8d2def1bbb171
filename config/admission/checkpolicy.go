package admission

import (
	"github.com/sallyport/sallyport/config/api/v1alpha1"
)

// checkRootOnly rejects what only policies of the root namespace can say: other namespaces' policies are for their own workloads,
// narrow what the mesh allows, and never widen it.
func (w *world) checkRootOnly(r *report, p *v1alpha1.EgressPolicy) {
	root := w.cfg.RootNamespace
	if r.of.Namespace == root {
		return
	}
	fix := "remove it, or write the policy into the root namespace " + root
	if p.Namespaces != nil {
		r.reject("spec.namespaces", nil, "a policy of this namespace is for its own workloads", fix)
	}
	for i, rule := range p.Rules {
		if rule.Final {
			r.reject(at("spec.rules", i, "final"), rule.Final, "a policy of this namespace cannot overrule others", fix)
		}
		if rule.Unregistered {
			r.reject(at("spec.rules", i, "unregistered"), rule.Unregistered, "a policy of this namespace cannot let out what nobody registered", fix)
		}
	}
}
