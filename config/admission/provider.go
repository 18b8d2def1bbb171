package admission

import (
	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/serviceentry/authz"
)

// provider judges what a policy says of who is asked, by itself.
func (r *report) provider(p *security.AuthorizationPolicy) {
	custom, named := p.Action == security.AuthorizationPolicy_CUSTOM, p.GetProvider().GetName() != ""
	switch {
	case custom && !named:
		r.reject("spec.provider.name", nil, "it is missing: nobody is named who could be asked", "name one of extensionProviders in the mesh's settings")
	case !custom && p.GetProvider() != nil:
		r.reject("spec.provider", nil, "only a policy with the action CUSTOM has somebody asked", "remove it, or write action: CUSTOM")
	}
	if !custom {
		return
	}
	if len(p.Rules) == 0 {
		r.reject("spec.rules", nil, "a policy that has somebody asked by no rule has nobody asked", "write rules; {} is one that means everything")
	}
	if r.of.Annotations[authz.DryRunAnnotation] == "true" {
		r.reject("metadata.annotations", "true", "what a provider would say is known only when it is asked, so there are no dry runs of CUSTOM", "remove "+authz.DryRunAnnotation)
	}
}

// judgeProvider says why what a policy means is closed, as far as it is known here: nobody can be asked.
func (w *world) judgeProvider(r *report, policy *authz.Policy) {
	if policy.Action != authz.Custom || policy.Provider == "" {
		return
	}
	const closed = ": all that the rules mean is denied"
	a := w.cfg.Authorizer(policy.Provider)
	if a == nil {
		r.warn("spec.provider.name", policy.Provider, "the mesh's extensionProviders have no such provider that is envoyExtAuthzGrpc or envoyExtAuthzHttp"+closed, "write it into the mesh's settings, or name another one")
		return
	}
	if n := host.Name(a.Host); !w.services[n] && len(w.hosts[n]) == 0 {
		r.warn("spec.provider.name", policy.Provider, "the provider is at "+a.Host+", which no Service or ServiceEntry that is known registers"+closed, "register it, or correct extensionProviders")
	}
	for _, other := range w.custom {
		if other.Key != r.of.Key && other.Provider != policy.Provider && w.mayMeet(policy, other) {
			r.warn("spec.provider.name", policy.Provider, "a proxy asks one provider, and "+other.Key.String()+", which may select the same pods, names "+other.Provider+": where both do"+closed, "name one provider, or select other pods")
			return
		}
	}
}

// mayMeet says whether there may be pods that both policies select, as far as their namespaces and labels tell.
func (w *world) mayMeet(p, o *authz.Policy) bool {
	of := func(key config.Key) bool { return key.Namespace == w.cfg.RootNamespace }
	if p.Key.Namespace != o.Key.Namespace && !of(p.Key) && !of(o.Key) || p.Targeted != o.Targeted {
		return false
	}
	for k, v := range p.Selector {
		if other, has := o.Selector[k]; has && other != v {
			return false
		}
	}
	return true
}
