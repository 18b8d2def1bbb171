package kubetoken

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"google.golang.org/grpc/peer"

	"github.com/sallyport/sallyport/xds/netcap"
)

// errBusy says that the API server answers too slowly for all who ask.
var errBusy = errors.New("the API server has not answered the token reviews before this one")

// turns lets few ask at a time, so that a slow API server is not asked more and more. Addresses that wait come one after the other, however many wait at each: who is behind
// an address alone does not wait behind all whom a stranger makes up at his.
type turns struct {
	places *netcap.Shares // of those who wait, or ask

	mu    sync.Mutex
	free  int
	waits map[netip.Prefix][]chan struct{}
	order []netip.Prefix // of waits; the first is next
}

func newTurns(atOnce, places int) *turns {
	return &turns{free: atOnce, places: netcap.NewShares(places), waits: map[netip.Prefix][]chan struct{}{}}
}

// enter waits for a turn of the caller's address. It is over when leave is called.
func (t *turns) enter(ctx context.Context) (leave func(), err error) {
	from := caller(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	back, ok := t.places.Take(from, 1, cancel)
	if !ok {
		return nil, errBusy
	}
	mine := t.begin(from)
	if mine == nil {
		return func() { back(); t.next() }, nil
	}
	select {
	case <-mine:
		return func() { back(); t.next() }, nil
	case <-ctx.Done():
		back()
		if !t.giveUp(from, mine) {
			t.next()
		}
		return nil, errBusy
	}
}

// begin takes a turn that is free, or gives what is closed when the turn comes.
func (t *turns) begin(from netip.Prefix) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.free > 0 {
		t.free--
		return nil
	}
	mine := make(chan struct{})
	if len(t.waits[from]) == 0 {
		t.order = append(t.order, from)
	}
	t.waits[from] = append(t.waits[from], mine)
	return mine
}

// next gives a turn that is over to the next address.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		t.free++
		return
	}
	from := t.order[0]
	t.order = t.order[1:]
	first, rest := t.waits[from][0], t.waits[from][1:]
	if t.keep(from, rest) {
		t.order = append(t.order, from)
	}
	close(first)
}

// giveUp waits no longer; false when the turn has come already.
func (t *turns) giveUp(from netip.Prefix, mine <-chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.waits[from]
	at := slices.IndexFunc(all, func(c chan struct{}) bool { return c == mine })
	if at < 0 {
		return false
	}
	if !t.keep(from, slices.Delete(all, at, at+1)) {
		t.order = slices.DeleteFunc(t.order, func(p netip.Prefix) bool { return p == from })
	}
	return true
}

// keep notes who waits at an address, and says whether anybody does.
func (t *turns) keep(from netip.Prefix, waits []chan struct{}) bool {
	if len(waits) == 0 {
		delete(t.waits, from)
		return false
	}
	t.waits[from] = waits
	return true
}

// caller is whose call it is, as far as an address says so.
func caller(ctx context.Context) netip.Prefix {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return netip.Prefix{}
	}
	return netcap.Peer(p.Addr)
}
