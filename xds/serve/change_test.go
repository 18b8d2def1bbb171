package serve_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// aboutPaths are two policies of a namespace: somebody is asked about one path, and another one is denied.
func aboutPaths(asked *config.Object, ns, asks, denies string) []*config.Object {
	at := func(path string) []*security.Rule {
		return []*security.Rule{{To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{path}}}}}}
	}
	spec := asked.Spec.(*security.AuthorizationPolicy)
	a, d := &config.Object{Key: asked.Key}, &config.Object{Key: asked.Key}
	a.Key.Namespace, d.Key.Namespace, d.Key.Name = ns, ns, "denied"
	a.Spec = &security.AuthorizationPolicy{Action: spec.Action, ActionDetail: spec.ActionDetail, Rules: at(asks)}
	d.Spec = &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_DENY, Rules: at(denies)}
	return []*config.Object{a, d}
}

// TestTwoChangeAtOnce: where somebody is asked about something else, and what is denied changes, too, what was asked about until then is denied until Envoy has
// taken what judges by itself.
func TestTwoChangeAtOnce(t *testing.T) {
	l, asked := providing(t)
	l.apply(aboutPaths(asked, "default", "/a", "/b")...)
	c := l.filtering(node("app", "default"), envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterAuthzRequests)
	c.quiet()
	for _, change := range [][2]string{{"/b", "/a"}, {"/a", "/b"}} {
		c.apply(aboutPaths(asked, "default", change[0], change[1])...)
		c.theseFilters("first it is asked, and denied", envoy.FilterCustom)
		c.theseFilters("then other things are denied", envoy.FilterAuthzRequests)
		c.theseFilters("then it is asked", envoy.FilterCustom)
		c.quiet()
	}
	c.apply(aboutPaths(asked, "default", "/b", "/a")...)
	if a := c.next(resource.Extension); !slices.Equal(a.names(), []string{envoy.FilterCustom}) {
		t.Fatalf("first it is asked, and denied: %+v", a)
	}
	c.apply(aboutPaths(asked, "default", "/a", "/b")...) // before Envoy has taken that
	c.ack(resource.Extension)
	c.theseFilters("then it is asked as before", envoy.FilterCustom)
	c.quiet()
}

// TestTheyChangeOnAndOn: where policies change again each time before Envoy has taken what was sent, what is sent meanwhile stays as small as for one change,
// what judges by itself comes all the same, and in the end Envoy has what others have who come only then.
func TestTheyChangeOnAndOn(t *testing.T) {
	egress := node("egress-1", "istio-system", "istio", "egressgateway")
	egress.Id = "router" + strings.TrimPrefix(egress.GetId(), "sidecar")
	for name, role := range map[string]struct {
		node   *core.Node
		ns     string
		judges string
		nobody bool // is asked when it begins
	}{
		"sidecar":               {node("app", "default"), "default", envoy.FilterAuthzRequests, false},
		"egress gateway":        {egress, "istio-system", envoy.FilterAuthz, false},
		"first nobody is asked": {node("app", "default"), "default", envoy.FilterAuthzRequests, true},
	} {
		t.Run(name, func(t *testing.T) {
			l, asked := providing(t, gatewayPod("10.0.0.2")...)
			change := func(i int) []*config.Object {
				return aboutPaths(asked, role.ns, fmt.Sprintf("/asked-%03d", i), fmt.Sprintf("/denied-%03d", i))
			}
			l.apply(change(0)...)
			filters := []string{envoy.FilterCustom, envoy.FilterAuthorizer, role.judges}
			c := l.filtering(role.node, filters...)
			if role.nobody {
				l.remove(change(0)[0])
				c.filters("nobody is asked")
			}
			has, most, judged := map[string]string{}, 0, 0
			see := func(a answer) {
				t.Helper()
				maps.Copy(has, a.versions)
				size := a.sizes[envoy.FilterCustom]
				if most == 0 {
					most = 4 * size
				}
				if size > most {
					t.Fatalf("it grows: %d bytes, where the first had %d", size, most/4)
				}
				if a.has(role.judges) {
					judged++
				}
			}
			const times = 24
			for i := range times {
				l.apply(change(i + 1)...)
				if i > 0 {
					c.ack(resource.Extension)
				} else if role.nobody {
					c.reaches()
				}
				see(c.next(resource.Extension))
			}
			if judged < times/4 {
				t.Errorf("while policies change on and on, Envoy is told %d times of %d what is denied", judged, times)
			}
			other := l.connect(&core.Node{Id: role.node.GetId(), Metadata: role.node.GetMetadata()})
			other.ask(resource.Extension, filters...)
			want := other.take(resource.Extension).versions
			for left := 5; has[envoy.FilterCustom] != want[envoy.FilterCustom] || has[role.judges] != want[role.judges]; left-- {
				if left == 0 {
					t.Fatalf("it does not come to an end: %v, want %v", has, want)
				}
				c.ack(resource.Extension)
				see(c.next(resource.Extension))
			}
			c.ack(resource.Extension)
			c.quiet()
		})
	}
}
