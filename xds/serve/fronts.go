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
