package kube

import (
	"context"
	"errors"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// clients make what reflectors read from. All share one HTTP client, and so one connection.
type clients struct {
	config   *rest.Config
	http     *http.Client
	metadata metadata.Interface
	raw      rest.Interface // answers as bytes
	custom   runtime.NegotiatedSerializer
	retries  wait.Backoff
}

func newClients(config *rest.Config, kinds []kind) (*clients, error) {
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
	bare := rest.CopyConfig(config)
	bare.APIPath, bare.GroupVersion = "/apis", &schema.GroupVersion{}
	bare.NegotiatedSerializer, bare.ContentType, bare.AcceptContentTypes = scheme.Codecs.WithoutConversion(), runtime.ContentTypeJSON, runtime.ContentTypeJSON
	raw, err := rest.UnversionedRESTClientForConfigAndClient(bare, h)
	if err != nil {
		return nil, err
	}
	return &clients{config: config, http: h, metadata: m, raw: raw, custom: serializer.NewCodecFactory(typesOf(kinds)).WithoutConversion(), retries: retries}, nil
}

// typesOf tells the codecs of custom objects, which have no Go type of their own: they decode themselves.
func typesOf(kinds []kind) *runtime.Scheme {
	types := runtime.NewScheme()
	for _, k := range kinds {
		if !k.custom {
			continue
		}
		for _, v := range k.versions {
			gv := schema.GroupVersion{Group: k.Group, Version: v}
			name, _, _ := strings.Cut(string(k.Kind), ".") // the server's name has no group
			types.AddKnownTypeWithName(gv.WithKind(name), &item{})
			types.AddKnownTypeWithName(gv.WithKind(name+"List"), &itemList{})
			metav1.AddToGroupVersion(types, gv)
		}
	}
	return types
}

// listerWatcher reads the objects of a kind in one of its versions.
func (c *clients) listerWatcher(k kind, version string) (cache.ListerWatcher, error) {
	gvr := k.WithVersion(version)
	if k.metadataOnly() {
		r := c.metadata.Resource(gvr)
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return r.List(ctx, o)
			},
			WatchFuncWithContext: r.Watch,
		}, nil
	}
	config := rest.CopyConfig(c.config)
	gv := gvr.GroupVersion()
	config.GroupVersion, config.APIPath = &gv, "/apis"
	if gv.Group == "" {
		config.APIPath = "/api"
	}
	if k.custom {
		config.NegotiatedSerializer = c.custom
		config.AcceptContentTypes, config.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	} else {
		config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
		config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
		config.ContentType = runtime.ContentTypeProtobuf
	}
	client, err := rest.RESTClientForConfigAndClient(config, c.http)
	if err != nil {
		return nil, err
	}
	// No retries of the client's own: it would keep for ten seconds to itself that a server is gone.
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.Get().MaxRetries(0).NamespaceIfScoped(k.namespace, k.namespace != "").Resource(k.Resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Get()
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.Watch = true
			return client.Get().MaxRetries(0).NamespaceIfScoped(k.namespace, k.namespace != "").Resource(k.Resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
		},
	}, nil
}

// observed tells the store how each list and watch of a kind goes.
func observed(k kind, from cache.ListerWatcher, list, watched func(kind, error)) cache.ListerWatcher {
	inner := cache.ToListerWatcherWithContext(from)
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = k.selector
			if o.Limit > 0 && o.ResourceVersion != "" && o.ResourceVersion != "0" {
				// Of a list in pages a server takes the version for the very one that is meant. One that came back watches from a later one only, so that a reflector would be
				// given what there was when it had gone, and be told at once that this is too old, until that version is deleted.
				o.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
			}
			result, err := inner.ListWithContext(ctx, o)
			if ctx.Err() == nil {
				list(k, err)
			}
			return result, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = k.selector
			result, err := inner.WatchWithContext(ctx, o)
			if ctx.Err() == nil {
				watched(k, err)
			}
			if err != nil && o.SendInitialEvents != nil && utilnet.IsConnectionRefused(err) {
				// A reflector waits for a server that refuses connections deaf to its context, here; so it is made
				// to go on to a list, whose failure it waits out as it should.
				return nil, errors.New(err.Error())
			}
			return result, err
		},
	}
}
