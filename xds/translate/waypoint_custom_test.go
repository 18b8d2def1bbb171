package translate_test

import (
	"os/exec"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/wire"
)

// customFor is customOf for a Service that has a waypoint.
func customFor(ns, service, provider string) config.Object {
	o := customOf(ns, "asks-"+service, provider, nil)
	o.Spec.(*security.AuthorizationPolicy).TargetRefs = []*typev1beta1.PolicyTargetReference{{Kind: "Service", Name: service}}
	return o
}

// waypointWith is what a waypoint has with further objects, and the chains of its listener, by name.
func waypointWith(t *testing.T, more ...config.Object) (v *translate.View, chains map[string]string) {
	t.Helper()
	c := authorizers(cases(t)["waypoint"])
	c.objects = append(append([]config.Object{}, c.objects...), more...)
	s := c.snapshot()
	v = classView(s, c.node)
	l := &listenerv3.Listener{}
	r, _ := v.Get(resource.Listener, wire.WaypointListener)
	if err := r.Any().UnmarshalTo(l); err != nil {
		t.Fatal(err)
	}
	chains = map[string]string{}
	for _, chain := range l.FilterChains {
		chains[chain.Name] = chain.String()
	}
	return v, chains
}

// TestCustomAtWaypoint: a policy that has somebody asked before a Service is in that Service's table, and changes no chain in which requests are read, and nothing of
// other Services; each Service has its own provider, and what nobody can be asked about is closed there alone.
func TestCustomAtWaypoint(t *testing.T) {
	const web, plain = "inbound-vip|80|http|web.shop.svc.cluster.local", "inbound-vip|5432|tcp|web.shop.svc.cluster.local"
	before, without := waypointWith(t)
	for _, c := range []struct{ provider, says, closes string }{
		{"grpc", wire.RuleAsks + "|", "|grpc|"},
		{"http", wire.RuleAsks + "|", ""}, // it is failOpen: connections pass
		{"closing", wire.RuleAsks + "|", "about%20requests%20alone"},
		{"unheard-of", wire.RuleDenies + "|", "have%20no%20unheard-of"},
	} {
		v, chains := waypointWith(t, customFor("shop", "web", c.provider))
		table, _ := v.Get(resource.Route, web)
		if text := string(table.Value()); !strings.Contains(text, c.says+"AuthorizationPolicy/shop/asks-web") || !strings.Contains(text, envoy.FilterCustom) {
			t.Errorf("%s: the table says nothing of it", c.provider)
		}
		if !strings.Contains(chains[plain], c.closes) {
			t.Errorf("%s: of connections: %s", c.provider, chains[plain])
		}
		for name, chain := range without {
			if name != plain && chains[name] != chain {
				t.Errorf("%s: chain %s differs", c.provider, name)
			}
		}
		before.Walk(resource.Route, func(r *resource.Resource) bool {
			if now, there := v.Get(resource.Route, r.Name); r.Name != web && (!there || now.Version != r.Version) {
				t.Errorf("%s: table %s differs", c.provider, r.Name)
			}
			return true
		})
		for _, cluster := range []string{"authorizer|9191||authz.test", "authorizer|9192||authz.test"} {
			if _, there := v.Get(resource.Cluster, cluster); !there {
				t.Errorf("%s: no cluster %s", c.provider, cluster)
			}
		}
		besides, _ := waypointWith(t, customFor("shop", "web", c.provider), customFor("shop", "plain", "http"))
		if now, _ := besides.Get(resource.Route, web); now.Version != table.Version {
			t.Errorf("%s: another Service's provider changes the table", c.provider)
		}
	}
}

// TestCustomAtWaypointFollows: whichever comes first, a policy or the provider's host, and whatever becomes of that, what a waypoint has is what it would have from nothing.
func TestCustomAtWaypointFollows(t *testing.T) {
	c := authorizers(cases(t)["waypoint"])
	host := c.objects[len(c.objects)-1]
	if host.Name != "authz" {
		t.Fatalf("%s is not the provider's host", host.Key)
	}
	elsewhere, policy := entryOf(host.Namespace, "10.9.9.99"), customFor("shop", "web", "grpc")
	r := registry.New(&c.mesh)
	var all []config.Change
	for i := range c.objects[:len(c.objects)-1] {
		all = append(all, config.Change{Key: c.objects[i].Key, Object: &c.objects[i]})
	}
	s, _ := r.Apply(all)
	tr := translate.NewTranslator()
	v := tr.Build(s, translate.Classify(s, c.node))
	for _, step := range []struct {
		what   string
		key    config.Key
		object *config.Object
	}{
		{"the provider comes", host.Key, &host},
		{"and goes", host.Key, nil},
		{"a policy without it", policy.Key, &policy},
		{"the provider comes after", host.Key, &host},
		{"it moves", host.Key, &elsewhere},
		{"it goes under the policy", host.Key, nil},
		{"and comes back", host.Key, &host},
		{"the policy goes", policy.Key, nil},
	} {
		next, changed := r.Apply([]config.Change{{Key: step.key, Object: step.object}})
		tr.Forget(changed)
		v, _ = tr.Update(v, next, changed)
		sameView(t, step.what, v, next)
	}
}

// TestEnvoyAcceptsCustomAtWaypoint runs the real Envoy over what a waypoint is given that has several authorizers to ask.
func TestEnvoyAcceptsCustomAtWaypoint(t *testing.T) {
	binary := envoytest.Binary(t)
	for _, provider := range []string{"grpc", "http", "closing", "unheard-of"} {
		c := authorizers(cases(t)["waypoint"])
		c.objects = append(append([]config.Object{}, c.objects...), customFor("shop", "web", provider))
		s := c.snapshot()
		b := static(t, classView(s, c.node))
		translate.BuildPolicies(s, translate.PolicedBy(s, c.node)).Walk(resource.Extension, func(r *resource.Resource) bool {
			placed(t, b, r.Name, r)
			return true
		})
		file := envoytest.Write(t, b)
		if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "error", "-c", file).CombinedOutput(); err != nil {
			t.Errorf("%s: Envoy refuses it: %v\n%s", provider, err, out)
		}
	}
}
