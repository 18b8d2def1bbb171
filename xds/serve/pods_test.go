package serve_test

import (
	"context"
	"sync/atomic"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestNodeHasPoliciesOfItsPods: a node is told of policies of the namespaces that it has pods of, and, unless it is still busy with others, of a
// namespace's policies before its first pod.
func TestNodeHasPoliciesOfItsPods(t *testing.T) {
	var pods atomic.Pointer[[]ambient.Pod]
	one, two := ambient.Pod{Namespace: "one", Name: "a", In: true}, ambient.Pod{Namespace: "two", Name: "b", In: true}
	pods.Store(&[]ambient.Pod{one})
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		n.On = "node-1"
		return n, nil
	})
	l.cache.FollowPods(func(string) []ambient.Pod { return *pods.Load() })
	l.apply(egressPolicy("one", "p", "1"), egressPolicy("two", "p", "1"))
	c := l.connect(&core.Node{Id: "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local"})
	c.ask(resource.Extension, envoy.FilterOwn, envoy.FilterRoot)
	alone := c.take(resource.Extension).sizes[envoy.FilterOwn]
	c.ask(resource.Pod)
	c.take(resource.Pod)
	l.apply(egressPolicy("two", "p", "2"))
	c.quiet()
	l.apply(egressPolicy("one", "p", "2"))
	if a := c.take(resource.Extension); len(a.names()) != 1 || !a.has(envoy.FilterOwn) {
		t.Errorf("an edit of the pod's namespace: %+v", a)
	}
	c.quiet()
	pods.Store(&[]ambient.Pod{one, two})
	l.cache.PodsChanged(map[string]bool{"node-1": true})
	if a := c.take(resource.Extension); a.sizes[envoy.FilterOwn] <= alone { // first
		t.Errorf("a pod of another namespace: %+v, after %d", a, alone)
	}
	if a := c.take(resource.Pod); !a.has(two.Key()) {
		t.Errorf("a pod came, and not to its node: %+v", a)
	}
	c.quiet()
	l.apply(egressPolicy("two", "p", "3"))
	c.take(resource.Extension)
	c.quiet()
	pods.Store(&[]ambient.Pod{two})
	l.cache.PodsChanged(map[string]bool{"node-1": true})
	c.take(resource.Extension)
	c.take(resource.Pod)
	c.quiet()
	l.apply(egressPolicy("one", "p", "3"))
	c.quiet()
}
