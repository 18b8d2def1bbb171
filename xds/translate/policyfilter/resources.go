package policyfilter

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"

	"github.com/sallyport/sallyport/serviceentry/egresspolicy"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// WorkloadFilters are the filters of a proxy that is for one workload: of a sidecar, they are about what a row says goes outside. Where rules let out
// what nobody registered, mesh is the object that closes it otherwise.
func WorkloadFilters(set egresspolicy.Set, sidecar bool, mesh string) []*resource.Resource {
	alone := func(say says) renders {
		return func(g resolve.Governed, _ bool) *envoy.OnMatch { return say.subject(g.Others) }
	}
	outside := func(render renders) renders {
		if !sidecar {
			return render
		}
		return func(g resolve.Governed, observed bool) *envoy.OnMatch {
			leaving := render(g, observed)
			return envoy.OnMatchMatcher(envoy.ExactMatchMap(envoy.StateInput(wire.StateOutside), map[string]*envoy.OnMatch{wire.Leaves: leaving, wire.LetOutByPolicy: leaving}, nothing()))
		}
	}
	return []*resource.Resource{
		envoy.SealExtension(envoy.FilterRoot, filter(wire.StatRoot, resolve.GovernOne(set.Root), false, mesh != "", outside(letOut(mesh, alone)))),
		envoy.SealExtension(envoy.FilterOwn, filter(wire.StatOwn, resolve.GovernOne(set.Own), set.Root.Unsettles(), false, outside(notNarrowed(alone(ruling))))),
	}
}

// RootLevel is the root namespace's level for some namespaces; where it tells their workloads apart, it is for ns alone. mesh is as of Self.
func RootLevel(name, ns string, g resolve.Governed, trust envoy.TrustDomains, mesh string) *resource.Resource {
	return envoy.SealExtension(name, RootFilter(ns, g, trust, mesh))
}

// RootFilter is what Root seals.
func RootFilter(ns string, g resolve.Governed, trust envoy.TrustDomains, mesh string) *httprbacv3.RBAC {
	return filter(wire.StatRoot, g, false, mesh != "", letOut(mesh, func(say says) renders { return say.governed(ns, trust) }))
}

// NamespaceLevel is a namespace's own level, beside one of the root namespace that may be unsettled (egresspolicy.Level).
func NamespaceLevel(name, ns string, g resolve.Governed, unsettled bool, trust envoy.TrustDomains) *resource.Resource {
	return envoy.SealExtension(name, NamespaceFilter(ns, g, unsettled, trust))
}

// NamespaceFilter is what Own seals.
func NamespaceFilter(ns string, g resolve.Governed, unsettled bool, trust envoy.TrustDomains) *httprbacv3.RBAC {
	return filter(wire.StatOwn, g, unsettled, false, notNarrowed(says(ruling).governed(ns, trust)))
}

// Unknown denies what comes from a namespace whose level is not there, at the proxy of a node or at a waypoint; mesh is as of Self.
func Unknown(mesh, where string) *httprbacv3.RBAC {
	says := wire.Rule{Verdict: wire.RuleDenies, Policy: mesh, Rule: "namespace", Reason: "the " + where + " does not have the policies of the pod's namespace yet"}
	return &httprbacv3.RBAC{RulesStatPrefix: wire.StatOwn, Matcher: whole(envoy.OnMatchVerdict(says.String(), false))}
}

// Index is a gateway's filter that keeps the level of the client's namespace: of is its resource, by the namespace; others is that
// of all others, "" where there is none.
func Index(name string, of map[string]string, others string, trust envoy.TrustDomains) *resource.Resource {
	kept := map[string]*envoy.OnMatch{}
	for ns, resource := range of {
		kept[ns] = keep(resource)
	}
	var otherwise *envoy.OnMatch
	if others != "" {
		otherwise = keep(others)
	}
	return sealIndex(name, index(kept, otherwise, trust))
}

// IndexWithin is an index that has the levels themselves, of a proxy from which everything that it is asked about goes on outside: of is that of a namespace's
// clients, others that of all others, nil where there is none. Envoy looks for resources that an index leads to with the help of the listener that the chain
// was made for, and the listeners of nodes and of waypoints hand their chains on to the next ones and are gone (ADR 29).
func IndexWithin(name string, of map[string]*httprbacv3.RBAC, others *httprbacv3.RBAC, trust envoy.TrustDomains) *resource.Resource {
	return sealIndex(name, within(of, others, trust))
}

// IndexOutside is IndexWithin for the proxy of a node, whose rows say what goes outside from there: it is about that alone.
func IndexOutside(name string, of map[string]*httprbacv3.RBAC, others *httprbacv3.RBAC, trust envoy.TrustDomains) *resource.Resource {
	m := within(of, others, trust)
	if len(of) > 0 || others != nil {
		state := envoy.StateInput(wire.StateOutside)
		m = envoy.MatchList([]*line{envoy.MatchCase(envoy.AnyOf(envoy.InputIs(state, wire.Leaves), envoy.InputIs(state, wire.LetOutByPolicy)), envoy.OnMatchMatcher(m))}, nil)
	}
	return sealIndex(name, m)
}

func within(of map[string]*httprbacv3.RBAC, others *httprbacv3.RBAC, trust envoy.TrustDomains) *cncfmatcherv3.Matcher {
	kept := map[string]*envoy.OnMatch{}
	for ns, level := range of {
		kept[ns] = keepWithin(level)
	}
	var otherwise *envoy.OnMatch
	if others != nil {
		otherwise = keepWithin(others)
	}
	return index(kept, otherwise, trust)
}

func index(of map[string]*envoy.OnMatch, otherwise *envoy.OnMatch, trust envoy.TrustDomains) *cncfmatcherv3.Matcher {
	if len(of) == 0 {
		return &cncfmatcherv3.Matcher{OnNoMatch: otherwise}
	}
	namespaces := map[string]*envoy.OnMatch{}
	for ns, kept := range of {
		for _, accounts := range trust.Account(ns, "") {
			namespaces[accounts] = kept
		}
	}
	return envoy.PrefixMatchMap(client(), namespaces, otherwise)
}

func sealIndex(name string, m *cncfmatcherv3.Matcher) *resource.Resource {
	return envoy.SealExtension(name, &matchingv3.ExtensionWithMatcher{
		XdsMatcher:      m,
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.composite", TypedConfig: envoy.ToAny(&compositev3.Composite{})},
	})
}

// keep goes on by a resource.
func keep(name string) *envoy.OnMatch {
	return envoy.OnMatchAction("keep", &compositev3.ExecuteFilterAction{DynamicConfig: &compositev3.DynamicConfig{
		Name: name, ConfigDiscovery: envoy.ECDSSource(envoy.AccessType),
	}})
}

// keepWithin goes on by a filter that is in the index itself.
func keepWithin(level *httprbacv3.RBAC) *envoy.OnMatch {
	return envoy.OnMatchAction("keep", &compositev3.ExecuteFilterAction{TypedConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.rbac", TypedConfig: envoy.ToAny(level)}})
}
