package serve_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/ambient"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
	"github.com/sallyport/sallyport/xds/translate"
	meta "github.com/sallyport/sallyport/xds/wire"
)

func egressPolicy(ns, name, revision string) *config.Object {
	return &config.Object{
		Key: config.Key{Kind: config.KindEgressPolicy, Namespace: ns, Name: name}, Revision: revision,
		Spec: &v1alpha1.EgressPolicy{ServiceAccounts: []string{"app"}, Default: v1alpha1.Action_Deny, Rules: []*v1alpha1.Rule{{Name: revision, Action: v1alpha1.Action_Deny}}},
	}
}

// enforcing waits until proxies are so far with a policy.
func (l *lab) enforcing(what string, o *config.Object, revision string, selected, current int) {
	l.t.Helper()
	var e serve.Enforcement
	l.becomes(what, func() bool {
		e = l.cache.Enforcing([]config.Key{o.Key})[o.Key]
		return e.Revision == revision && e.Selected == selected && e.Current == current && (e.Behind == "") == (selected == current)
	})
}

// TestEnforcing: a policy is kept by a gateway when it has what its index leads to, too, and by the sidecars that it selects when they
// said that they have it.
func TestEnforcing(t *testing.T) {
	l := newLab(t, everybody, gatewayPod("10.0.0.2")...)
	first, second := egressPolicy("shop", "list", "one"), egressPolicy("shop", "list", "two")
	l.apply(first)
	l.enforcing("nobody is there", first, "one", 0, 0)

	sidecar := node("app", "shop")
	sidecar.Metadata.Fields[serve.MetaAccount] = structpb.NewStringValue("app")
	c := l.connect(sidecar)
	c.ask(resource.Extension, envoy.FilterRoot, envoy.FilterOwn)
	c.next(resource.Extension)
	l.enforcing("a sidecar has not spoken yet", first, "one", 1, 0)
	c.ack(resource.Extension)
	l.enforcing("a sidecar has it", first, "one", 1, 1)
	other := l.connect(node("other", "cart"))
	other.ask(resource.Extension, envoy.FilterRoot, envoy.FilterOwn)
	other.take(resource.Extension)
	l.enforcing("others do not count", first, "one", 1, 1)

	gateway := node("egress-1", "istio-system", "istio", "egressgateway")
	gateway.Id = "router~10.0.0.2~egress-1.istio-system~istio-system.svc.cluster.local"
	g := l.connect(gateway)
	g.ask(resource.Extension, envoy.FilterRoot, envoy.FilterRootLed, envoy.FilterOwn, envoy.FilterOwnLed, envoy.FilterAuthz)
	g.take(resource.Extension)
	l.enforcing("the gateway has no more than its index", first, "one", 2, 1)
	g.ask(resource.Extension, "own/shop")
	g.take(resource.Extension)
	l.enforcing("it has what that leads to", first, "one", 2, 2)

	if got := l.cache.Gateways(); !slices.Equal(got, []string{"10.0.0.2"}) {
		t.Errorf("gateways that are connected: %v", got)
	}

	l.apply(second)
	c.take(resource.Extension)
	g.next(resource.Extension)
	l.enforcing("another edition", second, "two", 2, 1)
	g.refuse(resource.Extension, "no such thing")
	l.enforcing("which is refused", second, "two", 2, 1)
	l.refusing("by the gateway, in its words", second, gateway.Id, "no such thing")
}

// refusing waits until a proxy refuses a policy with these words.
func (l *lab) refusing(what string, o *config.Object, who, words string) {
	l.t.Helper()
	l.becomes(what, func() bool {
		e := l.cache.Enforcing([]config.Key{o.Key})[o.Key]
		return e.Refuses == who && e.Refusal == words
	})
}

