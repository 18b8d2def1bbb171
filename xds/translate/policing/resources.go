package policing

import (
	cncfmatcherv3 "github.com/cncf/xds/go/xds/type/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	matchingv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/matching/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"

	"github.com/sallyport/sallyport/serviceentry/permit"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/wire"
)

// Self are the filters of a proxy that is for one workload: of a sidecar, they are about what a row says goes outside. Where rules let out
// what nobody registered, mesh is the object that closes it otherwise.
func Self(set permit.Set, sidecar bool, mesh string) []*resource.Resource {
	alone := func(say says) renders {
		return func(g resolve.Governed, _ bool) *envoy.OnMatch { return say.subject(g.Others) }
	}
	outside := func(render renders) renders {
		if !sidecar {
			return render
		}
		return func(g resolve.Governed, observed bool) *envoy.OnMatch {
			leaving := render(g, observed)
			return envoy.Further(envoy.InMap(envoy.StateInput(wire.StateOutside), map[string]*envoy.OnMatch{wire.Leaves: leaving, wire.LetOut: leaving}, nothing()))
		}
	}
	return []*resource.Resource{
		envoy.SealExtension(envoy.FilterRoot, filter(wire.StatRoot, resolve.Alone(set.Root), false, mesh != "", outside(letOut(mesh, alone)))),
		envoy.SealExtension(envoy.FilterOwn, filter(wire.StatOwn, resolve.Alone(set.Own), set.Root.Unsettles(), false, outside(notNarrowed(alone(ruling))))),
	}
}

// Root is the root namespace's level for some namespaces; where it tells their workloads apart, it is for ns alone. mesh is as of Self.
func Root(name, ns string, g resolve.Governed, trust envoy.Trusts, mesh string) *resource.Resource {
	return envoy.SealExtension(name, filter(wire.StatRoot, g, false, mesh != "", letOut(mesh, func(say says) renders { return say.governed(ns, trust) })))
}

// Own is a namespace's own level, beside one of the root namespace that may be unsettled (permit.Level).
func Own(name, ns string, g resolve.Governed, unsettled bool, trust envoy.Trusts) *resource.Resource {
	return envoy.SealExtension(name, filter(wire.StatOwn, g, unsettled, false, notNarrowed(says(ruling).governed(ns, trust))))
}

// Index is a gateway's filter that keeps the level of the client's namespace: of is its resource, by the namespace; others is that
// of all others, "" where there is none.
func Index(name string, of map[string]string, others string, trust envoy.Trusts) *resource.Resource {
	return sealIndex(name, index(of, others, trust))
}

// IndexOutside is Index for the proxy of a node, whose rows say what goes outside from there: it is about that alone.
func IndexOutside(name string, of map[string]string, others string, trust envoy.Trusts) *resource.Resource {
	m := index(of, others, trust)
	if len(of) > 0 || others != "" {
		leaving := envoy.Further(m)
		m = envoy.InMap(envoy.StateInput(wire.StateOutside), map[string]*envoy.OnMatch{wire.Leaves: leaving, wire.LetOut: leaving}, nil)
	}
	return sealIndex(name, m)
}

func index(of map[string]string, others string, trust envoy.Trusts) *cncfmatcherv3.Matcher {
	var otherwise *envoy.OnMatch
	if others != "" {
		otherwise = keep(others)
	}
	if len(of) == 0 {
		return &cncfmatcherv3.Matcher{OnNoMatch: otherwise}
	}
	namespaces := map[string]*envoy.OnMatch{}
	for ns, resource := range of {
		for _, accounts := range trust.Account(ns, "") {
			namespaces[accounts] = keep(resource)
		}
	}
	return envoy.ByPrefix(client(), namespaces, otherwise)
}

func sealIndex(name string, m *cncfmatcherv3.Matcher) *resource.Resource {
	return envoy.SealExtension(name, &matchingv3.ExtensionWithMatcher{
		XdsMatcher:      m,
		ExtensionConfig: &corev3.TypedExtensionConfig{Name: "envoy.filters.http.composite", TypedConfig: envoy.Packed(&compositev3.Composite{})},
	})
}

// keep goes on by a resource.
func keep(name string) *envoy.OnMatch {
	return envoy.Does("keep", &compositev3.ExecuteFilterAction{DynamicConfig: &compositev3.DynamicConfig{
		Name: name, ConfigDiscovery: envoy.ByECDS(envoy.AccessType),
	}})
}
