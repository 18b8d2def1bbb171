package translate_test

import (
	"os/exec"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestEnvoyAcceptsAuthorization runs the real Envoy over what gateways are given of random AuthorizationPolicies, in the place of what
// comes by ECDS.
func TestEnvoyAcceptsAuthorization(t *testing.T) {
	binary := envoytest.Binary(t)
	for seed := range uint64(3) {
		c := cases(t)["gateway"]
		made := registrytest.NewWorld(seed)
		for i := range 40 {
			o := made.Authorization("istio-system", []string{"external.com", "*.wild.com"})
			o.Name, o.Key.Name = o.Name+string(rune('a'+i%26)), o.Key.Name+string(rune('a'+i%26))
			c.objects = append(c.objects, *o)
		}
		s := c.snapshot()
		of := translate.PolicedBy(s, c.node)
		if of.Authz == "" {
			t.Fatal("no policy selects the gateway")
		}
		b := static(t, c.view())
		r, ok := translate.BuildPolicies(s, of).Get(resource.Extension, envoy.FilterAuthz)
		if !ok {
			t.Fatal("nothing for the filter")
		}
		replaced := placed(t, b, envoy.FilterAuthz, r)
		if replaced != 2 {
			t.Fatalf("%d filters: want that of requests, and that of questions", replaced)
		}
		file := envoytest.Write(t, b)
		if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "error", "-c", file).CombinedOutput(); err != nil {
			t.Errorf("Envoy refuses it: %v\n%s", err, out)
		}
	}
}

// TestAuthorizationTouchesWhomItSelects: a policy changes what the gateways have that it selects, and nothing of others, whoever writes
// it; and of a gateway's own resources it is one that changes.
func TestAuthorizationTouchesWhomItSelects(t *testing.T) {
	c := cases(t)["gateway"]
	given := func(ns string, labels map[string]string, more ...config.Object) map[resource.Ref]string {
		with := c
		with.objects = append(append([]config.Object{}, c.objects...), more...)
		s := with.snapshot()
		node := c.node
		node.Namespace, node.Labels = ns, labels
		return policyVersions(translate.BuildPolicies(s, translate.PolicedBy(s, node)))
	}
	own := c.node.Labels
	made := registrytest.NewWorld(1)
	policy := func(ns string, labels map[string]string) config.Object {
		o := *made.Authorization(ns, []string{"external.com"})
		o.Spec = authorizationFor(labels)
		return o
	}
	for _, at := range []struct {
		name   string
		policy config.Object
		ns     string
		labels map[string]string
		want   int
	}{
		{"its own", policy("istio-system", own), "istio-system", own, 1},
		{"from the root namespace", policy("istio-system", own), "team-a", own, 1},
		{"other labels", policy("istio-system", map[string]string{"istio": "else"}), "istio-system", own, 0},
		{"a neighbour's", policy("team-b", own), "istio-system", own, 0},
		{"a neighbour's, at a team's gateway", policy("team-b", own), "team-a", own, 0},
	} {
		if got := differing(given(at.ns, at.labels), given(at.ns, at.labels, at.policy)); len(got) != at.want {
			t.Errorf("%s: %v differs", at.name, got)
		}
	}
}

func authorizationFor(labels map[string]string) *security.AuthorizationPolicy {
	if labels == nil {
		return &security.AuthorizationPolicy{}
	}
	return &security.AuthorizationPolicy{Selector: &typev1beta1.WorkloadSelector{MatchLabels: labels}}
}

// TestInboundAuthorization: what a sidecar keeps of policies is of those that select it, by labels or without, of its own namespace and the
// root namespace; one that targets a Service is a gateway's. Its listener is the same whatever they say.
func TestInboundAuthorization(t *testing.T) {
	c := cases(t)["mtls-sidecar"]
	given := func(more ...config.Object) (policies, others map[resource.Ref]string) {
		with := c
		with.objects = append(append([]config.Object{}, c.objects...), more...)
		return policyVersions(translate.BuildPolicies(with.snapshot(), translate.PolicedBy(with.snapshot(), c.node))), policyVersions(with.view())
	}
	own, other := map[string]string{"app": "web"}, map[string]string{"app": "else"}
	of := func(ns string, p *security.AuthorizationPolicy) config.Object {
		key := config.Key{Kind: config.KindAuthorizationPolicy, Namespace: ns, Name: "p"}
		return config.Object{Key: key, Spec: p}
	}
	for _, at := range []struct {
		name   string
		policy config.Object
		kept   bool
	}{
		{"its own", of("default", authorizationFor(own)), true},
		{"its namespace's", of("default", authorizationFor(nil)), true},
		{"the root namespace's for it", of("istio-system", authorizationFor(own)), true},
		{"the root namespace's for all", of("istio-system", &security.AuthorizationPolicy{}), true},
		{"another pod's", of("default", authorizationFor(other)), false},
		{"a neighbour's", of("team-a", authorizationFor(own)), false},
		{"a neighbour's for all", of("team-a", &security.AuthorizationPolicy{}), false},
		{"a gateway's", of("default", &security.AuthorizationPolicy{TargetRefs: []*typev1beta1.PolicyTargetReference{{Kind: "Service", Name: "web"}}}), false},
		{"one that only marks", of("default", &security.AuthorizationPolicy{Action: security.AuthorizationPolicy_AUDIT, Rules: []*security.Rule{{}}}), true},
	} {
		before, listener := given()
		after, listenerAfter := given(at.policy)
		if differ := differing(listener, listenerAfter); len(differ) > 0 {
			t.Errorf("%s: beside policies %v differs", at.name, differ)
		}
		want := 0
		if at.kept {
			want = 2 // of requests, and of connections
		}
		if differ := differing(before, after); len(differ) != want {
			t.Errorf("%s: %v differs", at.name, differ)
		}
	}
}