// TestRefusalOfOthers: what a gateway refuses of one namespace's policies counts for that one alone, and where it refuses what several wrote, none
// reads words that may be about another's.
func TestRefusalOfOthers(t *testing.T) {
	shop, cart, everywhere := egressPolicy("shop", "list", "1"), egressPolicy("cart", "list", "1"), egressPolicy("istio-system", "all", "1")
	everywhere.Spec.(*v1alpha1.EgressPolicy).Namespaces = &v1alpha1.NamespaceSelector{Names: []string{"shop"}} // so that there is an index
	l := newLab(t, everybody, append(gatewayPod("10.0.0.2"), shop, cart, everywhere)...)
	gateway := node("egress-1", "istio-system", "istio", "egressgateway")
	gateway.Id = "router~10.0.0.2~egress-1.istio-system~istio-system.svc.cluster.local"
	g := l.connect(gateway)
	g.ask(resource.Extension, envoy.FilterRoot, envoy.FilterRootLed, envoy.FilterOwn, envoy.FilterOwnLed, envoy.FilterAuthz, "own/shop", "own/cart")
	g.take(resource.Extension)
	l.enforcing("shop's", shop, "1", 1, 1)
	l.enforcing("cart's", cart, "1", 1, 1)
	l.enforcing("what the root namespace's index leads to was not asked for", everywhere, "1", 1, 0)

	shop2, cart2 := egressPolicy("shop", "list", "2"), egressPolicy("cart", "list", "2")
	l.apply(shop2)
	g.next(resource.Extension)
	g.refuse(resource.Extension, "own/shop is odd")
	l.refusing("shop reads why", shop2, gateway.Id, "own/shop is odd")
	l.enforcing("cart is not touched", cart, "1", 1, 1)

	l.apply(egressPolicy("shop", "list", "3"), cart2)
	g.next(resource.Extension)
	g.refuse(resource.Extension, "own/cart is odd")
	l.refusing("cart reads nothing about both", cart2, gateway.Id, "")
	l.refusing("nor does shop", shop2, gateway.Id, "")
}

// TestNodesAndWaypointsEnforce: nodes count for the namespaces of their pods, and waypoints for policies that may decide about hosts before which they stand.
func TestNodesAndWaypointsEnforce(t *testing.T) {
	one := ambient.Pod{Namespace: "one", Name: "a", In: true}
	made := decode.File("gateway.yaml", []byte(waypointGateway))
	if len(made.Findings) > 0 {
		t.Fatal(made.Findings)
	}
	narrow := egressPolicy("istio-system", "narrow", "1")
	narrow.Spec.(*v1alpha1.EgressPolicy).Namespaces = &v1alpha1.NamespaceSelector{Names: []string{"two"}}
	own, other, everywhere := egressPolicy("one", "p", "1"), egressPolicy("two", "p", "1"), egressPolicy("istio-system", "wide", "1")
	l := newLab(t, func(_ context.Context, n translate.Node) (translate.Node, error) {
		if n.IsAmbient() {
			n.On = "node-1"
		}
		return n, nil
	}, &made.Objects[0], own, other, everywhere, narrow)
	l.cache.FollowPods(func(string) []ambient.Pod { return []ambient.Pod{one} })
	c := l.connect(&core.Node{Id: "ztunnel~10.0.0.1~n.istio-system~istio-system.svc.cluster.local"})
	c.ask(resource.Extension, envoy.FilterOwn, envoy.FilterRoot)
	c.next(resource.Extension)
	l.enforcing("its pod's namespace", own, "1", 1, 0)
	c.ack(resource.Extension)
	l.enforcing("the node has it", own, "1", 1, 1)
	l.enforcing("what is for all", everywhere, "1", 1, 1)
	l.enforcing("another namespace", other, "1", 0, 0)
	l.enforcing("what is for another namespace", narrow, "1", 0, 0)

	n := node("waypoint-1", "shop", "gateway.networking.k8s.io/gateway-name", "waypoint")
	n.Id = "waypoint~10.0.0.9~waypoint-1.shop~shop.svc.cluster.local"
	w := l.connect(n)
	w.ask(resource.Extension, envoy.FilterRoot, envoy.FilterOwn)
	w.take(resource.Extension)
	l.enforcing("it stands before nothing outside", other, "1", 0, 0)
	out := entry("shop", "out", "out.test")
	out.Labels = map[string]string{"istio.io/use-waypoint": "waypoint"}
	l.apply(out)
	w.next(resource.Extension)
	l.enforcing("a host came behind it", other, "1", 1, 0)
	w.ack(resource.Extension)
	l.enforcing("the waypoint has it", other, "1", 1, 1)
}

