package registry

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

// selectedAlike is what the workloads that a ServiceEntry selects follow from, beside the workloads: entries of which it is equal have the same endpoints.
type selectedAlike struct {
	namespace, selector string
	resolution          Resolution
	external            bool
}

// selectionOf is that of an entry; false where it selects none.
func selectionOf(o *config.Object) (selectedAlike, bool) {
	if o == nil {
		return selectedAlike{}, false
	}
	spec := o.Spec.(*networking.ServiceEntry)
	labels := spec.GetWorkloadSelector().GetLabels()
	return selectedAlike{o.Namespace, selectorText(labels), entryResolution(spec.Resolution), spec.Location == networking.ServiceEntry_MESH_EXTERNAL}, len(labels) > 0
}

// sharedEndpoints are the lists of endpoints that are kept once for all entries which select alike: a list for each of them would be as many endpoints as
// there are workloads and entries of a namespace, multiplied.
type sharedEndpoints struct {
	of    map[config.Key]selectedAlike
	users map[selectedAlike]int
	lists map[selectedAlike][]Endpoint // of those that have users; nobody may change one
}

func newSharedEndpoints() sharedEndpoints {
	return sharedEndpoints{map[config.Key]selectedAlike{}, map[selectedAlike]int{}, map[selectedAlike][]Endpoint{}}
}

// note keeps what an entry selects; o is nil of one that is gone.
func (x sharedEndpoints) note(key config.Key, o *config.Object) {
	if was, selected := x.of[key]; selected {
		if x.users[was]--; x.users[was] == 0 {
			delete(x.users, was)
			delete(x.lists, was)
		}
		delete(x.of, key)
	}
	if is, selects := selectionOf(o); selects {
		x.of[key] = is
		x.users[is]++
	}
}

// selectedEndpoints are those of an entry that selects workloads, found once in a batch for all that select alike, and the list of before where it is the same.
func (b *batch) selectedEndpoints(o *config.Object, labels map[string]string) []Endpoint {
	of, _ := selectionOf(o)
	if list, found := b.selectedNow[of]; found {
		return list
	}
	list := b.index.selected(o.Namespace, labels, of.resolution)
	b.next.placeEndpoints(o.Namespace, of.external, list)
	if b.index.shared.users[of] > 0 {
		if was := b.index.shared.lists[of]; slices.EqualFunc(was, list, Endpoint.equal) {
			list = was
		}
		b.index.shared.lists[of] = list
	}
	if b.selectedNow == nil {
		b.selectedNow = map[selectedAlike][]Endpoint{}
	}
	b.selectedNow[of] = list
	return list
}

// placeEndpoints notes of an entry's endpoints, which are the caller's, where they are and what they speak.
func (s *Snapshot) placeEndpoints(namespace string, external bool, list []Endpoint) {
	s.topology.place("", list)
	if !external {
		s.authenticate(namespace, list)
	}
}
