package watch

import (
	"context"
	"log/slog"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

type runtimeObject = runtime.Object

// clients share one HTTP client, and so one connection.
type clients struct {
	rest     rest.Interface
	metadata metadata.Interface
}

func newClients(config *rest.Config) (*clients, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0 // of a whole request; it would end watches
	h, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	m, err := metadata.NewForConfigAndClient(config, h)
	if err != nil {
		return nil, err
	}
	types := runtime.NewScheme()
	if err := corev1.AddToScheme(types); err != nil {
		return nil, err
	}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	core, err := rest.RESTClientForConfigAndClient(config, h)
	if err != nil {
		return nil, err
	}
	return &clients{rest: core, metadata: m}, nil
}

// core lists and watches objects of the core group, in all namespaces.
func (c *clients) core(resource, fields string) *cache.ListWatch {
	return cache.NewFilteredListWatchFromClient(c.rest, resource, metav1.NamespaceAll, func(o *metav1.ListOptions) { o.FieldSelector = fields })
}

func (c *clients) namespaces() *cache.ListWatch {
	r := c.metadata.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	return &cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return r.List(ctx, o) },
		WatchFuncWithContext: r.Watch,
	}
}

// kind is a kind of objects and its informer.
type kind struct {
	name     string
	log      *slog.Logger
	informer cache.Controller
	failing  atomic.Bool
}

// observed says once that a kind cannot be read, and once that it can again.
func (k *kind) observed(from *cache.ListWatch) *cache.ListWatch {
	inner := cache.ToListerWatcherWithContext(from)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := inner.ListWithContext(ctx, o)
			k.note(ctx, err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := inner.WatchWithContext(ctx, o)
			k.note(ctx, err)
			return w, err
		},
	}
}

func (k *kind) note(ctx context.Context, err error) {
	switch failing := err != nil; {
	case ctx.Err() != nil || k.failing.Swap(failing) == failing:
	case failing:
		k.log.Warn("the API server does not give this; what is known stays in force", "resource", k.name, "error", err)
	default:
		k.log.Info("the API server gives this again", "resource", k.name)
	}
}
