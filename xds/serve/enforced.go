package serve

import (
	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// Enforcement is how far the connected proxies are with an EgressPolicy.
type Enforcement struct {
	Revision string // the one that is served; "" where none is
	// Selected are the proxies that it is for: gateways, and the sidecars of the workloads that it selects. Current are those of them
	// that have said that they have it.
	Selected, Current int
	Behind            string // the first that has not, by its id
}

// Enforcing says how far proxies are with each of these policies.
func (c *Cache) Enforcing(policies []config.Key) map[config.Key]Enforcement {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[config.Key]Enforcement, len(policies))
	for _, key := range policies {
		e := Enforcement{}
		for _, p := range c.snapshot.Policies(key.Namespace) {
			if p.Key == key {
				e.Revision = p.Revision
			}
		}
		out[key] = e
	}
	for _, st := range c.streams {
		current := st.keepsPolicies()
		for key, e := range out {
			if st.class.view.Class.Kind != st.policed.police.Kind || !st.policed.police.Keeps(key, c.snapshot.Mesh.RootNamespace) {
				continue // an ingress gateway's pods let nothing out
			}
			e.Selected++
			switch id := st.node.GetId(); {
			case current:
				e.Current++
			case e.Behind == "" || id < e.Behind:
				e.Behind = id
			}
			out[key] = e
		}
	}
	return out
}

// keepsPolicies says whether the stream's Envoy has said that it has all that it is to have of policies: what they say, what leads
// there, and what asks for it.
func (s *stream) keepsPolicies() bool {
	for _, t := range []resource.Type{resource.Extension, resource.Listener, resource.Route} {
		asked := s.watches[t] != nil || s.sent[t].view != nil
		if asked && (s.watches[t] == nil || !s.of(t).has(s.sent[t], t) || s.stats.unheard(t) > 0 || s.stats.refuses(t)) {
			return false
		}
	}
	w := s.watches[resource.Extension]
	if w == nil {
		return false // it keeps none
	}
	if w.sotw != nil {
		return true
	}
	known, has := w.sub.ReturnedResources(), true
	s.policed.view.Walk(resource.Extension, func(r *resource.Resource) bool { // an index may wait for what it leads to
		has = known[r.Name] == r.Version || translate.IsInboundAuthorization(r.Name)
		return has
	})
	return has
}
