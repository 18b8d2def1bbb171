package serve

import (
	"time"

	"github.com/sallyport/sallyport/xds/translate"
)

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
		if now.Before(until) {
			next = earlier(next, until)
		} else {
			hosts = append(hosts, host)
		}
	}
	return hosts, next
}

// nextLeaving is when something has stayed for long enough; zero where nothing leaves. The cache is held.
func (c *Cache) nextLeaving() (next time.Time) {
	for _, cl := range c.classes {
		for _, until := range cl.leaving {
			next = earlier(next, until)
		}
	}
	return next
}

// endLeaving takes out of waypoints' views what has stayed there for long enough, and says when there will be more. The cache is held.
func (c *Cache) endLeaving() (next time.Time) {
	for _, cl := range c.classes {
		hosts, more := cl.due()
		next = earlier(next, more)
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

// earlier is the earlier one of two times; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
