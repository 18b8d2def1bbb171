package serve

import (
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// An authorizer is asked by a filter that is given by ECDS, at a cluster that is given with others. The filter waits until Envoy has taken
// the cluster with its endpoints, so that nothing is denied for want of it; and a cluster goes when Envoy has taken filters that do not ask
// there any more, and nobody can wait for an answer there any longer: Envoy gives up the questions of a cluster that goes, which denies what they are
// about.

// restTime is how long a cluster stays after somebody was asked there: as long as is waited for an answer, where a provider says nothing of it. Tests
// change it.
var restTime = newLimit(mesh.AuthorizerTimeout)

// rest notes that something stays for a while that is gone: a cluster at which nobody is asked any more, or a pod's row (fronts.go).
func (s *stream) rest(name string, stays time.Duration) {
	if _, ok := s.resting[name]; ok {
		return
	}
	if s.resting == nil {
		s.resting = map[string]time.Time{}
	}
	until := time.Now().Add(stays)
	s.resting[name] = until
	s.rested(until)
}

// rests says whether a cluster, or its endpoints, stay for those who still wait for an answer there; or a row.
func (s *stream) rests(name string) bool {
	until, ok := s.resting[name]
	return ok && time.Now().Before(until)
}

// leaves says whether something of a type is to go now.
func (s *stream) leaves(t resource.Type) bool {
	for name := range s.owed[t] {
		if !s.rests(name) {
			return true
		}
	}
	return false
}

// watchRests sees to it that what rests goes in the end. The cache is held.
func (c *Cache) watchRests(until time.Time) {
	if c.rests != nil && !until.Before(c.restsEnd) {
		return
	}
	if c.rests != nil {
		c.rests.Stop()
	}
	c.restsEnd = until
	c.rests = time.AfterFunc(time.Until(until), c.endRests)
}

// endRests lets go what has rested for long enough.
func (c *Cache) endRests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests = nil
	if next := c.endLeaving(); !next.IsZero() {
		c.watchRests(next)
	}
	c.letCome()
	c.watchHolds()
	types := []resource.Type{resource.Cluster, resource.Endpoints, resource.VirtualHost}
	for _, st := range c.streams {
		for _, t := range types {
			if st.resting != nil && st.leaves(t) {
				st.answer(t, true)
			}
		}
		maps.DeleteFunc(st.resting, func(name string, _ time.Time) bool {
			return !st.rests(name) && !slices.ContainsFunc(types, func(t resource.Type) bool { return st.owed[t][name] })
		})
		for _, until := range st.resting {
			if !until.After(time.Now()) { // it could not be told yet
				until = time.Now().Add(frontRest.get())
			}
			c.watchRests(until)
		}
	}
}

// asksTooSoon says whether the stream's Envoy is to ask an authorizer whose cluster it does not have.
func (s *stream) asksTooSoon() bool { return s.lacks(wire.Authorizers) }

// lacks says whether Envoy has not taken all clusters whose names begin so, with their endpoints.
func (s *stream) lacks(begin string) (lacks bool) {
	if s.stats.refuses(resource.Cluster) || s.stats.refuses(resource.Endpoints) {
		return false // it will not have it
	}
	s.class.view.WalkPrefix(resource.Cluster, begin, func(r *resource.Resource) bool {
		lacks = s.lacksCluster(r)
		return !lacks
	})
	return lacks
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
	case t == resource.Route && s.tableSoon:
		s.answer(resource.Extension, true)
	case t == resource.Extension:
		s.endOldWays()
	}
}

// endOldWays takes back what nothing refers to any more.
func (s *stream) endOldWays() {
	for _, t := range resource.Types() {
		if breakLast(t) && s.leaves(t) {
			s.answer(t, true)
		}
	}
}
