package translate_test

import (
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	security "istio.io/api/security/v1"
	typev1beta1 "istio.io/api/type/v1beta1"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/interpret"
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

// TestNobodyElseIsAsked: a provider's host without a namespace is a Service's or the root namespace's; what another namespace exports counts where the
// mesh's settings name that namespace, and where they name none everything is closed.
func TestNobodyElseIsAsked(t *testing.T) {
	for _, at := range []struct {
		registers, names string
		asked            bool
	}{
		{"istio-system", "", true}, {"istio-system", "istio-system", true}, {"team", "team", true},
		{"team", "", false}, {"team", "istio-system", false}, {"istio-system", "team", false},
	} {
		c := cases(t)["mtls-sidecar"]
		c.mesh.Authorizers = []mesh.Authorizer{{Name: "grpc", GRPC: true, Namespace: at.names, Host: "authz.test", Port: 9191, Timeout: time.Second, StatusOnError: 403}}
		c.objects = append(append([]config.Object{}, c.objects...), entryOf(at.registers, "10.9.9.9"), customOf(c.node.Namespace, "p", "grpc", nil))
		s := c.snapshot()
		_, there := classView(s, c.node).Get(resource.Cluster, "authorizer|9191||authz.test")
		v := translate.BuildPolicies(s, translate.PolicedBy(s, c.node))
		passes := passesAll(t, []string{envoy.FilterCustom, envoy.FilterAuthorizer}, "/asked", v, v)
		if there != at.asked || passes {
			t.Errorf("registered in %q, named as of %q: it is asked: %v; passes: %v", at.registers, at.names, there, passes)
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
				for _, sameAsked := range []bool{true, false} { // and while two policies change
					for _, filter := range translate.AuthorizerInputs() {
						if r, ok := policies.Get(resource.Extension, filter); ok {
							placed(t, b, filter, translate.InTransition(r, r, sameAsked))
						}
					}
					file = envoytest.Write(t, b)
					if out, err := exec.CommandContext(t.Context(), binary, "--mode", "validate", "-l", "error", "-c", file).CombinedOutput(); err != nil {
						t.Errorf("Envoy refuses what it has while two policies change: %v\n%s", err, out)
					}
				}
			})
		}
	}
}

// TestClosedAtEveryMoment: the filters are taken one after the other, in no certain order but that the one which judges by itself comes after, or before,
// the two by which somebody is asked, where nobody is to be asked any more. Of any two states between which policies change, with some filters of before and the others of after,
// nothing passes unasked that neither state lets pass so, and everything does that both let pass.
func TestClosedAtEveryMoment(t *testing.T) {
	registrytest.InOneGoroutine(t)
	requests, connections := []string{envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterAuthzRequests}, []string{envoy.FilterCustomConnections, envoy.FilterAuthorizerConnections, envoy.FilterAuthzConnections}
	for name, kinds := range map[string][][]string{
		"mtls-sidecar": {requests, connections},
		"ingress":      {requests, connections},
		"gateway":      {{envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterAuthz}},
	} {
		states := map[string]*translate.View{}
		for _, written := range []string{"", "grpc", "http", "closing", "unheard-of", "grpc http", "DENY", "ALLOW", "more", "more grpc", "more DENY"} {
			c := authorizers(cases(t)[name])
			for _, w := range strings.Fields(written) {
				c.objects = append(c.objects, closing(c.node, w))
			}
			s := c.snapshot()
			states[written] = translate.BuildPolicies(s, translate.PolicedBy(s, c.node))
		}
		for _, filters := range kinds {
			for _, path := range []string{"/asked", "/else"} {
				passes := func(of ...string) bool {
					return passesAll(t, filters, path, states[of[0]], states[of[1]], states[of[2]])
				}
				all := func(state string) bool { return passes(state, state, state) }
				// of a connection no path is seen
				if meant := path == "/asked" || filters[0] == envoy.FilterCustomConnections; all("grpc") == meant || all("unheard-of") == meant || all("DENY") == meant || !all("") {
					t.Fatalf("%s, %s, %s: it passes, or does not, whatever is between", name, filters[0], path)
				}
				for old := range states {
					for now := range states {
						if all(old) != all(now) {
							continue
						}
						for _, mixed := range between(states, filters, old, now) {
							if passes(mixed...) != all(old) {
								t.Errorf("%s, %s, %s: between %q and %q it passes unasked with %q: %v, before and after: %v", name, filters[0], path, old, now, mixed, !all(old), all(old))
							}
						}
					}
				}
			}
		}
	}
}

