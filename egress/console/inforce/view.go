package inforce

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/admission"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/config/source/kube"
	"github.com/sallyport/sallyport/egress/console"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// view is what is read of the cluster, from when somebody asks until nobody does.
type view struct {
	source   *kube.Source
	settings func() (mesh.Config, error)
	log      *slog.Logger
	registry *registry.Registry // of who has the turn
	turn     chan struct{}      // holds one: the goroutine of follow, or who tries something
	ready    chan struct{}      // closed once there is an answer
	begun    time.Time

	mu       sync.Mutex
	problem  error // why there is no answer, and will be none
	snapshot *registry.Snapshot
	objects  map[config.Key]*config.Object
	listed   []config.Change // the same, in order; nil after changes
}

func newView(o Options) *view {
	return &view{
		source: kube.NewDeciding(o.Access, kube.Options{Logger: o.Logger, Patience: refusedWithin}), settings: o.Mesh, log: o.Logger,
		ready: make(chan struct{}), turn: make(chan struct{}, 1), begun: time.Now(), objects: map[config.Key]*config.Object{},
	}
}

// follow reads until ctx ends, or nobody asks any more.
func (v *view) follow(ctx context.Context, over func() bool) {
	first := sync.OnceFunc(func() { close(v.ready) })
	defer first()
	settings, err := v.settings()
	if err != nil {
		v.fail(err)
		return
	}
	v.registry = registry.NewWithoutSecrets(&settings)
	ctx, end := context.WithCancel(ctx)
	batches, ended := make(chan []config.Change), make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() {
		ended <- v.source.Run(ctx, func(c []config.Change, _ []admission.Finding) {
			select {
			case batches <- c:
			case <-ctx.Done():
			}
		})
	})
	defer running.Wait()
	defer end()
	look, again := time.NewTicker(lookEvery), time.NewTicker(meshEvery)
	defer look.Stop()
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case err := <-ended:
			v.fail(err)
			return
		case changes := <-batches:
			v.apply(ctx, changes)
			first()
		case <-look.C:
			if v.failed() {
				return
			}
			if over() {
				v.log.Info("console: nobody asks about the cluster's configuration any more: it is forgotten")
				return
			}
		case <-again.C:
			v.reload(ctx)
		}
	}
}

// fail says why there is no answer.
func (v *view) fail(err error) {
	if err == nil {
		err = errors.New("reading the cluster ended")
	}
	v.log.Warn("console: the cluster's configuration cannot be read", "err", err)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.problem, v.snapshot, v.objects, v.listed = err, nil, nil, nil
}

func (v *view) failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.problem != nil
}

// take waits for the registry, which is one's at a time: who takes it gives it back.
func (v *view) take(ctx context.Context) error {
	select {
	case v.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// apply takes changes over, unless ctx ends before it has its turn.
func (v *view) apply(ctx context.Context, changes []config.Change) {
	if v.take(ctx) != nil {
		return
	}
	defer func() { <-v.turn }()
	if v.failed() {
		return
	}
	snapshot, _ := v.registry.Apply(changes)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.snapshot, v.listed = snapshot, nil
	for _, c := range changes {
		if c.Object == nil {
			delete(v.objects, c.Key)
		} else {
			v.objects[c.Key] = c.Object
		}
	}
}

// reload takes over the mesh's settings where they changed. Wrong ones leave those of before, as in the controller, which says so.
func (v *view) reload(ctx context.Context) {
	settings, err := v.settings()
	if v.take(ctx) != nil {
		return
	}
	defer func() { <-v.turn }()
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil && v.snapshot != nil && !reflect.DeepEqual(&settings, v.snapshot.Mesh) {
		v.snapshot, _ = v.registry.SetMesh(&settings)
	}
}

// config is what is in force. Of what cannot be read nobody knows what it would decide, so there is no answer then.
func (v *view) config() (*console.Config, error) {
	unread, silent := v.source.Trouble()
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case v.problem != nil:
		return nil, v.problem
	case v.snapshot == nil:
		return nil, errors.New("it is not read any more: ask again")
	case len(unread) > 0:
		return nil, fmt.Errorf("%s; nobody knows what they would decide (%s)", unread[0].Message, unread[0].Fix)
	}
	c := &console.Config{Snapshot: v.snapshot, InCluster: true, AsOf: silent, Try: v.try}
	c.Objects = v.list()
	return c, nil
}

var errBroken = errors.New("a question broke what was read of the cluster: it is read anew")

// try lends the registry. Changes wait meanwhile. Where f does not come back as it should, nobody knows what it left, and all is read anew.
func (v *view) try(ctx context.Context, f func(*console.Config, *registry.Registry) error) error {
	if err := v.take(ctx); err != nil {
		return err
	}
	defer func() { <-v.turn }()
	c, err := v.config()
	if err != nil {
		return err
	}
	whole := false
	defer func() {
		if !whole {
			v.fail(errBroken)
		}
	}()
	err = f(c, v.registry)
	whole = true
	return err
}

// list gives the objects in order. The caller holds the lock.
func (v *view) list() []config.Change {
	if v.listed == nil {
		v.listed = make([]config.Change, 0, len(v.objects))
		for key, o := range v.objects {
			v.listed = append(v.listed, config.Change{Key: key, Object: o})
		}
		slices.SortFunc(v.listed, func(a, b config.Change) int { return a.Key.Compare(b.Key) })
	}
	return v.listed
}
