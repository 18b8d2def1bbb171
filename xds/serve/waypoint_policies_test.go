package serve_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/api/v1alpha1"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

const waypointGateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: shop}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE}]}
`

// TestWaypointIsToldOfItsHosts: a waypoint hears of policies when a host outside comes behind it, and of edits as far as they are about that.
func TestWaypointIsToldOfItsHosts(t *testing.T) {
	allows := func(ns, revision, host string) *config.Object {
		return &config.Object{
			Key: config.Key{Kind: config.KindEgressPolicy, Namespace: ns, Name: "list"}, Revision: revision,
			Spec: &v1alpha1.EgressPolicy{Rules: []*v1alpha1.Rule{{Action: v1alpha1.Action_Allow, Hosts: []string{host}}}},
		}
	}
	made := decode.File("gateway.yaml", []byte(waypointGateway))
	if len(made.Findings) > 0 {
		t.Fatal(made.Findings)
	}
	l := newLab(t, everybody, append(gatewayPod("10.0.0.2"), &made.Objects[0], allows("shop", "one", "other.test"))...)
	n := node("waypoint-1", "shop", "gateway.networking.k8s.io/gateway-name", "waypoint")
	n.Id = "waypoint~10.0.0.9~waypoint-1.shop~shop.svc.cluster.local"
	c := l.connect(n)
	c.ask(resource.Extension, envoy.FilterRoot, envoy.FilterOwn)
	c.take(resource.Extension)
	l.apply(allows("shop", "two", "another.test"))
	c.quiet()

	out := entry("shop", "out", "out.test")
	out.Labels = map[string]string{"istio.io/use-waypoint": "waypoint"}
	l.apply(out)
	if a := c.next(resource.Extension); !slices.Equal(a.names(), []string{envoy.FilterOwn}) {
		t.Errorf("with a host outside %v are told", a.names())
	}
	c.ack(resource.Extension)
	l.apply(allows("shop", "three", "other.test"))
	c.quiet()
	l.apply(allows("shop", "four", "out.test"))
	if a := c.next(resource.Extension); !slices.Equal(a.names(), []string{envoy.FilterOwn}) {
		t.Errorf("of a rule for the host %v are told", a.names())
	}
	c.ack(resource.Extension)
}
