package registry

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	var all []*joining
	alike := map[string][]*joining{}
	for _, r := range objects {
		key := r.joinedBy()
		i := slices.IndexFunc(alike[key], func(j *joining) bool { return j.takes(r) })
		if i < 0 {
			j := &joining{subsets: map[string]bool{}}
			all, alike[key] = append(all, j), append(alike[key], j)
			i = len(alike[key]) - 1
		}
		alike[key][i].add(r)
	}
	for _, j := range all {
		out = append(out, j.rule())
	}
	return out
}

// joining is a rule that is being put together.
type joining struct {
	objects []*DestinationRule // the oldest first
	subsets map[string]bool    // their names
}

// joinedBy is the same of objects that are for the same workloads, and exported alike.
func (r *DestinationRule) joinedBy() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v%q", r.ExportTo.All, r.ExportTo.Namespaces)
	for _, name := range slices.Sorted(maps.Keys(r.Selector)) {
		fmt.Fprintf(&b, "%q%q", name, r.Selector[name])
	}
	return b.String()
}

// takes says whether a younger object, exported alike, is of the same rule.
func (j *joining) takes(r *DestinationRule) bool {
	return r.Refused == "" && j.objects[0].Refused == "" && len(r.Subsets)+len(j.subsets) <= MostSubsets
}

func (j *joining) add(r *DestinationRule) {
	j.objects = append(j.objects, r)
	for _, s := range r.Subsets {
		j.subsets[s.Name] = true
	}
}

// rule is what the objects come to.
func (j *joining) rule() *DestinationRule {
	if len(j.objects) == 1 {
		return j.objects[0]
	}
	out := *j.objects[0]
	if i := slices.IndexFunc(j.objects, func(r *DestinationRule) bool { return r.policy }); i >= 0 {
		out = *j.objects[i]
	}
	out.parts, out.Subsets = j.objects, nil
	there := map[string]bool{}
	for _, r := range j.objects {
		for _, s := range r.Subsets {
			if !there[s.Name] {
				there[s.Name], out.Subsets = true, append(out.Subsets, s)
			}
		}
	}
	out.sortSubsets()
	out.distinct = nil
	out.tellApart()
	return &out
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
