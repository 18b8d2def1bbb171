package serve

import (
	"strings"
	"time"

	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// A node sends what is for a pod's own address to its waypoint, which knows the pod. Both are told of it at the same time, by streams of their own, and whoever is asked by the
// node before it knows the pod refuses what no pod has seen. So a row by which a node goes to a waypoint waits for the waypoints that are connected here, as names do for
// gateways; and a pod's row at a waypoint stays for a while after it is gone, for nodes that have not heard.
//
// Waypoints are anybody's. One that says nothing holds up rows of nodes for frontTime, when a pod comes behind a waypoint, and not again until it speaks.

// frontTime is how long rows wait for a waypoint that says nothing, and frontRest how long a pod's row stays at one. Tests change them.
var (
	frontTime = newLimit(2 * time.Second)
	frontRest = newLimit(5 * time.Second)
)

// holdsRows says whether the answer about rows has to wait, and notes that it does.
func (s *stream) holdsRows() bool {
	h := s.rows
	if s.class.view.Class.Kind != translate.Ambient || !h.behind || h.overdue[s] || !s.hasNewPods() {
		h.goes(s)
		return false
	}
	h.waits(s)
	return true
}

// hasNewPods says whether there are rows of pods that a node was not told of. One who has none yet gets all at once: it begins.
func (s *stream) hasNewPods() bool {
	last := s.sent[resource.VirtualHost]
	if last.view == nil {
		return false
	}
	for name := range s.class.namesSince(last, resource.VirtualHost) {
		if !strings.HasPrefix(name, wire.PodsTable+"/") {
			continue
		}
		if _, there := s.class.view.Get(resource.VirtualHost, name); there {
			return true
		}
	}
	return false
}

// stays says whether something that leaves a waypoint stays in its view for now: a Service, or a pod, with all that its chains, its tables and the way to it are made of. Nodes that have not
// heard send on what is for it.
func (c *class) stays(host string, goes bool) bool {
	until, leaves := c.leaving[host]
	switch {
	case !goes:
		delete(c.leaving, host)
		return false
	case leaves:
		return time.Now().Before(until)
	}
	if c.leaving == nil {
		c.leaving = map[string]time.Time{}
	}
	c.leaving[host] = time.Now().Add(frontRest.get())
	return true
}

// due are the hosts that have stayed for long enough, and when the next one will have.
func (c *class) due() (hosts []string, next time.Time) {
	now := time.Now()
	for host, until := range c.leaving {
		switch {
		case !now.Before(until):
			hosts = append(hosts, host)
		case next.IsZero() || until.Before(next):
			next = until
		}
	}
	return hosts, next
}

// nextLeaving is when something has stayed for long enough; zero where nothing leaves. The cache is held.
func (c *Cache) nextLeaving() (next time.Time) {
	for _, cl := range c.classes {
		for _, until := range cl.leaving {
			if next.IsZero() || until.Before(next) {
				next = until
			}
		}
	}
	return next
}

// endLeaving takes out of waypoints' views what has stayed there for long enough, and says when there will be more. The cache is held.
func (c *Cache) endLeaving() (next time.Time) {
	for _, cl := range c.classes {
		hosts, more := cl.due()
		if !more.IsZero() && (next.IsZero() || more.Before(next)) {
			next = more
		}
		if len(hosts) == 0 {
			continue
		}
		cl.advance(c.translator, c.snapshot, translate.Leave(hosts), nil)
		for _, host := range hosts {
			delete(cl.leaving, host)
		}
		for _, st := range c.streams {
			if st.class == cl {
				st.push()
			}
		}
	}
	return next
}

// staysAtFront says whether a resource is a pod's row at a waypoint.
func (s *stream) staysAtFront(t resource.Type, name string) bool {
	return t == resource.VirtualHost && s.class.view.Class.Kind == translate.Waypoint && strings.HasPrefix(name, wire.InboundPods+"/")
}
