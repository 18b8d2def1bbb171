package route_test

import (
	"slices"
	"testing"

	"github.com/sallyport/sallyport/serviceentry/gatewayapi"
	"github.com/sallyport/sallyport/serviceentry/route"
)

// TestGatewaysAreNoListeners: a VirtualService names Gateways of Istio's, and by no name, in itself or in a match, a listener of the Gateway API.
func TestGatewaysAreNoListeners(t *testing.T) {
	for name, want := range map[string]string{
		"mesh": "mesh", "g": "b/g", "./g": "b/g", "a/g": "a/g", "g.a": "a/g", "g.a.svc.cluster.local": "a/g", "a/g.x": "a/g.x",
		"a/g/http": "a/", "./g/http": "./", "a/g/b/set/tls": "a/", "a//": "a/", "//": "/", "a/": "a/",
	} {
		got := route.Gateways([]string{name}, "b")
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
		v := parse(t, `{hosts: [a.com], gateways: [x/y], http: [{match: [{gateways: ["`+name+`"]}], route: [{destination: {host: b.com}}]}]}`)
		for _, g := range append(got, v.HTTP[0].Matches[0].Gateways...) {
			if _, _, of := gatewayapi.ParseRef(g); of {
				t.Errorf("%q is a listener's name, %q", name, g)
			}
		}
	}
}
