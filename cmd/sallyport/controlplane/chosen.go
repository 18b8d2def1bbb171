package controlplane

import (
	"maps"

	networking "istio.io/api/networking/v1alpha3"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
)

// chosen is which ServiceEntries select workloads by their labels; which of them may select somebody now, or nobody, and in which namespaces one of them is another, since
// it was last asked. The inventory's lock is held.
type chosen struct {
	by     map[string]map[config.Key]labels.Selector // by namespace
	again  map[config.Key]bool
	turned map[string]bool // namespaces
}

func newChosen() chosen {
	return chosen{map[string]map[config.Key]labels.Selector{}, map[config.Key]bool{}, map[string]bool{}}
}

// note takes a change of an object; either may be nil.
func (x chosen) note(key config.Key, was, is *config.Object) {
	if key.Kind == config.KindServiceEntry {
		x.noteEntry(key, is)
		return
	}
	before, there := labelsOf(was)
	now, stays := labelsOf(is)
	if !there && !stays || there && stays && labels.Equals(before, now) {
		return
	}
	for entry, selector := range x.by[key.Namespace] {
		if there && selector.Matches(before) || stays && selector.Matches(now) {
			x.again[entry] = true
		}
	}
}

func (x chosen) noteEntry(key config.Key, is *config.Object) {
	if _, selected := x.by[key.Namespace][key]; selected {
		x.turned[key.Namespace] = true
	}
	delete(x.by[key.Namespace], key)
	delete(x.again, key)
	if is == nil {
		return
	}
	asked := selectorOf(is)
	if asked.Empty() {
		return
	}
	if x.by[key.Namespace] == nil {
		x.by[key.Namespace] = map[config.Key]labels.Selector{}
	}
	x.by[key.Namespace][key], x.turned[key.Namespace] = asked, true
}

// selectorOf is how a ServiceEntry selects workloads; empty where it selects none.
func selectorOf(entry *config.Object) labels.Selector {
	return labels.Set(entry.Spec.(*networking.ServiceEntry).GetWorkloadSelector().GetLabels()).AsSelectorPreValidated()
}

// labelsOf are those by which a Pod or a WorkloadEntry is selected; false of anything else.
func labelsOf(o *config.Object) (labels.Set, bool) {
	if o == nil {
		return nil, false
	}
	return admission.LabelsOfWorkload(o)
}

// chosenAgain gives the ServiceEntries that may select somebody now, or nobody, and the namespaces in which one that selects is another now, and forgets them.
func (v *inventory) chosenAgain() (entries []config.Key, namespaces map[string]bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key := range v.chosen.again {
		entries = append(entries, key)
	}
	namespaces = maps.Clone(v.chosen.turned)
	clear(v.chosen.again)
	clear(v.chosen.turned)
	return entries, namespaces
}

// choosesNobody says of a ServiceEntry that selects by labels that none of its namespace's workloads has them.
func (v *inventory) choosesNobody(o *config.Object) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	asked := selectorOf(o)
	for _, kind := range []config.Kind{config.KindWorkloadEntry, config.KindPod} {
		for _, other := range v.objects.In(kind, o.Namespace) {
			if has, _ := labelsOf(other); asked.Matches(has) {
				return false
			}
		}
	}
	return true
}