// TestClosedWhileTwoChange: where what somebody is asked about changes, and what is denied beside it, the first one denies for a while what it asked about
// before, unless the same one is asked about it for so long. Nothing passes unasked that passes neither before nor after, whichever filters Envoy has of which moment, also where they change again before the
// change has come to its end (xds/serve/change.go). And nothing is denied that is asked about before and after, or passes; nor, where the same one is asked before and
// after, what neither state denies.
func TestClosedWhileTwoChange(t *testing.T) {
	registrytest.InOneGoroutine(t)
	for name, filters := range map[string][]string{
		"mtls-sidecar": {envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterAuthzRequests},
		"ingress":      {envoy.FilterCustomConnections, envoy.FilterAuthorizerConnections, envoy.FilterAuthzConnections},
		"gateway":      {envoy.FilterCustom, envoy.FilterAuthorizer, envoy.FilterAuthz},
	} {
		states := []string{"grpc denymore", "grpc more", "more DENY", "more grpc", "more http", "http", "unheard-of denymore", "grpc DENY denymore", "grpc"}
		views := map[string][]*resource.Resource{}
		for _, written := range states {
			c := authorizers(cases(t)[name])
			for _, w := range strings.Fields(written) {
				c.objects = append(c.objects, closing(c.node, w))
			}
			s := c.snapshot()
			v := translate.BuildPolicies(s, translate.PolicedBy(s, c.node))
			for _, filter := range filters {
				r, ok := v.Get(resource.Extension, filter)
				if !ok {
					t.Fatalf("%s: nothing for %s", name, filter)
				}
				views[written] = append(views[written], r)
			}
		}
		opens, kept := 0, 0
		for _, path := range []string{"/asked", "/more", "/else"} {
			seen := map[[3]*resource.Resource]string{}
			fate := func(custom, authorizer, judge *resource.Resource) string {
				at := [3]*resource.Resource{custom, authorizer, judge}
				if seen[at] == "" {
					seen[at] = fateBy(t, path, custom, authorizer, judge)
				}
				return seen[at]
			}
			for _, from := range states {
				for _, to := range states {
					old, now := views[from], views[to]
					if old[0] == now[0] {
						continue
					}
					while := translate.InTransition(old[0], now[0], old[1].Version == now[1].Version)
					if limit := 2 * (len(old[0].Value()) + len(now[0].Value())); len(while.Value()) > limit {
						t.Errorf("%s, from %q to %q: %d bytes, over %d", name, from, to, len(while.Value()), limit)
					}
					before, after := fate(old[0], old[1], old[2]), fate(now[0], now[1], now[2])
					moments := [][3]*resource.Resource{
						{old[0], now[1], old[2]}, {while, old[1], old[2]}, {while, now[1], old[2]}, {while, now[1], now[2]}, {now[0], now[1], now[2]},
					}
					for i, of := range moments {
						meanwhile := fate(of[0], of[1], of[2])
						if meanwhile == passesUnasked && before != passesUnasked && after != passesUnasked {
							t.Errorf("%s, %s, from %q to %q: at moment %d it passes unasked", name, path, from, to, i)
						}
						if meanwhile == isDenied && before != isDenied && after != isDenied && old[1].Version == now[1].Version {
							t.Errorf("%s, %s, from %q to %q: at moment %d it is denied, where it %s before and %s after", name, path, from, to, i, before, after)
						}
						if before == after && before != meanwhile {
							t.Errorf("%s, %s, from %q to %q: at moment %d it %s, where it %s before and after", name, path, from, to, i, meanwhile, before)
						}
					}
					if fate(now[0], now[1], old[2]) == passesUnasked && before != passesUnasked && after != passesUnasked {
						opens++
					}
					if before == after && before == "is asked about" {
						kept++
					}
					for _, then := range states { // which comes while what is between the two is what Envoy has
						next := views[then]
						if next[0] == now[0] {
							continue
						}
						between := translate.InTransition(now[0], next[0], now[1].Version == next[1].Version)
						for i, of := range [][3]*resource.Resource{{while, next[1], now[2]}, {between, now[1], now[2]}, {between, next[1], now[2]}} {
							if fate(of[0], of[1], of[2]) == passesUnasked && before != passesUnasked && after != passesUnasked && fate(next[0], next[1], next[2]) != passesUnasked {
								t.Errorf("%s, %s, from %q to %q to %q: at moment %d it passes unasked", name, path, from, to, then, i)
							}
						}
					}
				}
			}
		}
		if filters[0] == envoy.FilterCustom && (opens == 0 || kept == 0) { // of a connection no path is seen
			t.Errorf("%s: without what is between nothing would pass (%d), or nothing is asked about all the time (%d)", name, opens, kept)
		}
	}
}

