package serve

import (
	"maps"
	"slices"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// Enforcement is how far the connected proxies are with an EgressPolicy.
type Enforcement struct {
	Revision string `json:"revision"` // the one that is served; "" where none is
	// Selected are the proxies that it is for: gateways, the sidecars of the workloads that it selects, the proxies of nodes that have pods
	// of its namespaces, and waypoints before hosts outside about which it may decide. Current are those of them that have said that they have it.
	Selected int    `json:"selected"`
	Current  int    `json:"current"`
	Behind   string `json:"behind,omitempty"` // the first that has not, by its id
	// Refuses is the first that says that it does not take it, and Refusal what it says; "" where that may be about what others wrote.
	Refuses string `json:"refuses,omitempty"`
	Refusal string `json:"refusal,omitempty"`
	// Endless are those of them that say that nobody may end connections there that are open and whose bytes nobody reads, and EndlessAt the first of these.
	Endless   int    `json:"endless,omitempty"`
	EndlessAt string `json:"endlessAt,omitempty"`
}

// Enforcing says how far proxies are with each of these policies. Its cost is that of the proxies, and of the policies that each of them keeps.
func (c *Cache) Enforcing(policies []config.Key) map[config.Key]Enforcement {
	c.mu.Lock()
	defer c.mu.Unlock()
	chosen := translate.SelectPolicies(c.snapshot, policies)
	out := make(map[config.Key]Enforcement, len(policies))
	for _, key := range policies {
		e := Enforcement{}
		if p := chosen[key.Namespace][key.Name]; p != nil {
			e.Revision = p.Revision
		}
		out[key] = e
	}
	kept := map[*class][]*egresspolicy.Policy{}
	for _, st := range c.streams {
		if st.class.view.Class.Kind != st.policed.police.Kind {
			continue // an ingress gateway's pods let nothing out
		}
		list, known := kept[st.policed]
		if !known {
			list = st.policed.police.Kept(c.snapshot, st.policed.view, chosen)
			kept[st.policed] = list
		}
		if len(list) == 0 {
			continue
		}
		lags, root := map[string]lag{}, c.snapshot.Mesh.RootNamespace // by the namespace of policies
		for _, p := range list {
			ns := p.Key.Namespace
			l, known := lags[ns]
			if !known {
				l = st.lagWith(ns, root)
				lags[ns] = l
			}
			out[p.Key] = out[p.Key].with(st.node.GetId(), l, st.endsBy(c.snapshot.Mesh.TraceProxies) == wire.EndsNone)
		}
	}
	return out
}

// endsBy is what its agent says of whether connections that are open can be ended there, as the mesh's settings let it: one that would have to trace its Envoy may not where these
// forbid it.
func (s *stream) endsBy(traceProxies bool) string {
	switch {
	case s.ends != wire.EndsTraced:
		return s.ends
	case traceProxies:
		return wire.EndsAll
	}
	return wire.EndsNone
}

// with counts a proxy more.
func (e Enforcement) with(id string, l lag, endless bool) Enforcement {
	e.Selected++
	if endless {
		if e.Endless++; e.EndlessAt == "" || id < e.EndlessAt {
			e.EndlessAt = id
		}
	}
	switch {
	case !l.behind:
		e.Current++
	case e.Behind == "" || id < e.Behind:
		e.Behind = id
	}
	if l.refuses && (e.Refuses == "" || id < e.Refuses) {
		e.Refuses, e.Refusal = id, l.refusal
	}
	return e
}

// Add counts those of another replica, too.
func (e Enforcement) Add(o Enforcement) Enforcement {
	e.Selected += o.Selected
	e.Current += o.Current
	e.Endless += o.Endless
	if e.EndlessAt == "" || o.EndlessAt != "" && o.EndlessAt < e.EndlessAt {
		e.EndlessAt = o.EndlessAt
	}
	if e.Behind == "" || o.Behind != "" && o.Behind < e.Behind {
		e.Behind = o.Behind
	}
	if e.Refuses == "" || o.Refuses != "" && o.Refuses < e.Refuses {
		e.Refuses, e.Refusal = o.Refuses, o.Refusal
	}
	return e
}

// Gateways are the addresses of the gateways' pods that are connected, in order.
func (c *Cache) Gateways() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.streams {
		if st.proxy.IsRouter() {
			out = append(out, addressOf(st.node.GetId()))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// lag says whether an Envoy has not said yet that it has what it is to have of a policy.
type lag struct {
	behind, refuses bool
	refusal         string // its words, where they are about the policies of the same namespace alone
}

// lagWith says how far the stream's Envoy is with the policies of a namespace: with what they say, what leads there, and what asks for it.
func (s *stream) lagWith(namespace, root string) lag {
	for _, t := range []resource.Type{resource.Listener, resource.Route} {
		asked := s.watches[t] != nil || s.sent[t].view != nil
		if !asked {
			continue
		}
		if l := s.stats.refusal(t, func(string) bool { return true }); l.refuses {
			if namespace != root {
				l.refusal = "" // it may be about what anybody wrote
			}
			return l
		}
		if s.watches[t] == nil || !s.of(t).has(s.sent[t], t) || s.stats.unheard(t) > 0 {
			return lag{behind: true}
		}
	}
	holds := func(name string) bool { return translate.IsPolicyLevel(name, namespace, root) }
	if l := s.stats.refusal(resource.Extension, holds); l.refuses {
		return l
	}
	w := s.watches[resource.Extension]
	if w == nil || !s.of(resource.Extension).has(s.sent[resource.Extension], resource.Extension) || s.stats.unheard(resource.Extension) > 0 {
		return lag{behind: true} // it keeps none, or has not spoken about what it was sent
	}
	if w.sotw != nil {
		return lag{}
	}
	known, has := w.sub.ReturnedResources(), true
	s.policed.view.Walk(resource.Extension, func(r *resource.Resource) bool { // an index may wait for what it leads to
		has = known[r.Name] == r.Version || !holds(r.Name)
		return has
	})
	return lag{behind: !has}
}

// refusal says whether the client does not have some resources of a type as they were sent to it, and why. The words are left out where
// they are about others, too.
func (s *streamStats) refusal(t resource.Type, some func(name string) bool) lag {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := s.types[t].refused
	for _, name := range slices.Sorted(maps.Keys(refused)) {
		if name != "" && !some(name) {
			continue
		}
		l := lag{behind: true, refuses: true, refusal: refused[name]}
		for other, why := range refused {
			if !some(other) && why == l.refusal {
				l.refusal = ""
			}
		}
		return l
	}
	return lag{}
}
