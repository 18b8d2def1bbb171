package registry

import (
	"cmp"
	"fmt"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// MostSubsets is how many a rule has at most: proxies are told all of its endpoints for each of them, at each port.
const MostSubsets = 256

// mostNarrower is with how many older rules that are exported to fewer an object is joined.
const mostNarrower = 64

// joinRules are the rules that objects of one namespace about one host come to, the oldest first: those that are for the same workloads and exported
// alike are one rule, as in Istio, and one that is exported to all the namespaces of an older rule and to others is a part of that, and stands alone for the others. A subset
// is that of the oldest that has it, and trafficPolicy that of the oldest that writes it. What is refused is joined with nothing, since what it asks for is not known, and
// what would bring more than MostSubsets stands apart.
func joinRules(objects []*DestinationRule) (out []*DestinationRule) {
	slices.SortFunc(objects, (*DestinationRule).before)
	var all []*joining
	alike, narrower := map[string][]*joining{}, map[string][]*joining{}
	for _, r := range objects {
		workloads := selectorText(r.Selector)
		for _, j := range narrower[workloads] {
			if j.takes(r) && r.ExportTo.beyond(j.objects[0].ExportTo) {
				j.add(r)
			}
		}
		key := workloads + exportText(r.ExportTo)
		i := slices.IndexFunc(alike[key], func(j *joining) bool { return j.takes(r) })
		if i < 0 {
			j := &joining{subsets: map[string]bool{}}
			all, alike[key] = append(all, j), append(alike[key], j)
			if len(narrower[workloads]) < mostNarrower && !r.ExportTo.All {
				narrower[workloads] = append(narrower[workloads], j)
			}
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

// exportText is the same of objects that are exported alike.
func exportText(e ExportTo) string { return fmt.Sprintf("%v%q", e.All, e.Namespaces) }

// beyond says whether all the namespaces of another list are named, and more. As in Istio, the word for all names none.
func (e ExportTo) beyond(o ExportTo) bool {
	if e.All || o.All || len(o.Namespaces) == 0 || len(o.Namespaces) >= len(e.Namespaces) {
		return false
	}
	return !slices.ContainsFunc(o.Namespaces, func(ns string) bool { _, named := slices.BinarySearch(e.Namespaces, ns); return !named })
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
	out.ExportTo = j.objects[0].ExportTo // where others that are joined are exported to more, they stand alone
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

// ofOthers are the rules that are not of a namespace, and the objects of those that are, each once.
func ofOthers(rules []*DestinationRule, ns string) (others, objects []*DestinationRule) {
	seen := map[config.Key]bool{}
	for _, r := range rules {
		if r.Key.Namespace == ns {
			for _, o := range r.objects() {
				if !seen[o.Key] {
					seen[o.Key], objects = true, append(objects, o)
				}
			}
		} else {
			others = append(others, r)
		}
	}
	return others, objects
}

// inNamespace are the rules of a namespace.
func inNamespace(rules []*DestinationRule, ns string) []*DestinationRule {
	return slices.DeleteFunc(slices.Clone(rules), func(r *DestinationRule) bool { return r.Key.Namespace != ns })
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

// JoinedRules gives DestinationRules of one namespace about one host by the rules that they come to, each list the oldest first. One may be in several.
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
