package serve

import (
	"time"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// A name is answered by a pod's DNS only when what it leads to is there: from then on connections come to an address
// behind which there is nothing but rows of the pod's Envoy, and what these lead to in the mesh's gateway. So names that
// are new, or have changed, wait until
//
//   - the stream's Envoy has said something about all that it was sent: its agent passes on Envoy's own word;
//   - so have those pods of the mesh's default gateway that are connected here. (Other gateways may be anybody's, who
//     must not hold up names of others; and those connected to another replica are not seen.)
//
// A refusal is a word, too: a name whose row was refused is answered, and leads nowhere, since the other way it would lead
// past the gateway. Who says nothing is not waited for longer than nameTime; a gateway's pod not again until it speaks.
//
// Names that are gone are the first to go, before their rows.
type holds struct {
	waiting map[*stream]time.Time // whose names wait, and since when
	exits   map[*stream]bool      // pods of the default gateway; true: not waited for, since it said nothing
	behind  bool                  // some of them have not said that they have everything
	timer   *time.Timer           // nil when nobody waits
}

// nameTime is how long names wait for somebody who says nothing. Tests change it.
var nameTime = newLimit(10 * time.Second)

func newHolds() *holds { return &holds{waiting: map[*stream]time.Time{}, exits: map[*stream]bool{}} }

// forEnvoy says whether Envoy takes resources of a type, and not its agent.
func forEnvoy(t resource.Type) bool {
	switch t {
	case resource.Cluster, resource.Endpoints, resource.Scope, resource.Listener, resource.Route, resource.VirtualHost:
		return true
	default:
		return false
	}
}

// settled says whether the stream's Envoy was sent all that it asked for, and has said something about it.
func (s *stream) settled() bool {
	for _, t := range resource.Types() {
		asked := s.watches[t] != nil || s.sent[t].view != nil
		if forEnvoy(t) && asked && (s.watches[t] == nil || s.stats.unheard(t) > 0) {
			return false
		}
	}
	return true
}

// holdsNames says whether the answer about names has to wait, and notes that it does. One who has none gets them at once: the
// pod begins, and its Envoy needs names itself to begin with.
func (s *stream) holdsNames(w *watch) bool {
	h := s.holds
	begins := s.sent[resource.Name].view == nil && len(w.sub.ReturnedResources()) == 0
	if begins || s.overdue || (s.class.view.Class.Kind != translate.Sidecar && s.class.view.Class.Kind != translate.Ambient) || (s.settled() && !h.behind) {
		delete(h.waiting, s)
		s.overdue = false
		return false
	}
	if _, ok := h.waiting[s]; !ok {
		h.waiting[s] = time.Now()
	}
	return true
}

// takeBackNames tells of names that are gone, before anything else is told.
func (s *stream) takeBackNames() {
	w, has := s.watches[resource.Name], s.sent[resource.Name]
	if w == nil || w.sotw != nil || !w.sub.IsWildcard() || has.view == nil || s.class.has(has, resource.Name) {
		return
	}
	var gone []string
	for _, name := range s.class.difference(has, resource.Name).gone {
		if _, had := has.view.Get(resource.Name, name); had && !s.takenBack[name] {
			gone = append(gone, name)
		}
	}
	if len(gone) == 0 {
		return
	}
	resp := &deltaResponse{t: resource.Name, removed: gone, versions: w.nothingKnown()}
	if s.takenBack == nil {
		s.takenBack = map[string]bool{}
	}
	for _, name := range resp.removed {
		s.takenBack[name] = true
	}
	s.respond(resource.Name, w, resp)
}

// watchHolds sees to it that names do not wait for ever. The cache is held.
func (c *Cache) watchHolds() {
	if c.holds.timer == nil && len(c.holds.waiting) > 0 {
		c.holds.timer = time.AfterFunc(nameTime.get(), c.endHolds)
	}
}

// endHolds lets names go that have waited for long enough.
func (c *Cache) endHolds() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds.timer = nil
	now := time.Now()
	for st, since := range c.holds.waiting {
		if now.Sub(since) < nameTime.get() {
			continue
		}
		for exit := range c.holds.exits {
			c.holds.exits[exit] = c.holds.exits[exit] || !exit.settled()
		}
		st.overdue = true
		st.answer(resource.Name, true)
		delete(c.holds.waiting, st)
	}
	c.lookAtExits()
	c.watchHolds()
}

// heardFrom lets names go that waited for the stream's word.
func (c *Cache) heardFrom(st *stream) {
	if _, exit := c.holds.exits[st]; exit {
		c.lookAtExits()
	}
	if _, ok := c.holds.waiting[st]; ok {
		st.answer(resource.Name, true)
	}
	c.watchHolds()
}

// lookAtExits says who is behind of the default gateway's pods, and lets names go when nobody is.
func (c *Cache) lookAtExits() {
	was := c.holds.behind
	c.holds.behind = false
	for exit, silent := range c.holds.exits {
		if settled := exit.settled(); settled {
			c.holds.exits[exit] = false
		} else if !silent {
			c.holds.behind = true
		}
	}
	if was && !c.holds.behind {
		for st := range c.holds.waiting {
			st.answer(resource.Name, true)
		}
	}
}

// countExit notes whether the stream is one of the default gateway's pods.
func (c *Cache) countExit(st *stream) {
	class := st.class.view.Class
	if class.Kind != translate.Gateway || class.Gateway != registry.Ref(c.snapshot.Mesh.DefaultGateway) {
		delete(c.holds.exits, st)
		return
	}
	if _, ok := c.holds.exits[st]; !ok {
		c.holds.exits[st] = false
	}
}
