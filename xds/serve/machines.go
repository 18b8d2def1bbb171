package serve

import (
	"maps"
	"slices"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/machine"
	"github.com/sallyport/sallyport/xds/health"
	"github.com/sallyport/sallyport/xds/translate"
)

// Machines follows the proxies of machines that were let in.
type Machines interface {
	Came(machine.Proxy)
	// Labels are those that its group gives it now; not ok where it gives none any more. It is called while the cache is held, and must not wait.
	Labels(machine.Proxy) (labels map[string]string, ok bool)
	Went(machine.Proxy)
	// Healthy is told what the machine's agent says of it: why it is not well, or "".
	Healthy(p machine.Proxy, problem string)
}

// Follow has machines followed. Call it before the server is registered.
func (s *Server) Follow(m Machines) {
	s.machines = m
	s.cache.mu.Lock()
	defer s.cache.mu.Unlock()
	s.cache.labels = m.Labels
}

// healthTold takes such a request, and says whether it was one.
func (s *Server) healthTold(st *stream, url string, detail *rpcstatus.Status) bool {
	if url != health.Type {
		return false
	}
	if m := st.proxy.Machine; m != nil && s.machines != nil {
		s.machines.Healthy(*m, problem(detail))
	}
	return true
}

func (s *Server) machineCame(st *stream) {
	if m := st.proxy.Machine; m != nil && s.machines != nil {
		s.machines.Came(*m)
	}
}

// GroupsChanged tells that groups were written, or are gone: their machines have other labels, maybe, and their agents another probe.
func (c *Cache) GroupsChanged(groups []config.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	groups = slices.DeleteFunc(groups, func(g config.Key) bool { return c.pods[g.String()] == nil }) // nobody is there
	if len(groups) == 0 {
		return
	}
	c.relabelMachines(groups)
	c.probesChanged(groups)
}

// relabelMachines gives machines the labels that their groups give them by now: what is asked is the state, so whatever was told meanwhile
// of a machine that is just coming, none keeps old ones. c.mu is held.
func (c *Cache) relabelMachines(groups []config.Key) {
	if c.labels == nil {
		return
	}
	for _, st := range c.streams {
		m := st.proxy.Machine
		if m == nil || !slices.Contains(groups, m.GroupKey()) {
			continue
		}
		if labels, ok := c.labels(*m); ok && !maps.Equal(labels, st.proxy.Labels) {
			c.relabel(st, labels)
		}
	}
}

func (s *Server) machineWent(st *stream) {
	if m := st.proxy.Machine; m != nil && s.machines != nil {
		s.machines.Went(*m)
	}
}

// FollowProbes says who knows the probe of a group, nil for none. Call it before the cache is used; it is called while the cache is held, and must
// not wait.
func (c *Cache) FollowProbes(of func(group config.Key) []byte) { c.probe = of }

// probesChanged tells the agents of machines whose groups have other probes. c.mu is held.
func (c *Cache) probesChanged(groups []config.Key) {
	if c.probe == nil {
		return
	}
	for _, group := range groups {
		cl := c.pods[group.String()]
		now := c.probe(group)
		view, refs := translate.UpdateProbe(cl.view, cl.probe, now)
		if cl.view, cl.probe = view, now; len(refs) == 0 {
			continue
		}
		cl.note(refs)
		for _, st := range c.streams {
			if st.pods == cl {
				st.push()
				c.heardFrom(st)
			}
		}
	}
}

// about is what an agent itself is told about: the pods of its node, or the probe of its machine's group; "" for nothing.
func (s *stream) about() string {
	if m := s.proxy.Machine; m != nil {
		return m.GroupKey().String()
	}
	if s.proxy.IsAmbient() && s.proxy.On != "" {
		return s.proxy.On + ageOf(s.proxy)
	}
	return s.proxy.On
}

// tells makes the class of those who are told about the same.
func (c *Cache) tells(st *stream) *class {
	c.made++
	if m := st.proxy.Machine; m != nil {
		cl := &class{id: c.made}
		if c.probe != nil {
			cl.probe = c.probe(m.GroupKey())
		}
		cl.view = translate.BuildProbe(cl.probe)
		return cl
	}
	cl := &class{id: c.made, pods: c.podsOn(st.about())}
	cl.view = translate.BuildPods(cl.pods)
	return cl
}
