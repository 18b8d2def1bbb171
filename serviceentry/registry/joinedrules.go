package registry

import (
	"cmp"
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// MostSubsets is how many a rule has at most: proxies are told all of its endpoints for each of them, at each port.
const MostSubsets = 256

// joinRules are the rules that objects of one namespace about one host come to, the oldest first: those that are for the same workloads and exported
// alike are one rule, as in Istio. A subset is that of the oldest that has it, and trafficPolicy that of the oldest that writes it. What is refused is
// joined with nothing, since what it asks for is not known, and what would bring more than MostSubsets stands apart.
func joinRules(objects []*DestinationRule) (out []*DestinationRule) {
	slices.SortFunc(objects, (*DestinationRule).before)
	for _, r := range objects {
		if i := slices.IndexFunc(out, r.joins); i >= 0 {
			out[i] = out[i].join(r)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// ofOthers are the rules that are not of a namespace, and the objects of those that are.
func ofOthers(rules []*DestinationRule, ns string) (others, objects []*DestinationRule) {
	for _, r := range rules {
		if r.Key.Namespace == ns {
			objects = append(objects, r.objects()...)
		} else {
			others = append(others, r)
		}
	}
	return others, objects
}

// objects are those that a rule is made of, the oldest first.
func (r *DestinationRule) objects() []*DestinationRule {
	if r.parts == nil {
		return []*DestinationRule{r}
	}
	return r.parts
}

// before puts rules in order: that with the oldest object comes first.
func (r *DestinationRule) before(o *DestinationRule) int {
	a, b := r.objects()[0], o.objects()[0]
	return cmp.Or(a.Created.Compare(b.Created), a.Key.Compare(b.Key))
}

// joins says whether a younger object is of the same rule as an older one.
func (r *DestinationRule) joins(older *DestinationRule) bool {
	return r.Refused == "" && older.Refused == "" && maps.Equal(r.Selector, older.Selector) && r.ExportTo.equal(older.ExportTo) &&
		len(r.Subsets)+len(older.Subsets) <= MostSubsets
}

// join is the rule with what a younger object adds.
func (r *DestinationRule) join(younger *DestinationRule) *DestinationRule {
	out := *r
	if !r.policy && younger.policy {
		out = *younger
	}
	out.parts = append(slices.Clip(r.objects()), younger)
	out.Subsets = slices.Clone(r.Subsets)
	for _, s := range younger.Subsets {
		if _, there := r.Subset(s.Name); !there {
			out.Subsets = append(out.Subsets, s)
		}
	}
	out.sortSubsets()
	out.distinct = nil
	out.tellApart()
	return &out
}

// JoinedRules gives DestinationRules of one namespace about one host by the rules that they come to, each list the oldest first.
func JoinedRules(objects []*config.Object, cfg *mesh.Config) (out [][]*config.Object) {
	by, all := map[config.Key]*config.Object{}, make([]*DestinationRule, len(objects))
	for i, o := range objects {
		by[o.Key], all[i] = o, fromDestinationRule(o, o.Spec.(*networking.DestinationRule), cfg)
	}
	for _, rule := range joinRules(all) {
		var of []*config.Object
		for _, r := range rule.objects() {
			of = append(of, by[r.Key])
		}
		out = append(out, of)
	}
	return out
}
