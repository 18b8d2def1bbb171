package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// followed are the ConfigMaps that Gateways and classes name, each watched by itself: no other is ever asked for, so rights on a few namespaces,
// or on a few names, are enough, and nobody else's are in this process's memory. Or those whose label names a class (byLabel).
type followed struct {
	kube    kubernetes.Interface
	by      selection
	changed func(follower types.NamespacedName)
	context context.Context // of the watches
	running sync.WaitGroup

	mu    sync.Mutex
	of    map[types.NamespacedName]types.NamespacedName // what a follower names: a Gateway, or, without a namespace, a class
	named map[types.NamespacedName]*one
}

// one is a ConfigMap that is watched.
type one struct {
	followers map[types.NamespacedName]bool
	cancel    context.CancelFunc
	informer  cache.SharedIndexInformer

	mu  sync.Mutex
	err error // what the server said last; nil for what it gives
}

// selection is how ConfigMaps are referred to: how the server is asked for them, and what they are called.
type selection struct {
	ask  func(ref types.NamespacedName, o *metav1.ListOptions)
	call func(ref types.NamespacedName) string
}

// byName refers to one ConfigMap.
var byName = selection{
	ask: func(ref types.NamespacedName, o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ref.Name).String()
	},
	call: func(ref types.NamespacedName) string { return "ConfigMap " + ref.String() },
}

// newFollowed gives one that watches nothing. changed is told of a follower whose ConfigMap is another than before; it may call back.
func newFollowed(ctx context.Context, kube kubernetes.Interface, by selection, changed func(types.NamespacedName)) *followed {
	return &followed{kube: kube, by: by, changed: changed, context: ctx, of: map[types.NamespacedName]types.NamespacedName{}, named: map[types.NamespacedName]*one{}}
}

// follow watches the ConfigMap that a follower names, nil for none, and no longer the one that it named before, if nobody else does.
func (f *followed) follow(follower types.NamespacedName, ref *types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if was, had := f.of[follower]; had {
		if ref != nil && was == *ref {
			return
		}
		delete(f.of, follower)
		if delete(f.named[was].followers, follower); len(f.named[was].followers) == 0 {
			f.named[was].cancel()
			delete(f.named, was)
		}
	}
	if ref == nil || f.context.Err() != nil {
		return
	}
	f.of[follower] = *ref
	if f.named[*ref] == nil {
		f.named[*ref] = f.watch(*ref)
	}
	f.named[*ref].followers[follower] = true
}

// watch begins to watch a ConfigMap. The caller holds the lock.
func (f *followed) watch(ref types.NamespacedName) *one {
	ctx, cancel := context.WithCancel(f.context)
	o := &one{followers: map[types.NamespacedName]bool{}, cancel: cancel}
	tell := func() { f.tell(ref) }
	o.informer = cache.NewSharedIndexInformer(o.source(f, ref, tell), &corev1.ConfigMap{}, 0, nil)
	_ = o.informer.SetTransform(trim) // fails only for one that runs
	_, _ = o.informer.AddEventHandler(onAny(func(metav1.Object) { tell() }))
	f.running.Go(func() { o.informer.RunWithContext(ctx) })
	f.running.Go(func() { // a ConfigMap that is not there makes no event
		if cache.WaitForCacheSync(ctx.Done(), o.informer.HasSynced) {
			tell()
		}
	})
	return o
}

// source asks for one ConfigMap, and notes what the server says.
func (o *one) source(f *followed, ref types.NamespacedName, tell func()) *cache.ListWatch {
	maps := f.kube.CoreV1().ConfigMaps(ref.Namespace)
	note := func(err error) {
		if o.note(err) {
			tell()
		}
	}
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			f.by.ask(ref, &options)
			list, err := maps.List(ctx, options)
			note(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			f.by.ask(ref, &options)
			w, err := maps.Watch(ctx, options)
			note(err)
			return w, err
		},
	}
}

// note takes over what the server said, and says whether that is news.
func (o *one) note(err error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	same := apierrors.IsForbidden(o.err) == apierrors.IsForbidden(err)
	o.err = err
	return !same
}

// trim keeps what a ConfigMap says.
func trim(o any) (any, error) {
	m, is := o.(*corev1.ConfigMap)
	if !is {
		return o, nil
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, UID: m.UID, ResourceVersion: m.ResourceVersion},
		Data:       m.Data, BinaryData: m.BinaryData,
	}, nil
}

// tell names those who follow a ConfigMap.
func (f *followed) tell(ref types.NamespacedName) {
	f.mu.Lock()
	var all []types.NamespacedName
	if o := f.named[ref]; o != nil {
		for follower := range o.followers {
			all = append(all, follower)
		}
	}
	f.mu.Unlock()
	for _, follower := range all {
		f.changed(follower)
	}
}

// read gives what a ConfigMap says that is followed by its name. The error is errUnread before the server has answered.
func (f *followed) read(ref types.NamespacedName) (Parameters, error) {
	all, err := f.there(ref)
	switch {
	case err != nil:
		return Parameters{}, err
	case len(all) == 0:
		return Parameters{}, BadParameters{Why: fmt.Errorf("ConfigMap %s: there is none: make it, or remove parametersRef", ref)}
	}
	return all[0], nil
}

// there gives what the ConfigMaps say that are followed by a reference, in order of their names. The error is as read's.
func (f *followed) there(ref types.NamespacedName) ([]Parameters, error) {
	f.mu.Lock()
	o := f.named[ref]
	f.mu.Unlock()
	if o == nil {
		return nil, errUnread
	}
	o.mu.Lock()
	err := o.err
	o.mu.Unlock()
	if apierrors.IsForbidden(err) {
		return nil, BadParameters{Why: fmt.Errorf("%s: the control plane may not read it: let the chart's value gatewayAPI.parametersNamespaces hold %s", f.by.call(ref), ref.Namespace)}
	}
	switch synced := o.informer.HasSynced(); {
	case !synced && err != nil:
		return nil, fmt.Errorf("%s: %w", f.by.call(ref), err)
	case !synced:
		return nil, errUnread
	}
	var out []Parameters
	for _, held := range o.informer.GetStore().List() {
		m := held.(*corev1.ConfigMap)
		named := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		for key := range m.BinaryData {
			return nil, BadParameters{Why: fmt.Errorf("ConfigMap %s: binaryData.%s: write it in data, as text", named, key)}
		}
		out = append(out, Parameters{NamespacedName: named, Data: m.Data})
	}
	slices.SortFunc(out, func(a, b Parameters) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// wait ends when all watches have.
func (f *followed) wait() { f.running.Wait() }

// isBad says whether an error is about parameters.
func isBad(err error) bool {
	var bad BadParameters
	return errors.As(err, &bad)
}