// TestIngressAuthorization: what an ingress gateway keeps is of those that select its pods in its own namespace and the root namespace, and
// no listener nor table differs for it; EgressPolicies are nothing to it.
func TestIngressAuthorization(t *testing.T) {
	c := cases(t)["ingress"]
	given := func(more ...config.Object) (policies, others map[resource.Ref]string) {
		with := c
		with.objects = append(append([]config.Object{}, c.objects...), more...)
		return policyVersions(translate.BuildPolicies(with.snapshot(), translate.PolicedBy(with.snapshot(), c.node))), policyVersions(with.view())
	}
	before, base := given()
	if len(before) != 7 {
		t.Errorf("%v: want those of requests, those of connections, each with whom is asked, and that of tokens", before)
	}
	for ns, want := range map[string]int{c.node.Namespace: 2, "istio-system": 2, "elsewhere": 0} {
		o := config.Object{Key: config.Key{Kind: config.KindAuthorizationPolicy, Namespace: ns, Name: "p"}, Spec: authorizationFor(c.node.Labels)}
		after, others := given(o)
		if differ := differing(before, after); len(differ) != want {
			t.Errorf("of namespace %s: %v differs", ns, differ)
		}
		if differ := differing(base, others); len(differ) > 0 {
			t.Errorf("of namespace %s: beside policies %v differs", ns, differ)
		}
	}
}

// TestEnvoyAcceptsInboundAuthorization runs the real Envoy over what sidecars are given of random policies, in the place of what comes by
// ECDS.
func TestEnvoyAcceptsInboundAuthorization(t *testing.T) {
	binary := envoytest.Binary(t)
	c := cases(t)["mtls-sidecar"]
	made := registrytest.NewWorld(5)
	for i := range 60 {
		o := made.Authorization("istio-system", []string{"web.default", "a.test"})
		o.Spec.(*security.AuthorizationPolicy).Selector, o.Spec.(*security.AuthorizationPolicy).TargetRefs = nil, nil
		o.Name, o.Key.Name = o.Name+string(rune('a'+i%26)), o.Key.Name+string(rune('a'+i%26))
		c.objects = append(c.objects, *o)
	}
	s := c.snapshot()
	kept := translate.BuildPolicies(s, translate.PolicedBy(s, c.node))
	held := func(name string) *corev3.TypedExtensionConfig {
		r, ok := kept.Get(resource.Extension, name)
		if !ok {
			t.Fatalf("nothing for %s", name)
		}
		m, err := r.Any().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		return m.(*corev3.TypedExtensionConfig)
	}
	b, requests, connections := static(t, c.view()), 0, 0
	for _, l := range b.StaticResources.Listeners {
		for _, chain := range l.FilterChains {
			for _, f := range chain.GetFilters() {
				if f.Name == envoy.FilterAuthzConnections {
					f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: held(f.Name).TypedConfig}
					connections++
				}
				hcm := &hcmv3.HttpConnectionManager{}
				if f.GetTypedConfig().UnmarshalTo(hcm) != nil {
					continue
				}
				for _, h := range hcm.HttpFilters {
					if h.Name == envoy.FilterAuthzRequests {
						h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: held(h.Name).TypedConfig}
						requests++
					}
				}
				f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: wrap(t, hcm)}
			}
		}
	}
	if requests == 0 || connections == 0 {
		t.Fatalf("%d filters of requests, %d of connections", requests, connections)
	}
	file := envoytest.Write(t, b)
	if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "error", "-c", file).CombinedOutput(); err != nil {
		t.Errorf("Envoy refuses it: %v\n%s", err, out)
	}
}

// placed puts a filter that comes by itself where it is asked for, and counts the places.
func placed(t *testing.T, b *bootstrapv3.Bootstrap, name string, r *resource.Resource) (places int) {
	t.Helper()
	m, err := r.Any().UnmarshalNew()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range b.StaticResources.Listeners {
		for _, chain := range append(l.FilterChains, l.DefaultFilterChain) {
			for _, f := range chain.GetFilters() {
				if f.Name == name {
					f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: m.(*corev3.TypedExtensionConfig).TypedConfig}
					places++
				}
				hcm := &hcmv3.HttpConnectionManager{}
				if f.GetTypedConfig().UnmarshalTo(hcm) != nil {
					continue
				}
				for _, h := range hcm.HttpFilters {
					if h.Name == name {
						h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: m.(*corev3.TypedExtensionConfig).TypedConfig}
						places++
					}
				}
				f.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: wrap(t, hcm)}
			}
		}
	}
	return places
}