// TestEndless: of the proxies that keep a policy those are named that say that they can end nothing, not those that say nothing.
func TestEndless(t *testing.T) {
	l := newLab(t, everybody)
	policy := egressPolicy("shop", "list", "one")
	l.apply(policy)
	for name, says := range map[string]string{"app-1": meta.EndsNone, "app-2": "true", "app-3": "", "app-0": meta.EndsNone, "app-4": meta.EndsTraced} {
		sidecar := node(name, "shop")
		sidecar.Metadata.Fields[serve.MetaAccount] = structpb.NewStringValue("app")
		if says != "" {
			sidecar.Metadata.Fields[meta.EndsConnectionsMetadata] = structpb.NewStringValue(says)
		}
		c := l.connect(sidecar)
		c.ask(resource.Extension, envoy.FilterRoot, envoy.FilterOwn)
		c.take(resource.Extension)
	}
	l.enforcing("all have it", policy, "one", 5, 5)
	e := l.cache.Enforcing([]config.Key{policy.Key})[policy.Key]
	if both := e.Add(serve.Enforcement{Endless: 1, EndlessAt: "z"}); e.Endless != 2 || !strings.Contains(e.EndlessAt, "app-0") || both.Endless != 3 || both.EndlessAt != e.EndlessAt {
		t.Errorf("%+v, with another replica's %+v", e, both)
	}
	for _, p := range l.cache.Proxies() {
		if want := strings.Contains(p.ID, "app-0") || strings.Contains(p.ID, "app-1"); (p.Ends == meta.EndsNone) != want {
			t.Errorf("%s: %q", p.ID, p.Ends)
		}
	}
	untraced := mesh.Default()
	untraced.TraceProxies = false
	l.cache.Publish(l.registry.SetMesh(&untraced))
	if e := l.cache.Enforcing([]config.Key{policy.Key})[policy.Key]; e.Endless != 3 {
		t.Errorf("where no agent may trace its Envoy: %+v", e)
	}
}

// TestWhatEndsRequestsComesFirst: a rule that ends lets nobody through before there is what ends requests with it, and a policy's edit that changes nothing of that does not wait.
func TestWhatEndsRequestsComesFirst(t *testing.T) {
	l := newLab(t, everybody)
	l.apply(egressPolicy("shop", "list", "one"))
	sidecar := node("app", "shop")
	sidecar.Metadata.Fields[serve.MetaAccount] = structpb.NewStringValue("app")
	c := l.connect(sidecar)
	ends := []string{envoy.FilterLeaving, envoy.FilterLeavingLasts}
	c.ask(resource.Extension, append([]string{envoy.FilterRoot, envoy.FilterOwn, envoy.FilterLeavingTells}, ends...)...)
	c.take(resource.Extension)

	for _, step := range []struct {
		what    string
		expires *timestamppb.Timestamp
		changes bool
	}{
		{"the first rule that ends", timestamppb.New(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)), true},
		{"another end", timestamppb.New(time.Date(2099, 1, 2, 0, 0, 0, 0, time.UTC)), false},
		{"no end", nil, true},
	} {
		policy := egressPolicy("shop", "list", step.what)
		policy.Spec.(*v1alpha1.EgressPolicy).Rules = []*v1alpha1.Rule{{Hosts: []string{"a.test"}, Action: v1alpha1.Action_Allow, Name: "for now", Expires: step.expires}}
		l.apply(policy)
		if step.changes {
			if a := c.next(resource.Extension); !slices.Equal(a.names(), ends) {
				t.Errorf("%s: sent at first: %v", step.what, a.names())
			}
			c.quiet()
			c.ack(resource.Extension)
		}
		if a := c.take(resource.Extension); !slices.Equal(a.names(), []string{envoy.FilterOwn}) {
			t.Errorf("%s: sent then: %v", step.what, a.names())
		}
		l.enforcing(step.what+" is in force", policy, step.what, 1, 1)
	}
}

