package kube

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/config"
)

// pageSize is how many objects a page of a list holds, where the server has no watch-list.
const pageSize = 500

// retries is how reflectors wait for a server that fails: objects are late by at most half a minute after it is back.
var retries = wait.Backoff{Duration: 800 * time.Millisecond, Cap: 15 * time.Second, Steps: 20, Factor: 2, Jitter: 0.5}

// reflect keeps the store up to date with the objects of a kind until ctx ends.
func (c *clients) reflect(ctx context.Context, k kind, from cache.ListerWatcher, s *store) {
	c.into(ctx, sink{s, k}, k, observed(k, from, s.listResult, s.watchResult))
}

// into keeps what a sink makes of the objects of a kind up to date until ctx ends.
func (c *clients) into(ctx context.Context, to cache.ReflectorStore, k kind, from cache.ListerWatcher) {
	backoff := c.retries
	r := cache.NewReflectorWithOptions(from, k.expected, to, cache.ReflectorOptions{
		Name: "source", TypeDescription: string(k.Kind), Backoff: &backoff,
	})
	r.WatchListPageSize = pageSize
	r.RunWithContext(ctx)
}

// sink is the store as the reflector of a kind sees it.
type sink struct {
	store *store
	kind  kind
}

var (
	_ cache.TransformingStore      = sink{}
	_ cache.ReflectorBookmarkStore = sink{}
)

// Transformer reads objects as they come, so that of a long list only what is kept is in memory.
func (s sink) Transformer() cache.TransformFunc {
	return func(o any) (any, error) { return s.item(o) }
}

// item gives an object in the form that it is kept in.
func (s sink) item(o any) (*item, error) {
	if i, ok := o.(*item); ok {
		return i, nil
	}
	object, ok := o.(runtime.Object)
	if !ok {
		return nil, fmt.Errorf("%s: a %T came", s.kind.Kind, o)
	}
	m, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	i := &item{ObjectMeta: metav1.ObjectMeta{Name: m.GetName(), Namespace: m.GetNamespace(), ResourceVersion: m.GetResourceVersion()}}
	i.version = s.kind.read(object)
	return i, nil
}

// Add takes over an object.
func (s sink) Add(o any) error { return s.Update(o) }

// Update takes over an object.
func (s sink) Update(o any) error {
	i, err := s.item(o)
	if err == nil {
		s.store.put(s.kind, i.version)
	}
	return err
}

// Delete takes an object out.
func (s sink) Delete(o any) error {
	m, err := meta.Accessor(o)
	if err == nil {
		s.store.remove(s.kind, config.Key{Kind: s.kind.Kind, Namespace: m.GetNamespace(), Name: m.GetName()})
	}
	return err
}

// Replace takes over everything.
func (s sink) Replace(list []any, _ string) error {
	all := make([]version, 0, len(list))
	for _, o := range list {
		i, err := s.item(o)
		if err != nil {
			return err
		}
		all = append(all, i.version)
	}
	s.store.replace(s.kind, all)
	return nil
}

// Bookmark says that there is nothing new.
func (s sink) Bookmark(string) error {
	s.store.bookmark(s.kind)
	return nil
}

// Resync is for stores that repeat themselves.
func (s sink) Resync() error { return nil }
