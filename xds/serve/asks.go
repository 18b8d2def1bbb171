package serve

import (
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// An authorizer is asked by a filter that is given by ECDS, at a cluster that is given with others. The filter waits until Envoy has taken
// the cluster with its endpoints, so that nothing is denied for want of it; and a cluster goes when Envoy has taken filters that do not ask
// there any more.

// asksTooSoon says whether the stream's Envoy is to ask an authorizer whose cluster it does not have.
func (s *stream) asksTooSoon() (soon bool) {
	if s.stats.refuses(resource.Cluster) || s.stats.refuses(resource.Endpoints) {
		return false // it will not have it
	}
	s.class.view.WalkPrefix(resource.Cluster, wire.Authorizers, func(r *resource.Resource) bool {
		soon = !s.took(resource.Cluster, r)
		if load, ok := s.class.view.Get(resource.Endpoints, r.Name); ok && !soon {
			soon = !s.took(resource.Endpoints, load)
		}
		return !soon
	})
	return soon
}

// took says whether Envoy has said something about a resource since it was sent it.
func (s *stream) took(t resource.Type, r *resource.Resource) bool {
	w := s.watches[t]
	switch {
	case w == nil || s.stats.unheard(t) > 0:
		return false
	case w.sotw != nil || w.sub.IsWildcard():
		return s.class.has(s.sent[t], t)
	default:
		return w.sub.ReturnedResources()[r.Name] == r.Version
	}
}

// mayAsk says whether Envoy may have filters yet by which it asks whoever is to be asked no more.
func (s *stream) mayAsk() bool {
	return s.asksSoon || s.sent[resource.Extension].view != nil && s.watches[resource.Extension] == nil
}

// askNow is looked at when Envoy has said something about a type: what waited for that goes on.
func (s *stream) askNow(t resource.Type) {
	switch {
	case breakLast(t) && s.asksSoon && !s.asksTooSoon():
		s.answer(resource.Extension, true)
	case t == resource.Extension:
		for _, last := range resource.Types() {
			if breakLast(last) && len(s.owed[last]) > 0 {
				s.answer(last, true)
			}
		}
	}
}
