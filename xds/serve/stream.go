package serve

import (
	"maps"
	"slices"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	gcpstream "github.com/envoyproxy/go-control-plane/pkg/server/stream/v3"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

const typeCount = int(resource.Count)

// absent is the version under which a subscription remembers that it was told a name does not exist.
const absent = "-"

// stream is one connected proxy.
type stream struct {
	node    *core.Node // the pointer identifies the stream to the cache
	proxy   translate.Node
	ends    string // what its agent says of whether open connections can be ended there (wire.EndsConnectionsMetadata)
	class   *class
	policed *class            // of resource.Extension
	pods    *class            // of resource.Pod and Probe
	watches [typeCount]*watch // what it asks and was not answered yet
	asks    [typeCount]*watch // of a delta stream: what it asked last, answered or not
	sent    [typeCount]position
	at      [typeCount]uint64 // pushes when sent was set
	byName  [typeCount]bool   // it takes what it names, not everything
	pushes  uint64
	lost    bool // it is so far behind that what it has was forgotten
	// owed are removals that wait until what refers to the resources was taken back.
	owed  [typeCount]map[string]bool
	fresh map[string]bool // route tables that were sent now, and whose virtual hosts have to follow
	// names and rows are who waits for whom before those are sent.
	names     *holds
	rows      *holds
	asksSoon  bool                          // it is not told yet of an authorizer that it is to ask: it does not have its cluster
	tableSoon bool                          // policies wait for an exit's table (tableFirst)
	asked     map[string]*resource.Resource // what says what is asked about, and goes with what its Envoy judges by
	change    *change                       // of both, that has begun
	absent    map[string]bool               // rows that it asked for by name and that are not there: they may come
	aliases   map[string]string             // rows that it asked for by something else than their names
	resting   map[string]time.Time          // whom it asked, by its cluster, and until when that stays
	rested    func(time.Time)               // sees to it that it goes then
	unknown   [typeCount][]string           // of a delta stream: what it asked for last that nobody had
	takenBack map[string]bool               // names that it was told are gone, since all of what is new was sent
	stats     streamStats

	deliver func(*deltaResponse) // has it sent, on a delta stream; it does not wait

	// What follows is of the stream's own goroutines, one at a time.
	done <-chan struct{} // closed when the connection ends
	out  *outgoing       // what goes by its side; nil on a delta stream
	turn func()          // ends the turn for a large answer; nil without one
	pace pace            // of what it asks for by name
}

func (s *stream) endTurn() {
	if s.turn != nil {
		s.turn()
		s.turn = nil
	}
}

// watch is a question that the stream left open: one answer may be given to it.
type watch struct {
	subscribes []string                // by this request
	said       map[string]string       // what the client says that it has, by name; with its first request
	delta      *gcpstream.Subscription // sub, of a delta stream
	sub        cache.Subscription
	waits      bool // it was looked at, and there was nothing to say

	sotw    *discovery.DiscoveryRequest
	sotwOut chan cache.Response
	refused string // the version that the request refuses: it says the one before it, which the client keeps
}

// asked gives the names that the request subscribes to. A client is sent them, also those that it was sent before:
// it may have dropped them meanwhile (see resource_names_subscribe in Envoy's discovery.proto). One that comes back says
// what it has, and that counts.
func (w *watch) asked() map[string]bool {
	names := map[string]bool{}
	if w.waits {
		return names // they were answered
	}
	for _, name := range w.subscribes {
		if _, has := w.said[name]; !has && name != "*" {
			names[name] = true
		}
	}
	return names
}

// nothingKnown is what a client that takes everything is remembered to have by name after an answer.
func (w *watch) nothingKnown() map[string]string {
	if known := w.sub.ReturnedResources(); len(known) == 0 {
		return known
	}
	return map[string]string{}
}

// breakLast are the types whose removals come after everything else: clusters and endpoints that routes and
// listeners may still name, and scopes that listeners may.
func breakLast(t resource.Type) bool {
	return t == resource.Cluster || t == resource.OnDemandCluster || t == resource.Endpoints || t == resource.Scope
}

// push answers every open watch that has something new, in an order in which nothing is missing in between:
// names that are gone, additions from clusters to routes and then names (holds), then removals of what nothing refers to
// any more.
func (s *stream) push() {
	s.pushes++
	s.takeBackNames()
	for _, t := range resource.Types() {
		s.answer(t, !breakLast(t))
	}
	s.endOldWays()
	s.forget()
}

// of is the class that a type is of.
func (s *stream) of(t resource.Type) *class {
	switch t {
	case resource.Extension:
		return s.policed
	case resource.Pod, resource.Probe:
		return s.pods
	default:
		return s.class
	}
}

func (s *stream) caughtUp(t resource.Type) { s.sent[t], s.at[t] = s.of(t).now(), s.pushes }

// answer responds to the open watch of a type, if there is something to say.
func (s *stream) answer(t resource.Type, removals bool) {
	w := s.watches[t]
	if w == nil {
		return
	}
	if w.sotw != nil {
		s.answerWhole(t, w)
		return
	}
	if named := !w.sub.IsWildcard(); named != s.byName[t] {
		s.byName[t] = named
		if !named {
			s.sent[t] = position{} // what it was sent was what it named
		} else if t == resource.VirtualHost {
			s.sent[t] = position{} // it holds less than it was sent
		}
	}
	first := s.sent[t].view == nil
	removals = removals && (!breakLast(t) || !s.mayAsk() && !s.needsOldWays())
	if w.waits && s.of(t).has(s.sent[t], t) && (t != resource.Extension || !s.asksSoon && !s.tableSoon) && (!removals || !s.leaves(t)) && !s.follows(t) && !s.stats.retries(t) {
		s.caughtUp(t)
		return
	}
	if t == resource.Name && s.holdsNames(w) || t == resource.VirtualHost && s.holdsRows() {
		return
	}
	resp := &deltaResponse{t: t}
	if w.sub.IsWildcard() {
		s.wildcard(t, w, resp, removals)
	} else {
		s.named(t, w, resp, removals)
	}
	s.caughtUp(t)
	if resp.empty() && !(first && w.sub.IsWildcard()) {
		w.waits = true
		return
	}
	s.respond(t, w, resp)
}

func (s *stream) respond(t resource.Type, w *watch, resp *deltaResponse) {
	s.watches[t] = nil
	s.stats.sent(t, resp.upserts(), len(resp.removed))
	w.delta.SetReturnedResources(resp.versions)
	s.deliver(resp)
}

// wildcard makes the next response to a client that takes everything.
func (s *stream) wildcard(t resource.Type, w *watch, resp *deltaResponse, removals bool) {
	resp.versions = w.nothingKnown()
	var d difference
	known, last, again := w.sub.ReturnedResources(), s.sent[t], s.stats.retry(t)
	switch {
	case last.view == nil && len(known) == 0:
		resp.payload = s.of(t).everything(t)
	case last.view == nil: // a client that comes back says what it has
		d = s.of(t).compare(s.tabled(s.of(t).unlike(known, t), t), t)
	case len(known) > 0 || len(w.asked()) > 0 || len(again) > 0 || s.follows(t): // asked for, or unsubscribed, by name: it is told again
		names := s.tabled(s.of(t).namesSince(last, t), t)
		maps.Copy(names, w.asked())
		maps.Copy(names, again)
		for name := range known {
			names[name] = true
		}
		d = s.of(t).compare(names, t)
	case !s.of(t).has(last, t):
		d = s.of(t).difference(last, t)
	}
	if d.payload != nil {
		resp.payload = d.payload
	}
	if t == resource.VirtualHost {
		s.fresh = nil
	}
	for _, name := range w.echoes(t) {
		s.owe(t, name)
	}
	for _, name := range d.there {
		delete(s.owed[t], name)
		delete(s.resting, name)
	}
	for _, name := range d.gone {
		if t != resource.Name || !s.takenBack[name] {
			s.owe(t, name)
		}
	}
	if t == resource.Name {
		s.takenBack = nil
	}
	if removals && s.leaves(t) {
		for _, name := range slices.Sorted(maps.Keys(s.owed[t])) {
			if !s.rests(name) {
				resp.removed = append(resp.removed, name)
				delete(s.owed[t], name)
			}
		}
	}
}

// patience is how many pushes a client may leave unanswered. What it has is remembered for it until then; one that
// is heard of later has to say it itself, on a new stream.
const patience = 1024

// forget drops what is kept for a client that is too far behind.
func (s *stream) forget() {
	for t := range s.sent {
		if s.watches[t] == nil && s.sent[t].view != nil && s.pushes-s.at[t] > patience {
			s.sent[t].view, s.lost = nil, true
			s.stats.forget(resource.Type(t))
		}
	}
}

func (s *stream) owe(t resource.Type, name string) {
	if s.owed[t] == nil {
		s.owed[t] = map[string]bool{}
	}
	s.owed[t][name] = true
	switch {
	case breakLast(t) && strings.HasPrefix(name, wire.Authorizers):
		s.rest(name, restTime.get())
	case s.staysAtFront(t, name), breakLast(t) && strings.HasPrefix(name, toFronts):
		s.rest(name, frontRest.get())
	}
}

// named makes the next response to a client that asked for some names.
func (s *stream) named(t resource.Type, w *watch, resp *deltaResponse, removals bool) {
	owed := s.owed[t]
	if removals {
		s.owed[t] = nil // what rests is owed again below
	}
	known, look := w.sub.ReturnedResources(), w.sub.SubscribedResources()
	asked, again := w.asked(), map[string]bool{}
	maps.Copy(asked, s.stats.retry(t))
	last := s.sent[t]
	if t == resource.VirtualHost {
		resp.versions = known
		look, again = s.rowsToLookAt(w, known, asked)
	} else if last.view != nil && t == resource.Endpoints { // it has what it was sent, but for what has changed since: only that is looked at
		again = s.of(t).namesSince(last, t) // also those of clusters that are warmed anew
		resp.versions, look = known, subscribed(w, again, asked, owed)
	} else {
		resp.versions = make(map[string]string, len(look))
	}
	now := serves
	if t == resource.Extension {
		now, s.tableSoon = s.next(known), false
	}
	var list []*resource.Resource
	for name := range look {
		r, ok := s.find(t, name)
		waits := false
		if ok && known[name] != "" {
			if given := now(r); given != nil {
				r = given
			} else {
				waits = known[name] != r.Version
			}
		}
		version := absent
		if ok {
			version = r.Version
		}
		if had := known[name]; !ok && had != "" && had != absent && (!removals || t == resource.Endpoints && s.rests(name)) {
			s.owe(t, name) // it goes when nothing refers to it any more
			resp.versions[name] = had
			continue
		}
		if waits || t == resource.Extension && known[name] != "" && known[name] != version && (s.leadsTooFar(name, known) || s.endsLater(name, known) || s.tableFirst(name)) {
			resp.versions[name] = known[name]
			continue
		}
		if known[name] != version || asked[name] || (ok && again[name]) {
			if ok {
				list = append(list, r)
				if had := known[name]; t == resource.Route && (had == "" || had == absent || asked[name]) {
					s.tableSent(name)
				}
			} else {
				resp.removed = append(resp.removed, name)
			}
		}
		resp.versions[name] = version
		if t == resource.VirtualHost {
			s.noteFound(name, r)
		}
	}
	slices.Sort(resp.removed)
	if len(list) > 0 {
		slices.SortFunc(list, func(a, b *resource.Resource) int { return strings.Compare(a.Name, b.Name) })
		resp.payload = s.of(t).pack(slices.Compact(list)) // a row may be asked for by several of its domains
	}
}

// endsLater says whether policies wait for what ends requests with their rules: a request that a new rule lets through has to be one that can be ended, in each of Envoy's threads,
// which take one answer after the other.
func (s *stream) endsLater(policies string, known map[string]string) bool {
	return translate.IsPolicies(policies) && s.differs(known, translate.EndsRequests)
}

// tableFirst says whether an exit's policies wait for its table, which turns on what keeps them, and what ends requests with their rules (envoy.EnableEnforcement). Envoy is sent extensions before tables, so
// a request that the mesh's first rule that ends let through could be one that nothing ends. Who refuses the table has policies all the same.
func (s *stream) tableFirst(extension string) bool {
	if s.policed.police.Kind != translate.Gateway || !translate.IsExitPolicies(extension) || s.sent[resource.Route].view == nil || s.stats.refuses(resource.Route) {
		return false
	}
	table, there := s.class.view.Get(resource.Route, wire.ExitRoute)
	if later := there && !s.took(resource.Route, table); later {
		s.tableSoon = true
		return true
	}
	return false
}

// subscribed are those of the names that a subscription has.
func subscribed(w *watch, names ...map[string]bool) map[string]struct{} {
	all, out := w.sub.SubscribedResources(), map[string]struct{}{}
	for _, some := range names {
		for name := range some {
			if _, has := all[name]; has {
				out[name] = struct{}{}
			}
		}
	}
	return out
}

// leadsTooFar says whether a new index of policies leads to what Envoy does not have yet, and is about to ask for: until then the
// last one counts, and what was allowed before a namespace's first policy stays so, instead of being refused for want of it. One
// who refuses the listener that asks for it will not ask, and gets the index, which closes.
func (s *stream) leadsTooFar(index string, known map[string]string) bool {
	prefix := translate.IndexedPrefix(index)
	if prefix == "" || s.policed.police.Kind != translate.Gateway || s.stats.refuses(resource.Listener) {
		return false
	}
	far := false
	s.policed.view.WalkPrefix(resource.Extension, prefix, func(r *resource.Resource) bool {
		far = known[r.Name] == "" || known[r.Name] == absent
		return !far
	})
	return far
}
