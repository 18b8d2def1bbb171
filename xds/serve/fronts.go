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

// staysAtFront says whether a resource is a pod's row at a waypoint.
func (s *stream) staysAtFront(t resource.Type, name string) bool {
	return t == resource.VirtualHost && s.class.view.Class.Kind == translate.Waypoint && strings.HasPrefix(name, wire.InboundPods+"/")
}