// closing is a policy about one path: that the provider is asked, or one of another action; or one about another path (more).
func closing(n translate.Node, written string) config.Object {
	o := customOf(n.Namespace, "p-"+written, written, n.Labels)
	spec := o.Spec.(*security.AuthorizationPolicy)
	switch written {
	case "more":
		spec.GetProvider().Name, spec.Rules[0].To[0].Operation.Paths = "grpc", []string{"/more"}
	case "denymore":
		spec.Action, spec.ActionDetail, spec.Rules[0].To[0].Operation.Paths = security.AuthorizationPolicy_DENY, nil, []string{"/more"}
	case "DENY":
		spec.Action, spec.ActionDetail = security.AuthorizationPolicy_DENY, nil
	case "ALLOW":
		spec.Action, spec.ActionDetail = security.AuthorizationPolicy_ALLOW, nil
		operation := spec.Rules[0].To[0].Operation
		operation.Paths, operation.NotPaths = nil, operation.Paths
	}
	return o
}

// between are the states that the three filters may be of while one edit is on its way.
func between(states map[string]*translate.View, filters []string, old, now string) [][]string {
	of := func(state string, i int) *resource.Resource {
		r, _ := states[state].Get(resource.Extension, filters[i])
		return r
	}
	had, next := of(old, 0), of(now, 0)
	if !translate.CallsNoAuthorizer(had) && !translate.CallsNoAuthorizer(next) && of(old, 2).Version != of(now, 2).Version {
		return nil // TestClosedWhileTwoChange has it
	}
	judge := old // while what asks changes
	if translate.CallsNoAuthorizer(next) {
		judge = now
	}
	return [][]string{{old, old, judge}, {old, now, judge}, {now, old, judge}, {now, now, judge}}
}

// passesAll says whether a request, or a connection, passes filters unasked, each as a state has it.
func passesAll(t *testing.T, names []string, path string, states ...*translate.View) bool {
	t.Helper()
	var of []*resource.Resource
	for i, v := range states {
		r, ok := v.Get(resource.Extension, names[i])
		if !ok {
			t.Fatalf("nothing for %s", names[i])
		}
		of = append(of, r)
	}
	return fateBy(t, path, of...) == passesUnasked
}

// fateBy says what becomes of it at filters as they are.
func fateBy(t *testing.T, path string, of ...*resource.Resource) string {
	t.Helper()
	var names []string
	for _, r := range of {
		names = append(names, r.Name)
	}
	last := &hcmv3.HttpConnectionManager{RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{VirtualHosts: []*routev3.VirtualHost{{
		Domains: []string{"*"}, Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 200}},
		}},
	}}}}}
	var filters []*listenerv3.Filter
	for _, f := range envoy.AuthorizationConnectionFilters() {
		if slices.Contains(names, f.Name) {
			filters = append(filters, f)
		}
	}
	for _, f := range envoy.AuthorizationRequestFilters() {
		if f.Name == envoy.FilterAuthzRequests && slices.Contains(names, envoy.FilterAuthz) {
			f.Name = envoy.FilterAuthz // in its place at an egress gateway
		}
		if slices.Contains(names, f.Name) {
			last.HttpFilters = append(last.HttpFilters, f)
		}
	}
	last.HttpFilters = append(last.HttpFilters, &hcmv3.HttpFilter{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, &routerv3.Router{})}})
	all := []interpret.Resource{{Name: "l", Message: &listenerv3.Listener{
		Name: "l", Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{Address: "0.0.0.0", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 80}}}},
		FilterChains: []*listenerv3.FilterChain{{Filters: append(filters, &listenerv3.Filter{Name: "http", ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: wrap(t, last)}})}},
	}}}
	for _, r := range of {
		m, err := r.Any().UnmarshalNew()
		must(err)
		all = append(all, interpret.Resource{Name: r.Name, Message: m})
	}
	p, err := interpret.New(all, nil, nil)
	must(err)
	out, err := p.Connect(interpret.Connection{
		To: netip.MustParseAddrPort("10.0.0.1:80"), From: podAddress,
		Bytes: interpret.Bytes{Request: &interpret.Request{Method: "GET", Authority: "a.test", Path: path, Headers: map[string]string{}}},
	})
	must(err)
	switch {
	case out.Response == nil || out.Response.Status != 200:
		return isDenied
	case len(out.Asked) > 0:
		return "is asked about"
	default:
		return passesUnasked
	}
}

const passesUnasked, isDenied = "passes unasked", "is denied"
