package serve

import (
	"time"

	"github.com/sallyport/sallyport/xds/resource"
)

// keepPacked is how long everything of a type stays packed after it was last asked for: about as long as proxies
// take to come back when the controller has restarted.
const keepPacked = 5 * time.Second

// unpackLater lets go of what was packed when nobody has asked for it for a while, if anything was.
func (c *Cache) unpackLater(cl *class, t resource.Type) {
	if cl.over != nil {
		c.unpackLater(cl.over, t)
	}
	p := cl.whole[t]
	if p == nil {
		return
	}
	if p.asked = time.Now(); !p.ends {
		p.ends = true
		c.packed++
		time.AfterFunc(keepPacked, func() { c.unpack(cl, t, p) })
	}
}

// freeEvery is how often memory is given back at most: that takes a run of the garbage collector.
const freeEvery = time.Minute

// unpack lets go of a payload that nobody has asked for lately. After the last one it gives back the memory that a crowd has taken, and nobody
// needs any more.
func (c *Cache) unpack(cl *class, t resource.Type, p *payload) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := keepPacked - time.Since(p.asked); left > 0 {
		time.AfterFunc(left, func() { c.unpack(cl, t, p) })
		return
	}
	if cl.whole[t] == p {
		cl.whole[t] = nil
	}
	if c.packed--; c.packed == 0 {
		c.giveBack()
	}
}

// giveBack gives memory back, now or when it may again. c.mu is held.
func (c *Cache) giveBack() {
	if early := freeEvery - time.Since(c.freed); early > 0 {
		c.giveBackAfter(early)
		return
	}
	c.freed = time.Now()
	c.translator.ForgetRecent()
	go c.free()
}

// giveBackAfter gives memory back later, unless that is to be anyway: also what changes leave, of which there may be too few for the garbage collector to come
// by itself. c.mu is held.
func (c *Cache) giveBackAfter(d time.Duration) {
	if !c.frees {
		c.frees = true
		time.AfterFunc(d, c.freeLater)
	}
}

func (c *Cache) freeLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frees = false; c.packed == 0 { // otherwise it is given back after the last one
		c.giveBack()
	}
}

const (
	// settledAfter is how long no view of a class was made before what making them took is given back: of a host that is some fifty KiB, most of it garbage by then.
	settledAfter = time.Second
	// settleEvery is how often that is done at most.
	settleEvery = freeEvery
)

// settleLater gives back what making views takes, when no further one is made. c.mu is held.
func (c *Cache) settleLater() {
	if c.settles == nil {
		c.settles = time.AfterFunc(settledAfter, c.settle)
		return
	}
	c.settles.Reset(settledAfter)
}

func (c *Cache) settle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if early := settleEvery - time.Since(c.settled); early > 0 {
		c.settles.Reset(early)
		return
	}
	c.settled = time.Now()
	go c.free()
}
