package serve

import (
	"slices"
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
	if s.class.view.Class.Kind != translate.Ambient || h.overdue[s] || !s.lacksTurned() && (!s.hasNewPods() || !h.behind && !s.lacksWays()) {
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

// lacksTurned says whether Envoy has not taken all clusters of hosts that go by another waypoint now, or by none any more: their rows name them.
func (s *stream) lacksTurned() bool {
	last := s.sent[resource.VirtualHost]
	if len(s.class.turned) == 0 || last.view == nil || s.sent[resource.Cluster].view == nil || s.stats.refuses(resource.Cluster) || s.stats.refuses(resource.Endpoints) {
		return false
	}
	for name, since := range s.class.turned {
		if last.class == s.class.id && last.step >= since {
			continue
		}
		if cluster, there := s.class.view.Get(resource.Cluster, name); there && s.lacksCluster(cluster) {
			return true
		}
	}
	return false
}

// lacksCluster says whether Envoy has not taken a cluster with its endpoints.
func (s *stream) lacksCluster(cluster *resource.Resource) bool {
	return !s.took(resource.Cluster, cluster) || slices.ContainsFunc(s.class.view.EndpointsOf(cluster.Name), func(load *resource.Resource) bool { return !s.took(resource.Endpoints, load) })
}

// needsOldWays says whether rows wait that name other clusters than those that Envoy has.
func (s *stream) needsOldWays() bool {
	_, waits := s.rows.waiting[s]
	return waits
}

// staysAtFront says whether a resource is a pod's row at a waypoint.
func (s *stream) staysAtFront(t resource.Type, name string) bool {
	return t == resource.VirtualHost && s.class.view.Class.Kind == translate.Waypoint && strings.HasPrefix(name, wire.InboundPods+"/")
}
