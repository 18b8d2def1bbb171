package kube

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/sallyport/sallyport/config"
)

// How often is asked for what tells nothing by itself: a CRD that is there but serves nothing yet, and, without the
// right to watch CRDs, discovery.
const (
	askAgain    = 500 * time.Millisecond
	askOften    = 20 // times; then it is asked as for discovery
	askPatience = 6  // times, without a finding: a new CRD takes a moment
	askDiscover = 10 * time.Second
)

// availability starts and stops the reflectors of custom kinds as their CRDs come and go.
type availability struct {
	clients *clients
	kinds   []kind // the custom ones
	store   *store
	crds    *crds

	reflectors sync.WaitGroup
	running    map[config.Kind]*running
	tries      int
}

// running is a reflector at work.
type running struct {
	cancel  context.CancelFunc
	version string
	uid     types.UID // of the CRD, empty when it was found by discovery
}

func newAvailability(c *clients, kinds []kind, s *store) *availability {
	a := &availability{clients: c, store: s, crds: newCRDs(kinds), running: map[config.Kind]*running{}}
	for _, k := range kinds {
		if k.custom {
			a.kinds = append(a.kinds, k)
		}
	}
	return a
}

// run goes on until ctx ends and all its reflectors have.
func (a *availability) run(ctx context.Context) {
	defer a.reflectors.Wait()
	a.reflectors.Go(func() { a.crds.reflect(ctx, a.clients) })
	again := time.NewTimer(time.Hour)
	again.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.crds.changed:
			a.tries = 0
		case <-again.C:
			a.tries++
		}
		var next time.Duration
		for _, k := range a.kinds {
			if wait := a.check(ctx, k); wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
		if next > 0 {
			again.Reset(next)
		}
	}
}

// check makes the reflector of one kind run, or not run, as its CRD says. It returns when to ask again, 0 for when a
// change is told of.
func (a *availability) check(ctx context.Context, k kind) time.Duration {
	uid, there, err := a.crds.look(k)
	switch {
	case err != nil && !answered(err):
		return 0 // the reflector of CRDs tries again
	case err != nil:
		version, err := a.clients.discovered(ctx, k)
		if err == nil {
			a.start(ctx, k, version, "")
		} else if a.running[k.Kind] == nil && ctx.Err() == nil {
			a.store.listResult(k, err)
		}
		return askDiscover
	case !there:
		a.stop(k)
		a.store.setVersion(k, "")
		return 0
	}
	version, err := a.clients.served(ctx, k)
	if err == nil {
		a.start(ctx, k, version, uid)
		return 0
	}
	if a.running[k.Kind] == nil && ctx.Err() == nil && a.tries >= askPatience {
		a.store.listResult(k, err)
	}
	if a.tries < askOften {
		return askAgain
	}
	return askDiscover
}

// start runs the reflector of a kind in that version, and ends one of another version or of an earlier CRD.
func (a *availability) start(ctx context.Context, k kind, version string, uid types.UID) {
	if r := a.running[k.Kind]; r != nil && r.version == version && (r.uid == uid || uid == "") {
		return
	}
	a.stop(k)
	from, err := a.clients.listerWatcher(k, version)
	if err != nil {
		a.store.listResult(k, err)
		return
	}
	a.store.setVersion(k, version)
	ctx, cancel := context.WithCancel(ctx)
	a.running[k.Kind] = &running{cancel: cancel, version: version, uid: uid}
	a.reflectors.Go(func() { a.clients.reflect(ctx, k, from, a.store) })
}

func (a *availability) stop(k kind) {
	if r := a.running[k.Kind]; r != nil {
		r.cancel()
		delete(a.running, k.Kind)
	}
}
