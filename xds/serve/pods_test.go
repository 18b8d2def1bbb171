package serve_test

import (
	"context"
	"sync/atomic"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1alpha3"

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

// TestOlderAgent: an agent that does not say that it knows templates of namespaces is told that pods which need one stay closed, and has none of
// those templates; another agent of the same node has both.
func TestOlderAgent(t *testing.T) {
	own := ambient.Pod{Namespace: "one", Name: "a", In: true, Outbound: ambient.OutboundOf("one")}
	shared, came := ambient.Pod{Namespace: "two", Name: "b", In: true}, ambient.Pod{Namespace: "one", Name: "c", In: true, Outbound: own.Outbound}
	var pods atomic.Pointer[[]ambient.Pod]
	pods.Store(&[]ambient.Pod{own, shared})
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		n.On = "node-1"
		return n, nil
	})
	l.cache.FollowPods(func(string) []ambient.Pod { return *pods.Load() })
	e := entry("one", "e", "own.com", &networking.ServicePort{Number: 443, Name: "tls", Protocol: "TLS"})
	e.Spec.(*networking.ServiceEntry).ExportTo = []string{"."}
	l.apply(e)
	id := "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local"
	older := l.connect(&core.Node{Id: id})
	said := &structpb.Struct{Fields: map[string]*structpb.Value{ambient.OwnMetadata: structpb.NewStringValue("true")}}
	newer := l.connect(&core.Node{Id: id, Metadata: said})
	for c, knows := range map[*client]bool{older: false, newer: true} {
		c.ask(resource.Listener, "*")
		if got := c.take(resource.Listener); got.has(ambient.OutboundOf("one")) != knows || !got.has(ambient.PodOutbound) {
			t.Errorf("knows templates of namespaces: %t; is given %v", knows, got.names())
		}
		c.ask(resource.Pod)
		holdTold(t, c, knows, own, shared)
	}
	pods.Store(&[]ambient.Pod{own, shared, came})
	l.cache.PodsChanged(map[string]bool{"node-1": true})
	holdTold(t, older, false, came)
	holdTold(t, newer, true, came)
}

// TestUnableAgent: an agent that does not say that it lets the kubelet in is told why a pod that needs that stays closed; one that says so is told the ports.
func TestUnableAgent(t *testing.T) {
	pod := ambient.Pod{Namespace: "one", Name: "a", In: true, Probed: []uint16{80}, Unprobed: "no"}
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		n.On = "node-1"
		return n, nil
	})
	l.cache.FollowPods(func(string) []ambient.Pod { return []ambient.Pod{pod} })
	text := structpb.NewStringValue("true")
	for _, able := range []bool{false, true} {
		says := &structpb.Struct{Fields: map[string]*structpb.Value{ambient.OwnMetadata: text}}
		if able {
			says.Fields[ambient.KubeletMetadata] = text
		}
		c := l.connect(&core.Node{Id: "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local", Metadata: says})
		c.ask(resource.Pod)
		told, err := ambient.Unmarshal(c.take(resource.Pod).values[pod.Key()])
		if err != nil || (told.Why == "") != able || (len(told.Probed) == 1) != able || (told.Unprobed != "") != able {
			t.Errorf("lets the kubelet in: %t; is told %+v (%v)", able, told, err)
		}
	}
}

// holdTold holds what comes of pods.
func holdTold(t *testing.T, c *client, knows bool, want ...ambient.Pod) {
	t.Helper()
	got := c.take(resource.Pod)
	for _, p := range want {
		told, err := ambient.Unmarshal(got.values[p.Key()])
		if err != nil {
			t.Fatal(err)
		}
		if closed := !knows && p.Outbound != ""; (told.Why != "") != closed || closed && told.Outbound != "" || !closed && told.Outbound != p.Outbound {
			t.Errorf("knows templates of namespaces: %t; is told %+v of %+v", knows, told, p)
		}
	}
}
