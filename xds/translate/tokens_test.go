package translate_test

import (
	"os/exec"
	"testing"

	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// authenticationFor is one with each setting, for workloads with labels, or for all.
func authenticationFor(ns string, labels map[string]string) config.Object {
	p := &security.RequestAuthentication{JwtRules: []*security.JWTRule{
		{
			Issuer: "https://a.test", Audiences: []string{"app"}, FromHeaders: []*security.JWTHeader{{Name: "x-token", Prefix: "v1 "}},
			FromParams: []string{"t"}, FromCookies: []string{"c"}, OutputPayloadToHeader: "x-payload", ForwardOriginalToken: true,
			OutputClaimToHeaders: []*security.ClaimToHeader{{Header: "x-group", Claim: "group.name"}}, SpaceDelimitedClaims: []string{"teams"},
		},
		{Issuer: "https://b.test"},
	}}
	if labels != nil {
		p.Selector = &typev1beta1.WorkloadSelector{MatchLabels: labels}
	}
	return config.Object{Key: config.Key{Kind: config.KindRequestAuthentication, Namespace: ns, Name: "p"}, Spec: p}
}

// TestTokensTouchWhomTheySelect: a RequestAuthentication changes one resource of the proxies that it selects, and nothing of a neighbour's.
func TestTokensTouchWhomTheySelect(t *testing.T) {
	for name, own := range map[string]map[string]string{"mtls-sidecar": {"app": "web"}, "ingress": nil, "gateway": nil} {
		c := cases(t)[name]
		if own == nil {
			own = c.node.Labels
		}
		given := func(more ...config.Object) (policies, others map[resource.Ref]string) {
			with := c
			with.objects = append(append([]config.Object{}, c.objects...), more...)
			return policyVersions(translate.BuildPolicies(with.snapshot(), translate.PolicedBy(with.snapshot(), c.node))), policyVersions(with.view())
		}
		before, base := given()
		ns := c.node.Namespace
		for _, at := range []struct {
			name   string
			object config.Object
			want   int
		}{
			{"its own", authenticationFor(ns, own), 1},
			{"its namespace's", authenticationFor(ns, nil), 1},
			{"the root namespace's for it", authenticationFor("istio-system", own), 1},
			{"the root namespace's", authenticationFor("istio-system", nil), 1},
			{"another pod's", authenticationFor(ns, map[string]string{"app": "else"}), 0},
			{"a neighbour's", authenticationFor("team-b", nil), 0},
			{"a neighbour's for it", authenticationFor("team-b", own), 0},
		} {
			after, listener := given(at.object)
			if differ := differing(before, after); len(differ) != at.want {
				t.Errorf("%s: %s: %v differs", name, at.name, differ)
			}
			differ := differing(base, listener)
			want := 0
			if name == "gateway" && at.object.Namespace != "team-b" {
				want = 1 // the table that turns the filter on
			}
			if len(differ) != want {
				t.Errorf("%s: %s: beside policies %v differs", name, at.name, differ)
			}
		}
	}
}

// TestEnvoyAcceptsTokens runs the real Envoy over what sidecars are given of a RequestAuthentication, in the place of what comes by ECDS.
func TestEnvoyAcceptsTokens(t *testing.T) {
	binary := envoytest.Binary(t)
	for _, with := range []bool{false, true} {
		c := cases(t)["mtls-sidecar"]
		if with {
			c.objects = append(c.objects, authenticationFor("default", nil))
		}
		s := c.snapshot()
		r, ok := translate.BuildPolicies(s, translate.PolicedBy(s, c.node)).Get(resource.Extension, envoy.FilterTokens)
		if !ok {
			t.Fatal("nothing for the filter")
		}
		b := static(t, c.view())
		if placed(t, b, envoy.FilterTokens, r) == 0 {
			t.Fatal("no filter verifies tokens")
		}
		if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "error", "-c", envoytest.Write(t, b)).CombinedOutput(); err != nil {
			t.Errorf("Envoy refuses it: %v\n%s", err, out)
		}
	}
}
