package serve

import (
	"maps"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// An authorizer is asked by a filter that is given by ECDS, at a cluster that is given with others. The filter waits until Envoy has taken
// the cluster with its endpoints, so that nothing is denied for want of it; and a cluster goes when Envoy has taken filters that do not ask
// there any more, and nobody can wait for an answer there any longer: Envoy gives up the questions of a cluster that goes, which denies what they are
// about.

// restTime is how long a cluster stays after somebody was asked there: as long as is waited for an answer, where a provider says nothing of it. Tests
// change it.
var restTime = newLimit(mesh.AuthorizerTimeout)

// rest notes since when nobody is asked at a cluster any more.
func (s *stream) rest(name string) {
	if _, ok := s.resting[name]; ok {
		return
	}
	if s.resting == nil {
		s.resting = map[string]time.Time{}
	}
	s.resting[name] = time.Now().Add(restTime.get())
	s.rested()
}

// rests says whether a cluster, or its endpoints, stay for those who still wait for an answer there.
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
func (c *Cache) watchRests() {
	if c.rests == nil {
		c.rests = time.AfterFunc(restTime.get(), c.endRests)
	}
}

// endRests lets those clusters go that have rested for long enough.
func (c *Cache) endRests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests = nil
	for _, st := range c.streams {
		for _, t := range []resource.Type{resource.Cluster, resource.Endpoints} {
			if st.resting != nil && st.leaves(t) {
				st.answer(t, true)
			}
		}
		maps.DeleteFunc(st.resting, func(name string, _ time.Time) bool {
			return !st.rests(name) && !st.owed[resource.Cluster][name] && !st.owed[resource.Endpoints][name]
		})
		if len(st.resting) > 0 {
			c.watchRests()
		}
	}
}

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

// waiting tells, by their names, which filters of authorization wait, of those that Envoy knows: all of them while it is to ask too soon, since what
// judges by itself may let pass what is to be asked about. Then what becomes stricter goes first, and the others when Envoy has taken that: what asks
// before what judges by itself, but where it asks about less than before; where it asks about other things, it denies what it asked about until then (betweens).
func (s *stream) waiting(known map[string]string) func(name string) bool {
	s.asksSoon = s.asksTooSoon()
	asks, judges := s.differs(known, translate.Asks), s.differs(known, translate.Judges)
	switch {
	case s.asksSoon:
		return func(name string) bool { return translate.Asks(name) || translate.Judges(name) }
	case !asks || !judges:
		s.between = nil
		return func(string) bool { return false }
	case s.betweens(known):
		return translate.Judges
	case len(s.between) > 0: // Envoy has them
		return func(string) bool { return false }
	case s.asksLess(known):
		return translate.Asks
	default:
		return translate.Judges
	}
}

// betweens makes what is sent of what says what is asked about while what judges by itself is to differ, too, where by size alone nobody can tell which is to
// go first: both before and after somebody is asked about something. It says whether Envoy does not have all of it yet.
func (s *stream) betweens(known map[string]string) (sent bool) {
	mixed := len(s.between) > 0
	made := map[string]*resource.Resource{}
	for _, name := range translate.Abouts() {
		now, ok := s.policed.view.Get(resource.Extension, name)
		before := s.hadOf(name, known)
		if !ok || before == nil || now.Version == before.Version || translate.AsksNobody(before) {
			continue
		}
		mixed = mixed || !translate.AsksNobody(now)
		if b := s.between[name]; b != nil && before == b && s.betweenTo[name] == now.Version {
			made[name] = b
		} else if b := translate.Between(before, now); b != nil {
			made[name], sent = b, true
		}
	}
	if !mixed {
		return false
	}
	s.between, s.betweenTo = made, map[string]string{}
	for name := range made {
		now, _ := s.policed.view.Get(resource.Extension, name)
		s.betweenTo[name] = now.Version
	}
	return sent
}

// tell notes what Envoy has of what says what is asked about.
func (s *stream) tell(r *resource.Resource) {
	if s.told == nil {
		s.told = map[string]*resource.Resource{}
	}
	s.told[r.Name] = r
}

// hadOf is what Envoy knows of a filter; nil where nobody remembers it.
func (s *stream) hadOf(name string, known map[string]string) *resource.Resource {
	if r := s.told[name]; r != nil && r.Version == known[name] {
		return r
	}
	return nil
}

// differs says whether Envoy knows another version of one of these filters than it is to have.
func (s *stream) differs(known map[string]string, these func(name string) bool) bool {
	for name, version := range known {
		if now, ok := s.policed.view.Get(resource.Extension, name); ok && version != now.Version && these(name) {
			return true
		}
	}
	return false
}

// asksLess says whether Envoy is to ask about less than it does.
func (s *stream) asksLess(known map[string]string) bool {
	for _, name := range translate.Abouts() {
		now, ok := s.policed.view.Get(resource.Extension, name)
		if !ok || known[name] == now.Version {
			continue
		}
		if translate.AsksLess(s.hadOf(name, known), now) {
			return true
		}
	}
	return false
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
			if breakLast(last) && s.leaves(last) {
				s.answer(last, true)
			}
		}
	}
}
