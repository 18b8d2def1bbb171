package tunnels

import (
	"cmp"
	"context"
	"slices"
)

// crowded is why a tunnel is ended that makes room.
const crowded = "the connections of its client's namespace are more than half of those that the proxy may have, and few are left"

// roomPart is the part of all tunnels that may be open, of which as many are ended at once: what is left is for others for a moment.
const roomPart = 20

// MakeRoom ends tunnels of the namespace whose clients have most, if these are more than half of all that may be open: the newest, and no more of them than
// half leaves. It is for when few places are left, and says how many it ended. Where no namespace is known a client counts by its address.
func (t *Table) MakeRoom(ctx context.Context) int {
	if t.cfg.Ender == nil {
		return 0
	}
	newest := t.crowding()
	for _, of := range newest {
		t.end(ctx, of.asked, of, crowded)
	}
	return len(newest)
}

// crowding are the tunnels to end.
func (t *Table) crowding() []*tunnel {
	t.mu.Lock()
	defer t.mu.Unlock()
	var most []*tunnel
	of := map[string][]*tunnel{}
	for _, open := range t.open {
		if open.cut != nil || open.ended != "" || open.asked == nil {
			continue
		}
		whose := cmp.Or(open.asked.namespace, "at "+open.client.Addr().String())
		if of[whose] = append(of[whose], open); len(of[whose]) > len(most) {
			most = of[whose]
		}
	}
	n := min(len(most)-t.cfg.Most/2, max(t.cfg.Most/roomPart, 1))
	if n <= 0 {
		return nil
	}
	slices.SortFunc(most, func(a, b *tunnel) int { return cmp.Compare(b.began, a.began) })
	return most[:n]
}
