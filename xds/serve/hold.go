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
//   - the stream's Envoy has said something about all that it was sent: its agent passes on Envoy's own word. About rows that went before a name the agent
//     waits for that word itself, where it says so: then both are sent at once, and acknowledged at once;
//   - so have those pods of the mesh's default gateway that are connected here. (Other gateways may be anybody's, who
//     must not hold up names of others; and those connected to another replica are not seen.)
//
// A refusal is a word, too: a name whose row was refused is answered, and leads nowhere, since the other way it would lead
// past the gateway. Who says nothing is not waited for longer than nameTime; a gateway's pod not again until it speaks.
//
// Names that are gone are the first to go, before their rows.
//
// So do rows of nodes by which something goes to a waypoint (fronts.go).
type holds struct {
	of      resource.Type         // what waits
	patient *limit                // how long for somebody who says nothing
	waiting map[*stream]time.Time // whose answers wait, and since when
	overdue map[*stream]bool      // who has waited for long enough
	exits   map[*stream]bool      // whose word is waited for; true: not this one's, since it said nothing
	behind  bool                  // some of them have not said that they have everything
	caught  chan struct{}         // closed when none of them is behind any more; nil where nobody is told
	timer   *time.Timer           // nil when nobody waits
}

// nameTime is how long names wait for somebody who says nothing. Tests change it.
var nameTime = newLimit(10 * time.Second)

func newHolds(of resource.Type, patient *limit) *holds {
	return &holds{of: of, patient: patient, waiting: map[*stream]time.Time{}, overdue: map[*stream]bool{}, exits: map[*stream]bool{}}
}

// goes notes that a stream's answer waits no longer.
func (h *holds) goes(s *stream) {
	delete(h.waiting, s)
	delete(h.overdue, s)
}

// waits notes that it does.
func (h *holds) waits(s *stream) {
	if _, ok := h.waiting[s]; !ok {
		h.waiting[s] = time.Now()
	}
}

// goesOn looks again at an answer that waits, and, where that goes, at what waits for it.
func (h *holds) goesOn(s *stream) {
	s.answer(h.of, true)
	if _, waits := h.waiting[s]; !waits {
		s.endOldWays()
	}
}

// leaves forgets a stream.
func (h *holds) leaves(s *stream) {
	h.goes(s)
	delete(h.exits, s)
	h.look()
}

// counts notes whether a stream's word is waited for.
func (h *holds) counts(s *stream, is bool) {
	if _, ok := h.exits[s]; !is {
		delete(h.exits, s)
	} else if !ok {
		h.exits[s] = false
	}
}

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
func (s *stream) settled() bool { return s.settledBut(resource.Count) }

// settledBut is settled, without looking at one type.
func (s *stream) settledBut(other resource.Type) bool {
	for _, t := range resource.Types() {
		asked := s.watches[t] != nil || s.sent[t].view != nil
		if forEnvoy(t) && t != other && asked && (s.watches[t] == nil || s.stats.unheard(t) > 0) {
			return false
		}
	}
	return true
}

// agentWaits says whether all that names have to wait for is Envoy's word about rows that were sent before them, for which the agent waits itself. It does not
// for what Envoy asks for because of something else, as for the table of a new listener.
func (s *stream) agentWaits() bool {
	const rows = resource.VirtualHost
	return s.proxy.NamesWait && s.class.has(s.sent[rows], rows) && s.settledBut(rows)
}

// holdsNames says whether the answer about names has to wait, and notes that it does. One who has none gets them at once: the
// pod begins, and its Envoy needs names itself to begin with.
func (s *stream) holdsNames(w *watch) bool {
	h := s.names
	begins := s.sent[resource.Name].view == nil && len(w.sub.ReturnedResources()) == 0
	if begins || h.overdue[s] || (s.class.view.Class.Kind != translate.Sidecar && s.class.view.Class.Kind != translate.Ambient) || !h.behind && (s.settled() || s.agentWaits()) {
		h.goes(s)
		return false
	}
	h.waits(s)
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

// watchHolds sees to it that nothing waits for ever. The cache is held.
func (c *Cache) watchHolds() {
	for _, h := range [...]*holds{c.names, c.rows} {
		if h.timer == nil && len(h.waiting) > 0 {
			h.timer = time.AfterFunc(h.patient.get(), func() { c.endHolds(h) })
		}
	}
}

// endHolds lets go what has waited for long enough.
func (c *Cache) endHolds(h *holds) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h.timer = nil
	now := time.Now()
	for st, since := range h.waiting {
		if now.Sub(since) < h.patient.get() {
			continue
		}
		for exit := range h.exits {
			h.exits[exit] = h.exits[exit] || !exit.settled()
		}
		h.overdue[st] = true
		h.goesOn(st)
		delete(h.waiting, st)
	}
	h.look()
	c.watchHolds()
}

// heardFrom lets go what waited for the stream's word.
func (c *Cache) heardFrom(st *stream) {
	for _, h := range [...]*holds{c.names, c.rows} {
		if _, exit := h.exits[st]; exit {
			h.look()
		}
		if _, ok := h.waiting[st]; ok {
			h.goesOn(st)
		}
	}
	c.letCome()
	c.watchHolds()
}

// look says who is behind of those who are waited for, and lets go what waits when nobody is.
func (h *holds) look() {
	was := h.behind
	h.behind = false
	for exit, silent := range h.exits {
		if settled := exit.settled(); settled {
			h.exits[exit] = false
		} else if !silent {
			h.behind = true
		}
	}
	if was && !h.behind {
		if h.caught != nil {
			close(h.caught)
			h.caught = nil
		}
		for st := range h.waiting {
			h.goesOn(st)
		}
	}
}

// exitMoment is how long those who are to hear of new names wait for gateways that have not said that they have what these lead to: a gateway that is well says it
// in a few milliseconds, and then rows and names go together. After it rows go alone. Tests change it.
var exitMoment = newLimit(50 * time.Millisecond)

// awaitExits gives gateways that moment. The cache is held, but for that.
func (c *Cache) awaitExits() {
	if !c.names.behind {
		return
	}
	caught := make(chan struct{})
	c.names.caught = caught
	c.mu.Unlock()
	timer := time.NewTimer(exitMoment.get())
	select {
	case <-caught:
	case <-timer.C:
	}
	timer.Stop()
	c.mu.Lock()
	c.names.caught = nil
}

// countExit notes whether the stream is one of the default gateway's pods, or a waypoint.
func (c *Cache) countExit(st *stream) {
	class := st.class.view.Class
	c.names.counts(st, class.Kind == translate.Gateway && class.Gateway == registry.Ref(c.snapshot.Mesh.DefaultGateway))
	c.rows.counts(st, class.Kind == translate.Waypoint)
}
