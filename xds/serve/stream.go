package serve

import (
	"slices"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"

	"github.com/sallyport/sallyport/xds/translate"
)

const typeCount = int(translate.Name) + 1

// absent is the version under which a subscription remembers that it was told a name does not exist.
const absent = "-"

// stream is one connected proxy.
type stream struct {
	id      int64
	node    *core.Node // the pointer identifies the stream to the cache
	proxy   translate.Node
	class   *class
	watches [typeCount]*watch
	sent    [typeCount]*mark
	// owed are removals that wait until what refers to the resources was taken back.
	owed  [typeCount]map[string]bool
	stats streamStats
}

// watch is a question that the stream left open: one answer may be given to it.
type watch struct {
	request *discovery.DeltaDiscoveryRequest
	sub     cache.Subscription
	out     chan cache.DeltaResponse

	sotw    *discovery.DiscoveryRequest
	sotwOut chan cache.Response
}

// breakLast are the types whose removals come after everything else: clusters and endpoints that routes and
// listeners may still name.
func breakLast(t translate.Type) bool {
	return t == translate.Cluster || t == translate.OnDemandCluster || t == translate.Endpoints
}

// push answers every open watch that has something new, in an order in which nothing is missing in between:
// additions from clusters to routes, then removals of what nothing refers to any more.
func (s *stream) push() {
	for _, t := range translate.Types() {
		s.answer(t, !breakLast(t))
	}
	for _, t := range translate.Types() {
		if breakLast(t) {
			s.answer(t, true)
		}
	}
}

// answer responds to the open watch of a type, if there is something to say.
func (s *stream) answer(t translate.Type, removals bool) {
	w := s.watches[t]
	if w == nil {
		return
	}
	if w.sotw != nil {
		s.answerWhole(t, w)
		return
	}
	var resp *deltaResponse
	if w.sub.IsWildcard() {
		resp = s.wildcard(t, w, removals)
	} else {
		resp = s.named(t, w)
	}
	if resp == nil {
		return
	}
	s.watches[t] = nil
	s.stats.sent(t, len(resp.resources), len(resp.removed))
	w.out <- resp // has room for two answers a type
}

// wildcard makes the next response to a client that takes everything; nil when it has it.
func (s *stream) wildcard(t translate.Type, w *watch, removals bool) *deltaResponse {
	resp := &deltaResponse{request: w.request, versions: map[string]string{}}
	known := w.sub.ReturnedResources()
	last := s.sent[t]
	first := last == nil
	if first {
		s.firstAnswer(t, known, resp)
	} else {
		names := s.class.since(last, t)
		for name := range known { // unsubscribed by name: it is told again
			names[name] = true
		}
		for name := range names {
			if r, ok := s.class.view.Get(t, name); ok {
				resp.resources = append(resp.resources, r)
				delete(s.owed[t], name)
			} else {
				s.owe(t, name)
			}
		}
	}
	s.sent[t] = &mark{class: s.class, view: s.class.view, step: s.class.step}
	if removals {
		for name := range s.owed[t] {
			resp.removed = append(resp.removed, name)
		}
		s.owed[t] = nil
	}
	if !first && len(resp.resources) == 0 && len(resp.removed) == 0 {
		return nil
	}
	return resp.sorted()
}

// firstAnswer compares with what a reconnecting client says it has.
func (s *stream) firstAnswer(t translate.Type, known map[string]string, resp *deltaResponse) {
	s.class.view.Walk(t, func(r *translate.Resource) bool {
		if known[r.Name] != r.Version {
			resp.resources = append(resp.resources, r)
		}
		return true
	})
	for name := range known {
		if _, ok := s.class.view.Get(t, name); !ok {
			s.owe(t, name)
		}
	}
}

func (s *stream) owe(t translate.Type, name string) {
	if s.owed[t] == nil {
		s.owed[t] = map[string]bool{}
	}
	s.owed[t][name] = true
}

// named makes the next response to a client that asked for some names; nil when it has them.
func (s *stream) named(t translate.Type, w *watch) *deltaResponse {
	resp := &deltaResponse{request: w.request, versions: map[string]string{}}
	known := w.sub.ReturnedResources()
	again := map[string]bool{}
	if last := s.sent[t]; last != nil && t == translate.Endpoints {
		again = s.class.since(last, t) // also those of clusters that are warmed anew
	}
	for name := range w.sub.SubscribedResources() {
		r, ok := s.class.view.Get(t, name)
		version := absent
		if ok {
			version = r.Version
		}
		if known[name] != version || (ok && again[name]) {
			if ok {
				resp.resources = append(resp.resources, r)
			} else {
				resp.removed = append(resp.removed, name)
			}
		}
		resp.versions[name] = version
	}
	s.sent[t] = &mark{class: s.class, view: s.class.view, step: s.class.step}
	if len(resp.resources) == 0 && len(resp.removed) == 0 {
		return nil
	}
	return resp.sorted()
}

func (r *deltaResponse) sorted() *deltaResponse {
	slices.SortFunc(r.resources, func(a, b *translate.Resource) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	slices.Sort(r.removed)
	return r
}