// TestAnExitsTableComesFirst: what the mesh's first rule that ends says comes to a gateway when its table has turned on what ends requests by it; an edit that changes nothing of the table does not wait, nor does
// one whose table is refused.
func TestAnExitsTableComesFirst(t *testing.T) {
	l := newLab(t, everybody, append(gatewayPod("10.0.0.2"), egressPolicy("shop", "list", "one"))...)
	gateway := node("egress-1", "istio-system", "istio", "egressgateway")
	gateway.Id = "router~10.0.0.2~egress-1.istio-system~istio-system.svc.cluster.local"
	g := l.connect(gateway)
	g.ask(resource.Extension, envoy.FilterRoot, envoy.FilterRootLed, envoy.FilterOwn, envoy.FilterOwnLed, "own/shop")
	g.take(resource.Extension)
	g.ask(resource.Route, meta.ExitRoute)
	g.take(resource.Route)
	edit := func(revision string, expires *timestamppb.Timestamp) {
		policy := egressPolicy("shop", "list", revision)
		policy.Spec.(*v1alpha1.EgressPolicy).Rules = []*v1alpha1.Rule{{Hosts: []string{"a.test"}, Action: v1alpha1.Action_Allow, Name: "for now", Expires: expires}}
		l.apply(policy)
	}
	next := func(what string, types ...resource.Type) {
		t.Helper()
		for _, want := range types {
			if a := g.next(want); want == resource.Extension && !slices.Equal(a.names(), []string{"own/shop"}) {
				t.Errorf("%s: sent %v", what, a.names())
			}
			if want != types[len(types)-1] {
				g.quiet()
			}
			g.ack(want)
		}
	}
	end := timestamppb.New(time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC))
	edit("two", end)
	next("the first rule that ends", resource.Route, resource.Extension)
	edit("three", timestamppb.New(end.AsTime().Add(time.Hour)))
	next("another end", resource.Extension)
	edit("four", nil)
	next("no end", resource.Route, resource.Extension)
	edit("five", end)
	g.next(resource.Route)
	g.quiet()
	g.refuse(resource.Route, "no such thing")
	next("a table that is refused", resource.Extension)
}

// TestPoliciesDoNotWaitForWhatIsRefused: who refuses what ends requests has policies all the same.
func TestPoliciesDoNotWaitForWhatIsRefused(t *testing.T) {
	l := newLab(t, everybody)
	sidecar := node("app", "shop")
	sidecar.Metadata.Fields[serve.MetaAccount] = structpb.NewStringValue("app")
	c := l.connect(sidecar)
	c.ask(resource.Extension, envoy.FilterRoot, envoy.FilterOwn, envoy.FilterLeaving)
	c.take(resource.Extension)
	l.apply(egressPolicy("shop", "list", "one"))
	if a := c.next(resource.Extension); !slices.Equal(a.names(), []string{envoy.FilterLeaving}) {
		t.Fatalf("sent at first: %v", a.names())
	}
	c.refuse(resource.Extension, "no such thing")
	if a := c.take(resource.Extension); !slices.Contains(a.names(), envoy.FilterOwn) {
		t.Errorf("sent then: %v", a.names())
	}
}
