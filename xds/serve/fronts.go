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
// The way there, a cluster at the node, is another resource than the row: the row waits until the node's Envoy has taken it with its endpoints, since Envoy answers 503 where a
// cluster is not there yet; and it stays for a while after the last row is gone, for what has asked the row before and is to go there now.
//
// Waypoints are anybody's. One that says nothing holds up rows of nodes for frontTime, when a pod comes behind a waypoint, and not again until it speaks.

// frontTime is how long rows wait for a waypoint, or an Envoy, that says nothing, and frontRest how long a pod's row stays at a waypoint, and the way there at a node. Tests change them.
var (
	frontTime = newLimit(2 * time.Second)
	frontRest = newLimit(5 * time.Second)
)

// holdsRows says whether the answer about rows has to wait, and notes that it does.
func (s *stream) holdsRows() bool {
	h := s.rows
	if s.class.view.Class.Kind != translate.Ambient || h.overdue[s] || !s.hasNewPods() || !h.behind && !s.lacksWays() {
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

// toFronts begins the names of ways to waypoints before pods.
var toFronts = wire.PodsWaypoint("")

// lacksWays says whether Envoy has not taken all ways to waypoints. Who asks for rows alone has none.
func (s *stream) lacksWays() bool {
	asked := s.watches[resource.Cluster] != nil || s.sent[resource.Cluster].view != nil
	return asked && s.lacks(toFronts)
}

// staysAtFront says whether a resource is a pod's row at a waypoint.
func (s *stream) staysAtFront(t resource.Type, name string) bool {
	return t == resource.VirtualHost && s.class.view.Class.Kind == translate.Waypoint && strings.HasPrefix(name, wire.InboundPods+"/")
}
