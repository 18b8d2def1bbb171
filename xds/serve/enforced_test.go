package serve_test

import (
	"testing"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/serve"
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

	l.apply(second)
	c.take(resource.Extension)
	g.next(resource.Extension)
	l.enforcing("another edition", second, "two", 2, 1)
	g.refuse(resource.Extension, "no such thing")
	l.enforcing("which is refused", second, "two", 2, 1)
}
