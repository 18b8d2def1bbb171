package watch

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/sallyport/sallyport/sidecar/nodeguard"
)

// Options say what to watch.
type Options struct {
	Node     string // this node's name
	Services bool   // learn Services' addresses one by one
	Log      *slog.Logger
}

// Watcher is what is known of the cluster.
type Watcher struct {
	kinds                             []*kind
	pods, nodes, namespaces, services cache.Store
	changed                           chan struct{}
}

// New makes a watcher. It does not connect yet.
func New(config *rest.Config, o Options) (*Watcher, error) {
	c, err := newClients(config)
	if err != nil {
		return nil, err
	}
	w := &Watcher{changed: make(chan struct{}, 1)}
	w.pods = w.add("pods", c.core("pods", "spec.nodeName="+o.Node), &corev1.Pod{}, trimPod, o.Log)
	w.nodes = w.add("nodes", c.core("nodes", ""), &corev1.Node{}, trimNode, o.Log)
	w.namespaces = w.add("namespaces", c.namespaces(), &metav1.PartialObjectMetadata{}, trimNamespace, o.Log)
	if o.Services {
		w.services = w.add("services", c.core("services", ""), &corev1.Service{}, trimService, o.Log)
	}
	return w, nil
}

// add makes the informer of a kind.
func (w *Watcher) add(name string, from *cache.ListWatch, object runtimeObject, lean cache.TransformFunc, log *slog.Logger) cache.Store {
	k := &kind{name: name, log: log}
	signal := func(any) {
		select {
		case w.changed <- struct{}{}:
		default: // one is waiting already
		}
	}
	var store cache.Store
	store, k.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: k.observed(from), ObjectType: object, Transform: lean,
		Handler: cache.ResourceEventHandlerFuncs{AddFunc: signal, DeleteFunc: signal, UpdateFunc: func(_, o any) { signal(o) }},
	})
	w.kinds = append(w.kinds, k)
	return store
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, k := range w.kinds {
		running.Go(func() { k.informer.RunWithContext(ctx) })
	}
	running.Wait()
}

// Synced waits until everything was listed once, or ctx ends.
func (w *Watcher) Synced(ctx context.Context) error {
	for _, k := range w.kinds {
		select {
		case <-k.informer.HasSyncedChecker().Done():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Changed has an element when the view may have changed since the last one was taken out.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// View is what is known now.
func (w *Watcher) View() nodeguard.View {
	v := nodeguard.View{Namespaces: map[string]map[string]string{}}
	for _, o := range w.pods.List() {
		p := o.(*corev1.Pod)
		v.Pods = append(v.Pods, nodeguard.Pod{
			Namespace: p.Namespace, Name: p.Name, Labels: p.Labels, Addresses: podAddresses(p), HostNetwork: p.Spec.HostNetwork,
			Ended: p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		})
	}
	for _, o := range w.nodes.List() {
		n := o.(*corev1.Node)
		v.Nodes = append(v.Nodes, nodeguard.Node{Name: n.Name, PodNetworks: podNetworks(n), Addresses: nodeAddresses(n)})
	}
	for _, o := range w.namespaces.List() {
		n := o.(*metav1.PartialObjectMetadata)
		v.Namespaces[n.Name] = n.Labels
	}
	if w.services != nil {
		for _, o := range w.services.List() {
			v.Services = append(v.Services, parseAll(o.(*corev1.Service).Spec.ClusterIPs)...)
		}
	}
	return v
}

// parseAll leaves out what is no address, such as "None".
func parseAll(texts []string) []netip.Addr {
	var list []netip.Addr
	for _, text := range texts {
		if a, err := netip.ParseAddr(text); err == nil {
			list = append(list, a.Unmap())
		}
	}
	return list
}
