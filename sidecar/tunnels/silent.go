package tunnels

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

const (
	// silentAfter is for how long nothing has moved in a connection that is ended because it never carried a request. It is longer than it takes to be told of a
	// request that is under way: xds/envoy's tellEvery, a second in Envoy's buffer, and the way here.
	silentAfter = 12 * time.Second
	// silentEvery is how often it is looked for them.
	silentEvery = 2500 * time.Millisecond
	// silentRest is for how long nobody is ended when this process, or the machine, stood still: what Envoy told meanwhile waits to be read.
	silentRest = 2 * silentEvery
	// settling is for how long a listener that has changed may still take connections as it did before, or have some.
	settling = time.Minute
	// leastSpoke is of how many clients it is remembered at least that they asked for something: those of the connections that are there, and of those that came and went since it was looked.
	leastSpoke = 1 << 16
)

// silent is what is known of connections that carry something: at a port at which Envoy tells of each request, when it is over, and of those under way every few seconds, and of what is
// passed on as it is as soon as it got there, one that nothing was told of, and in which nothing has moved for longer than that, never carried any.
type silent struct {
	ports map[string]telling        // by their listeners' names, also of those that are gone
	spoke map[netip.AddrPort]uint64 // clients of connections that have carried a request, and in which look they were seen last; bounded by Config.Most
	look  uint64                    // the present one

	tells  bool // some port tells
	missed bool // of somebody it was not remembered since it was looked: whoever is there may be it
}

// telling is the port of a listener of whose connections Envoy tells, and since when where it was another one before; 0: it tells nothing.
type telling struct {
	port  uint16
	since time.Time
}

// Spoke takes note that a client's connection has carried a request, where somebody looks for those that did not.
func (t *Table) Spoke(client netip.AddrPort) {
	if t.cfg.Ender == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.silent
	if _, known := s.spoke[client]; !s.tells || !known && len(s.spoke) >= max(2*t.cfg.Most, leastSpoke) {
		s.missed = true
		return
	}
	s.spoke[client] = s.look
}

// Listens takes listeners that Envoy has taken, or lost.
func (t *Table) Listens(of Change) {
	if of.Type != listenerType {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, name := range of.Names {
		var port uint16
		if i < len(of.Bodies) {
			port = tellsAt(of.Bodies[i])
		}
		was, known := t.silent.ports[name]
		switch {
		case !known:
			t.silent.ports[name] = telling{port: port}
		case was.port != port:
			t.silent.ports[name] = telling{port, time.Now()}
		}
	}
	t.silent.tells = false
	for _, at := range t.silent.ports {
		t.silent.tells = t.silent.tells || at.port != 0
	}
	if !t.silent.tells && len(t.silent.spoke) > 0 { // nobody looks who of them is gone
		t.silent.spoke, t.silent.missed = map[netip.AddrPort]uint64{}, true
	}
}

// RunSilent ends connections that never carried a request, until ctx ends. lost says whether Envoy has lost entries of its log since it was asked before.
func (t *Table) RunSilent(ctx context.Context, lost func(context.Context) (bool, error)) {
	if t.cfg.Ender == nil {
		return
	}
	next := time.NewTicker(silentEvery)
	defer next.Stop()
	last, rests := time.Now(), time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
		}
		now := time.Now()
		if now.Sub(last) > silentRest {
			rests = now.Add(silentRest)
		}
		if last = now; !now.Before(rests) {
			t.endSilent(ctx, lost)
		}
	}
}

// endSilent looks once.
func (t *Table) endSilent(ctx context.Context, lost func(context.Context) (bool, error)) {
	began := time.Now()
	quiet, there, err := t.quiet()
	if err == nil && len(quiet) > 0 {
		var some bool
		if some, err = lost(ctx); some && err == nil { // they may have told of any of these
			t.mu.Lock()
			for client := range there {
				t.silent.spoke[client] = t.silent.look
			}
			t.mu.Unlock()
			return
		}
	}
	if err != nil {
		t.notFound(err, "it is not known which connections never carried a request; they are kept")
		return
	}
	if time.Since(began) > silentEvery {
		return // it stood still in between
	}
	ended := 0
	for _, c := range quiet {
		if ctx.Err() != nil {
			break
		}
		if t.endQuiet(ctx, c) {
			ended++
		}
	}
	if ended > 0 {
		t.cfg.Log.Info("connections are ended that never carried a request", "connections", ended, "quiet_for", silentAfter)
	}
}

// quiet are the connections in which nothing moves, and of which no request was told; there are the clients of all that carry requests. What is not there any more is forgotten, but for
// what was told of since it was looked.
func (t *Table) quiet() (quiet []sockdiag.Connection, there map[netip.AddrPort]bool, err error) {
	t.mu.Lock()
	if !t.silent.tells {
		t.mu.Unlock()
		return nil, nil, nil
	}
	t.silent.look++
	look, missed, ports := t.silent.look, t.silent.missed, map[uint16]bool{}
	t.silent.missed = false // who is missed from now on may have come after the kernel was asked
	for _, at := range t.silent.ports {
		if at.port != 0 {
			ports[at.port] = ports[at.port] || time.Since(at.since) < settling
		}
	}
	t.mu.Unlock()
	there = map[netip.AddrPort]bool{} // true: it may be older than what tells of it
	if err := t.cfg.Kernel.Activities(func(a sockdiag.Activity) {
		fresh, tells := ports[a.Local.Port()]
		if !tells {
			return
		}
		there[a.Remote] = fresh
		if !a.Half && !fresh && a.Quiet >= silentAfter {
			quiet = append(quiet, a.Connection)
		}
	}); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.silent.missed = t.silent.missed || missed
		return nil, nil, fmt.Errorf("the kernel's connections: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	missed = missed || t.silent.missed
	for client, at := range t.silent.spoke {
		if _, is := there[client]; !is && at < look {
			delete(t.silent.spoke, client)
		}
	}
	for client, fresh := range there {
		if fresh || missed {
			t.silent.spoke[client] = look
		}
	}
	n := 0
	for _, c := range quiet {
		if _, spoke := t.silent.spoke[c.Remote]; !spoke {
			quiet[n] = c
			n++
		}
	}
	return quiet[:n], there, nil
}

// endQuiet ends one, unless it was told of meanwhile, and says whether it did.
func (t *Table) endQuiet(ctx context.Context, c sockdiag.Connection) bool {
	t.mu.Lock()
	_, spoke := t.silent.spoke[c.Remote]
	spoke = spoke || t.silent.missed
	t.mu.Unlock()
	if spoke {
		return false
	}
	return t.endResting(ctx, c, &t.stats.Silent, "a connection that never carried a request could not be ended", "from", c.Remote)
}
