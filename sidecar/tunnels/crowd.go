package tunnels

import (
	"cmp"
	"slices"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// crowd is connections by who has them: those of a namespace by its accounts, those of an account by addresses. Each level knows how many there are below it.
type crowd struct {
	n     int
	of    map[string]*crowd
	here  []sockdiag.Activity // of the last level
	ready bool                // here is in the order in which they are given
}

// add puts one below names, the widest first.
func (c *crowd) add(one sockdiag.Activity, names ...string) {
	c.n++
	if len(names) == 0 {
		c.here = append(c.here, one)
		return
	}
	if c.of == nil {
		c.of = map[string]*crowd{}
	}
	below := c.of[names[0]]
	if below == nil {
		below = &crowd{}
		c.of[names[0]] = below
	}
	below.add(one, names[1:]...)
}

// most is who has most of one level; of those that have equally many the first by name.
func (c *crowd) most() (who *crowd) {
	name, _ := largest(c.of, func(below *crowd) int { return below.n })
	return c.of[name]
}

// give takes one out: of who has most, and there of who has most, the one in which nothing has moved for longest. Of the first level nobody gives who has no more than keep.
func (c *crowd) give(keep int) (one sockdiag.Activity, ok bool) {
	who := c.most()
	if who == nil || who.n <= keep {
		return one, false
	}
	c.n--
	for below := who.most(); below != nil; below = who.most() {
		who.n--
		who = below
	}
	who.n--
	if !who.ready {
		slices.SortFunc(who.here, func(a, b sockdiag.Activity) int {
			return cmp.Or(cmp.Compare(a.Quiet, b.Quiet), cmp.Compare(a.Cookie, b.Cookie))
		})
		who.ready = true
	}
	last := len(who.here) - 1
	one, who.here = who.here[last], who.here[:last]
	return one, true
}
