package admission

import (
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// severalRules warns of what does not count of DestinationRules, since an older one of the namespace says it of the same host.
func (w *world) severalRules() (findings []Finding) {
	type about struct {
		ns   string
		host host.Name
	}
	by := map[about][]*config.Object{}
	for i := range w.objects {
		o := &w.objects[i]
		if rule, ok := o.Spec.(*networking.DestinationRule); ok {
			key := about{o.Namespace, w.fullName(rule.Host, o.Namespace)}
			by[key] = append(by[key], o)
		}
	}
	for _, list := range by {
		if len(list) == 1 {
			continue
		}
		var forAll *config.Object // the oldest of those that are for all workloads
		rules := registry.JoinedRules(list, &w.cfg)
		in := map[*config.Object]int{} // of how many rules each is a part
		for _, joined := range rules {
			for _, o := range joined {
				in[o]++
			}
		}
		for _, joined := range rules {
			findings = append(findings, hiddenWithin(joined, in)...)
			if len(joined[0].Spec.(*networking.DestinationRule).GetWorkloadSelector().GetMatchLabels()) > 0 {
				continue
			}
			if forAll == nil {
				forAll = joined[0]
				continue
			}
			for _, o := range joined {
				if in[o] == 1 {
					findings = append(findings, apart(forAll, o))
				}
			}
		}
	}
	return findings
}

// hiddenWithin warns of what an older object of the same rule says, too. in says of how many rules an object is a part: of another one it counts where that is seen.
func hiddenWithin(joined []*config.Object, in map[*config.Object]int) (findings []Finding) {
	var policy *config.Object
	subsets := map[string]*config.Object{}
	for _, o := range joined {
		r, rule := &report{of: *o}, o.Spec.(*networking.DestinationRule)
		where, applied := "", ": nothing of this one is applied"
		if in[o] > 1 {
			where, applied = fmt.Sprintf(" in the namespaces to which %s is exported", joined[0].Key), ""
		}
		switch {
		case rule.TrafficPolicy == nil:
		case policy == nil:
			policy = o
		default:
			r.warn("spec.trafficPolicy", nil, fmt.Sprintf("%s is for the host, too, and its trafficPolicy is the one that counts%s%s", policy.Key, where, applied), "write one trafficPolicy for a host")
		}
		for i, s := range rule.Subsets {
			if by := subsets[s.Name]; by != nil && by != o {
				r.warn(at("spec.subsets", i, "name"), s.Name, fmt.Sprintf("%s has a subset of this name for the host, and that is the one that counts%s", by.Key, where), "give each subset of a host its own name")
				continue
			}
			subsets[s.Name] = o
		}
		findings = append(findings, r.findings...)
	}
	return findings
}

// apart warns of a rule that is not joined with an older one.
func apart(older, o *config.Object) Finding {
	r := &report{of: *o}
	a, b := older.Spec.(*networking.DestinationRule), o.Spec.(*networking.DestinationRule)
	if len(a.Subsets)+len(b.Subsets) > registry.MostSubsets && slices.Equal(a.ExportTo, b.ExportTo) {
		r.warn("spec.subsets", len(b.Subsets), fmt.Sprintf("with those that others of the namespace have for the host there are more than %d, so nothing of this rule is applied", registry.MostSubsets), "write fewer subsets")
		return r.findings[0]
	}
	r.warn("spec.exportTo", nil, fmt.Sprintf("%s is for the host, too, and exported otherwise: the two are not joined, and where both are seen, nothing of this one is applied", older.Key), "export the two alike")
	return r.findings[0]
}
