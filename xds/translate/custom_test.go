package translate_test

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

// authorizers are providers, and the object that registers their host.
func authorizers(c testCase) testCase {
	c.mesh.Authorizers = []mesh.Authorizer{
		{Name: "grpc", GRPC: true, Host: "authz.test", Port: 9191, Timeout: time.Second, StatusOnError: 403, Body: &mesh.AuthorizerBody{Most: 100, Partial: true, Raw: true}},
		{
			Name: "http", Host: "authz.test", Port: 9192, Timeout: time.Second, StatusOnError: 503, PathPrefix: "/check", FailOpen: true, ClearRouteCache: true,
			SentHeaders: []string{"a", "b*", "*c", "*"}, Added: []mesh.AuthorizerHeader{{Name: "x", Value: "y"}}, Upstream: []string{"d"}, OnDeny: []string{"e*"}, OnAllow: []string{"*f"},
		},
		{Name: "closing", Host: "authz.test", Port: 9192, Timeout: time.Second, StatusOnError: 403},
	}
	c.objects = append(append([]config.Object{}, c.objects...), entryOf("istio-system", "10.9.9.9"))
	return c
}

// entryOf registers the providers' host.
func entryOf(ns, address string) config.Object {
	key := config.Key{Kind: config.KindServiceEntry, Namespace: ns, Name: "authz"}
	return config.Object{Key: key, Hash: uint64(len(ns) + len(address)), Spec: &networking.ServiceEntry{
		Hosts: []string{"authz.test"}, Location: networking.ServiceEntry_MESH_INTERNAL, Resolution: networking.ServiceEntry_STATIC,
		Endpoints: []*networking.WorkloadEntry{{Address: address}},
		Ports:     []*networking.ServicePort{{Number: 9191, Name: "grpc", Protocol: "GRPC"}, {Number: 9192, Name: "tcp", Protocol: "TCP"}},
	}}
}

func customOf(ns, name, provider string, labels map[string]string) config.Object {
	spec := &security.AuthorizationPolicy{
		Action: security.AuthorizationPolicy_CUSTOM, ActionDetail: &security.AuthorizationPolicy_Provider{Provider: &security.AuthorizationPolicy_ExtensionProvider{Name: provider}},
		Rules: []*security.Rule{{To: []*security.Rule_To{{Operation: &security.Operation{Paths: []string{"/asked*"}}}}}},
	}
	if labels != nil {
		spec.Selector = &typev1beta1.WorkloadSelector{MatchLabels: labels}
	}
	return config.Object{Key: config.Key{Kind: config.KindAuthorizationPolicy, Namespace: ns, Name: name}, Spec: spec}
}

// TestCustomTouchesWhomItSelects: a policy that has an authorizer asked changes the filters of the proxies that it selects, and gives them its
// cluster, at each kind of proxies; nothing of others, and no listener of sidecars and ingress gateways.
func TestCustomTouchesWhomItSelects(t *testing.T) {
	for name, at := range map[string]struct {
		filters int
		beside  []resource.Type
	}{
		"mtls-sidecar": {6, []resource.Type{resource.Cluster, resource.Endpoints}},
		"ingress":      {6, []resource.Type{resource.Cluster, resource.Endpoints}},
		"gateway":      {3, []resource.Type{resource.Cluster, resource.Endpoints, resource.Route}}, // its tables turn the filters on
	} {
		c := authorizers(cases(t)[name])
		given := func(more ...config.Object) (filters, others map[resource.Ref]string) {
			with := c
			with.objects = append(append([]config.Object{}, c.objects...), more...)
			s := with.snapshot()
			return policyVersions(translate.BuildPolicies(s, translate.PolicedBy(s, c.node))), policyVersions(classView(s, c.node))
		}
		filters, others := given()
		for _, ns := range []string{c.node.Namespace, "elsewhere"} {
			with, beside := given(customOf(ns, "p", "grpc", c.node.Labels))
			differ, more := differing(filters, with), differing(others, beside)
			if ns == "elsewhere" {
				if len(differ)+len(more) > 0 {
					t.Errorf("%s: a neighbour's policy makes %v and %v differ", name, differ, more)
				}
				continue
			}
			if len(differ) != at.filters {
				t.Errorf("%s: of filters %v differ", name, differ)
			}
			for _, ref := range more {
				if !strings.HasPrefix(ref.Name, "authorizer|9191||") && ref.Type != resource.Route {
					t.Errorf("%s: %v differs", name, ref)
				}
			}
			if _, ok := beside[resource.Ref{Type: resource.Cluster, Name: "authorizer|9191||authz.test"}]; !ok {
				t.Errorf("%s: no cluster of who is asked", name)
			}
			again, besideAgain := given(customOf(ns, "p", "grpc", c.node.Labels), entryOf("neighbour", "10.9.9.10"))
			for _, ref := range append(differing(with, again), differing(beside, besideAgain)...) {
				if strings.Contains(ref.Name, "authoriz") {
					t.Errorf("%s: with a neighbour who registers its host %v differs", name, ref)
				}
			}
		}
	}
}

// classView is what a node's class gets, over what others get.
func classView(s *registry.Snapshot, n translate.Node) *translate.View {
	tr, class := translate.NewTranslator(), translate.Classify(s, n)
	var build func(c translate.Class) *translate.View
	build = func(c translate.Class) *translate.View {
		if common := c.Common(); common != c {
			return tr.BuildOver(build(common), s, c)
		}
		return tr.Build(s, c)
	}
	return build(class)
}

// TestEnvoyAcceptsCustom runs the real Envoy over what proxies are given that have somebody asked, or would if they could, in the place of what
// comes by ECDS.
func TestEnvoyAcceptsCustom(t *testing.T) {
	binary := envoytest.Binary(t)
	for _, name := range []string{"mtls-sidecar", "ingress", "gateway"} {
		for _, providers := range [][]string{{"grpc"}, {"http"}, {"closing"}, {"unheard-of"}, {"grpc", "http"}} {
			t.Run(name+" "+strings.Join(providers, " "), func(t *testing.T) {
				c := authorizers(cases(t)[name])
				for _, p := range providers {
					c.objects = append(c.objects, customOf(c.node.Namespace, "p-"+p, p, c.node.Labels))
				}
				s := c.snapshot()
				b := static(t, classView(s, c.node))
				policies := translate.BuildPolicies(s, translate.PolicedBy(s, c.node))
				for _, filter := range []string{envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterCustomConnections, envoy.FilterAuthorizerConnections} {
					r, ok := policies.Get(resource.Extension, filter)
					if name == "gateway" && strings.HasSuffix(filter, ".connections") {
						continue
					}
					if !ok || placed(t, b, filter, r) == 0 {
						t.Fatalf("nothing for %s", filter)
					}
				}
				file := envoytest.Write(t, b)
				if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "error", "-c", file).CombinedOutput(); err != nil {
					t.Errorf("Envoy refuses it: %v\n%s", err, out)
				}
			})
		}
	}
}
