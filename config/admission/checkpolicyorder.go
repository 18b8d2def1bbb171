package admission

import (
	"fmt"
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
)

// policy is an EgressPolicy with what is derived from it.
type policy struct {
	object   config.Object
	spec     *v1alpha1.EgressPolicy
	asked    *egresspolicy.Policy // as it is asked, among the others in its order
	matchers []matcher
}

// maxEffort bounds what is compared for one policy: some tenths of a second. Whose rules take more is told of the first ones.
const maxEffort effort = 1 << 22

// checkOrder warns of rules that are never asked, since another one matches all that they do: of the same policy, or of one of
// the namespace that comes first for the same workloads.
func (w *world) checkOrder(r *report, p *policy) {
	var asked []earlier
	for _, other := range w.shadowing(p) {
		asked = w.ask(asked, other)
	}
	own := len(asked)
	asked = w.ask(asked, p)
	left := maxEffort
	for j, rule := range asked[own:] {
		for _, first := range asked[:own+j] {
			if left < 0 {
				return
			}
			if !first.covers(rule.matcher, w, &left) {
				continue
			}
			fix := "move it before the other, or remove it"
			if first.of != p {
				fix = "write it into that policy, give this one a closer selector, or remove it"
			}
			r.warn(at("spec.rules", rule.index), rule.Name, fmt.Sprintf("is never asked: %s comes first and matches all that it does", first.name(p)), fix)
			break
		}
	}
}

// checkDefault warns of a default that is never asked: the first of the namespace's policies that has one decides.
func (w *world) checkDefault(r *report, p *policy) {
	for _, other := range w.shadowing(p) {
		if d := other.spec.Default; d != v1alpha1.Action_Unset && p.spec.Default != v1alpha1.Action_Unset && d != p.spec.Default {
			r.warn("spec.default", p.spec.Default, fmt.Sprintf("is never asked: %s comes first for the same workloads, and its default is %s", other.object.Key, d), "make the two alike, or remove it")
			return
		}
	}
}

// shadowing are the policies of the namespace that come before p for all its workloads.
func (w *world) shadowing(p *policy) (out []*policy) {
	for _, other := range w.policies[p.object.Namespace] {
		if other == p {
			break
		}
		if other.shadows(p) {
			out = append(out, other)
		}
	}
	return out
}

// ask puts the rules of a policy that have not ended behind those that are asked before.
func (w *world) ask(asked []earlier, p *policy) []earlier {
	for i, m := range p.matchers {
		if !w.expired(m.Rule) {
			asked = append(asked, earlier{m, p, i})
		}
	}
	return asked
}

// earlier is a rule, and where it is, that is asked before others.
type earlier struct {
	matcher
	of    *policy
	index int
}

// name is how a policy calls the rule: its own by their places, others' by their policies too.
func (e earlier) name(from *policy) string {
	name := at("spec.rules", e.index)
	if e.Name != "" {
		name += fmt.Sprintf(" (%s)", e.Name)
	}
	if e.of != from {
		name = fmt.Sprintf("%s of %s", name, e.of.object.Key)
	}
	return name
}

// shadows says whether p is for all workloads that o is for, and enforced where o is.
func (p *policy) shadows(o *policy) bool {
	if p.spec.Mode == v1alpha1.Mode_Observe && o.spec.Mode != v1alpha1.Mode_Observe {
		return false
	}
	return hasLabels(o.spec.Selector.GetMatchLabels(), p.spec.Selector.GetMatchLabels()) &&
		subset(o.spec.ServiceAccounts, p.spec.ServiceAccounts) && coversNamespaces(p.spec.Namespaces, o.spec.Namespaces)
}

func coversNamespaces(wide, narrow *v1alpha1.NamespaceSelector) bool {
	if wide == nil {
		return true
	}
	return narrow != nil && !slices.ContainsFunc(narrow.Names, func(n string) bool { return !slices.Contains(wide.Names, n) }) &&
		(len(narrow.MatchLabels) == 0 || maps.Equal(narrow.MatchLabels, wide.MatchLabels))
}
