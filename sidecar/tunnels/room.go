package tunnels

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/sallyport/sallyport/egress/audit/envoylog"
	"github.com/sallyport/sallyport/sidecar/sockdiag"
)

// crowded is why a connection is ended that makes room.
const crowded = "few of the connections that the proxy may have are left, and its client has most of them"

const (
	// roomPart is the part of all places of which as many are ended at once: what is left is for others for a moment. Who has no more than that gives none.
	roomPart = 20
	// roomTo is up to how many percent of all places are taken when no more are ended.
	roomTo = 90
	// crowdedFor is how long it is remembered that a connection was ended, for its records.
	crowdedFor = time.Minute
)

// MakeRoom ends connections with the proxy's ports, when so many percent of its places are taken that few are left: of the namespace that has most, of the account in it that has most, and there of the address, those in which nothing has
// moved for longest, one by one, so that in the end several have equally many. Whose namespace is not known counts by his address, of IPv6 by its /64 and then by itself. Before that come those whose client has said all, where they are many
// (endHalf): of whom they are nobody knows, and nothing else ends them. It says how many it ended.
func (t *Table) MakeRoom(ctx context.Context, percent uint64, ports func(uint16) bool) (ended int, err error) {
	if t.cfg.Ender == nil {
		return 0, nil
	}
	n := min(t.cfg.Most*(int(percent)-roomTo)/100, max(t.cfg.Most/roomPart, 1))
	if n <= 0 {
		return 0, nil
	}
	ended, halfErr := t.endHalf(ctx, halfRestFew, n)
	gives, err := t.crowding(n-ended, ports)
	err = errors.Join(halfErr, err)
	for _, one := range gives {
		if ctx.Err() != nil {
			break
		}
		if t.crowdOut(ctx, one) {
			ended++
		}
	}
	return ended, err
}

// crowding are the connections to end, so many at most.
func (t *Table) crowding(n int, ports func(uint16) bool) (gives []held, err error) {
	var list []sockdiag.Activity
	if err := t.cfg.Kernel.Activities(func(a sockdiag.Activity) {
		if ports(a.Local.Port()) && !a.Half { // of one whose client sends no more Envoy does not read, and would not see its end
			list = append(list, a)
		}
	}); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	known := map[netip.AddrPort]*tunnel{}
	for _, of := range t.open {
		if of.cut == nil {
			known[of.client] = of
		}
	}
	var all crowd
	for _, a := range list {
		of := known[a.Remote]
		if of != nil && of.connection.Cookie != a.Cookie {
			of = nil
			delete(known, a.Remote)
		}
		if of == nil || of.ended == "" {
			all.add(a, t.holder(a.Remote.Addr(), of)...)
		}
	}
	for range n {
		a, more := all.give(t.cfg.Most / roomPart)
		if !more {
			break
		}
		gives = append(gives, held{a.Connection, known[a.Remote]})
	}
	return gives, nil
}

// held is a connection, and what is known of it here; nil is nothing.
type held struct {
	sockdiag.Connection
	known *tunnel
}

// holder says who has a connection, from wide to narrow. The lock is held.
func (t *Table) holder(at netip.Addr, of *tunnel) []string {
	peer := ""
	switch {
	case of != nil && of.asked != nil:
		peer = of.asked.Peer
	case t.clients[at] != "":
		peer = t.clients[at]
	case t.cfg.Whose != nil:
		peer = t.cfg.Whose(at)
	}
	if ns := (envoylog.Question{Peer: peer}).Namespace(); ns != "" {
		return []string{ns, peer, at.String()}
	}
	if wide, err := at.Prefix(64); err == nil && at.Is6() {
		return []string{"at " + wide.String(), at.String()}
	}
	return []string{"at " + at.String()}
}

// crowdOut ends one, and says whether it did. Why is there before a record can come.
func (t *Table) crowdOut(ctx context.Context, of held) bool {
	if of.known != nil {
		t.end(ctx, of.known.asked, of.known, crowded)
		t.mu.Lock()
		defer t.mu.Unlock()
		return of.known.ended == crowded
	}
	now := time.Now()
	t.mu.Lock()
	for client, at := range t.crowded {
		if now.Sub(at) > crowdedFor {
			delete(t.crowded, client)
		}
	}
	t.crowded[of.Remote] = now
	t.mu.Unlock()
	err := t.cfg.Ender.End(ctx, of.Connection)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.stats.Ended++
		return true
	}
	delete(t.crowded, of.Remote)
	t.notEnded(err, "a connection of somebody who has most of them, when few were left, could not be ended", "from", of.Remote)
	return false
}

// Crowded says why the connection of a client, by its address as records have it, was ended lately; "" where it was not, or a tunnel of the table was it.
func (t *Table) Crowded(client string) (why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.crowded) == 0 {
		return ""
	}
	if from, err := netip.ParseAddrPort(client); err == nil && !t.crowded[from].IsZero() {
		return crowded
	}
	return ""
}
