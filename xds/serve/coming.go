package serve

import (
	"maps"
	"slices"
	"time"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// A Service, or a host outside, that comes behind a waypoint is known to that, and to the nodes of its pods, before anybody goes there by it: until then nodes, and ingress gateways, have the host as
// it was before the change (translate.Keep). Who has a waypoint's chain, its table and its clusters has given its word about them; the nodes of pods have given theirs about what pods take.
//
// A waypoint that says nothing keeps them from it for frontTime, and not again until it speaks. Of those that are connected to another replica nothing is known here, and nobody waits.
//
// Either way, the rows of such a host at nodes follow its clusters (turn): rows past a waypoint name clusters that are not there before.

// coming is a host whose waypoint may not know it yet.
type coming struct {
	from  *registry.Snapshot // by which its clients have it
	by    []registry.Ref     // the waypoints whose word is waited for
	until time.Time          // and for how long
}

// turn looks which hosts come behind waypoints by a change that led from a snapshot to the cache's: those wait. It gives the hosts to which who goes by waypoints goes another way from now on. It is called before views are made.
func (c *Cache) turn(was *registry.Snapshot, changed registry.Changed) (turned map[string]bool) {
	if !c.anyGoesByWaypoints() {
		return nil
	}
	turned = map[string]bool{}
	look := func(host string) {
		before := was
		held := c.coming[host]
		if held != nil {
			before = held.from
		}
		ways, now := before.WaypointsOf(host), c.snapshot.WaypointsOf(host)
		by := slices.DeleteFunc(slices.Clone(now), func(g registry.Ref) bool { return slices.Contains(ways, g) || !c.hears(g) })
		switch {
		case len(by) > 0 && held != nil:
			held.by = by
		case len(by) > 0:
			c.coming[host] = &coming{from: was, by: by, until: time.Now().Add(frontTime.get())}
			c.translator.Keep(host, was)
		default:
			if !slices.Equal(ways, now) {
				turned[host] = true
			}
			if held != nil {
				delete(c.coming, host)
				c.translator.LetGo(host)
			}
		}
	}
	if !changed.Waypoints {
		for _, host := range changed.Hosts {
			look(host)
		}
		return turned
	}
	for host := range c.snapshot.Hosts() {
		look(host)
	}
	for _, host := range slices.Collect(maps.Keys(c.coming)) {
		if len(c.snapshot.Services(host)) == 0 {
			look(host)
		}
	}
	return turned
}

func (c *Cache) anyGoesByWaypoints() bool {
	for class := range c.classes {
		if class.GoesByWaypoints() {
			return true
		}
	}
	return false
}

// hears says whether pods of a waypoint are connected here, and answer.
func (c *Cache) hears(waypoint registry.Ref) bool {
	for st, silent := range c.rows.exits {
		if !silent && st.class.view.Class.Gateway == waypoint {
			return true
		}
	}
	return false
}

// letCome lets hosts come behind waypoints that know them, and those that have waited for long enough. The cache is held.
func (c *Cache) letCome() {
	if len(c.coming) == 0 {
		return
	}
	var next time.Time
	now, told := time.Now(), c.podsTold()
	come := map[string]bool{}
	for host, h := range c.coming {
		late := !now.Before(h.until)
		switch {
		case late, told && c.know(h.by):
			come[host] = true
		default:
			next = earlier(next, h.until)
		}
		if late {
			c.silent(h.by)
		}
	}
	if !next.IsZero() {
		c.watchRests(next)
	}
	if len(come) == 0 {
		return
	}
	for host := range come {
		delete(c.coming, host)
		c.translator.LetGo(host)
	}
	c.advance(c.snapshot, registry.Changed{Hosts: slices.Sorted(maps.Keys(come))}, come)
	for _, st := range c.streams {
		if st.class.view.Class.GoesByWaypoints() {
			st.push()
		}
	}
}

// know says whether pods of these waypoints have said something about all that they were sent.
func (c *Cache) know(waypoints []registry.Ref) bool {
	for st, silent := range c.rows.exits {
		if !silent && slices.Contains(waypoints, st.class.view.Class.Gateway) && !st.settled() {
			return false
		}
	}
	return true
}

// silent notes which of their pods have not.
func (c *Cache) silent(waypoints []registry.Ref) {
	for st := range c.rows.exits {
		if slices.Contains(waypoints, st.class.view.Class.Gateway) && !st.settled() {
			c.rows.exits[st] = true
		}
	}
}

// podsTold says whether all nodes have said something about what they were told of their pods.
func (c *Cache) podsTold() bool {
	for _, st := range c.streams {
		if st.class.view.Class.Kind != translate.Ambient {
			continue
		}
		w := st.watches[resource.Pod]
		if asked := w != nil || st.sent[resource.Pod].view != nil; asked && (w == nil || st.stats.unheard(resource.Pod) > 0) {
			return false
		}
	}
	return true
}

// turn notes which clusters of hosts that turn are among what has changed in a view of nodes.
func (c *class) turn(hosts map[string]bool, refs []resource.Ref) {
	if c.view.Class.Kind != translate.Ambient {
		return
	}
	for name := range c.turned {
		if _, there := c.view.Get(resource.Cluster, name); !there {
			delete(c.turned, name)
		}
	}
	for _, r := range refs {
		if r.Type != resource.Cluster || !hosts[wire.HostOf(r.Name)] {
			continue
		}
		if c.turned == nil {
			c.turned = map[string]uint64{}
		}
		c.turned[r.Name] = c.step
	}
}
