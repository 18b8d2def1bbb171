package admission

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/decode/strict"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/serviceentry/selection"
	"github.com/sallyport/sallyport/serviceentry/tokens"
)

// claimAsked is a match by a claim of a token.
type claimAsked struct {
	field    string
	gateways []string // of the match
	follows  string   // where no request has a claim
}

// claimsAsked are those of a VirtualService, which may be nil.
func claimsAsked(v *networking.VirtualService) (out []claimAsked) {
	for i, h := range v.GetHttp() {
		for k, m := range h.Match {
			add := func(field, follows string, by map[string]*networking.StringMatch) {
				for _, name := range sortedKeys(by) {
					if _, claim := route.ClaimPath(name); claim {
						out = append(out, claimAsked{strict.Join(at("spec.http", i, "match", k, field), name), m.Gateways, follows})
					}
				}
			}
			add("headers", "this match leads no request", m.Headers)
			add("withoutHeaders", "this leaves out no request that the rest of the match means", m.WithoutHeaders)
		}
	}
	return out
}

// AsksClaims says whether a VirtualService, which may be nil, has matches by claims of tokens: what it comes to depends on who verifies them.
func AsksClaims(v *networking.VirtualService) bool { return len(claimsAsked(v)) > 0 }

// checkRouteTokens warns of matches by claims of a token at gateways where nobody verifies any: no request has a claim there.
func (w *world) checkRouteTokens(r *report, v *networking.VirtualService) {
	for _, asked := range claimsAsked(v) {
		w.checkClaim(r, v, asked)
	}
}

func (w *world) checkClaim(r *report, v *networking.VirtualService, asked claimAsked) {
	names := asked.gateways
	if len(names) == 0 {
		names = v.Gateways
	}
	gateways := slices.DeleteFunc(route.Gateways(names, r.of.Namespace), func(name string) bool { return name == route.Mesh })
	if len(gateways) == 0 || slices.ContainsFunc(gateways, w.mayVerifyTokens) {
		return
	}
	r.warn(asked.field, nil, "no RequestAuthentication is for the pods of its gateways ("+listedTexts(gateways)+"), so no token is verified there and no request has a claim: "+asked.follows,
		"write a RequestAuthentication with the Gateway's selector into the namespace of its pods, or into "+w.cfg.RootNamespace+" for all, with the issuer in jwtRules, or match something else")
}

// mayVerifyTokens says whether a RequestAuthentication may be for pods of a Gateway, "NAMESPACE/NAME", which may be in any namespace; also of one that is not known.
func (w *world) mayVerifyTokens(gateway string) bool {
	o := w.gateways[gateway]
	if o == nil {
		return true
	}
	pods := selection.Workloads{Selector: o.Spec.(*networking.Gateway).Selector}
	for ns, list := range w.verifying {
		if slices.ContainsFunc(list, func(a *tokens.Authentication) bool {
			if ns == w.cfg.RootNamespace && !a.Targeted {
				return !contradict(pods.Selector, a.Selector)
			}
			pods.Namespace = ns
			return len(a.Classes) > 0 || w.verifiesThere(pods, a.Workloads)
		}) {
			return true
		}
	}
	return false
}
