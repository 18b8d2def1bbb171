package authzfilter

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/envoy"
)

// Tokens is the filter that verifies tokens: one that is shown has to be good by the rule of its issuer, and none has to be shown.
// Without rules it lets all pass, and nobody has a token. routed says that routes are followed by what tokens say.
func Tokens(set tokens.Set, routed bool) *jwtv3.JwtAuthentication {
	rules := set.Rules()
	f := &jwtv3.JwtAuthentication{BypassCorsPreflight: true, Providers: map[string]*jwtv3.JwtProvider{}}
	var good, ifShown []*jwtv3.JwtRequirement // by one rule; and by each, if a token is shown
	for _, r := range rules {
		f.Providers[r.Name] = provider(r)
		f.Providers[r.Name].ClearRouteCache = routed
		by := &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_ProviderName{ProviderName: r.Name}}
		missing := &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_AllowMissing{AllowMissing: &emptypb.Empty{}}}
		good, ifShown = append(good, by), append(ifShown, oneOf(by, missing))
	}
	switch len(rules) {
	case 0:
		return f
	case 1:
		f.Rules = anyRequest(ifShown[0])
	default: // rules may look at one place for tokens of several issuers, so one that takes the token is enough
		f.Rules = anyRequest(oneOf(append(good, &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAll{
			RequiresAll: &jwtv3.JwtRequirementAndList{Requirements: ifShown},
		}})...))
	}
	return f
}

func oneOf(list ...*jwtv3.JwtRequirement) *jwtv3.JwtRequirement {
	return &jwtv3.JwtRequirement{RequiresType: &jwtv3.JwtRequirement_RequiresAny{RequiresAny: &jwtv3.JwtRequirementOrList{Requirements: list}}}
}

func anyRequest(needs *jwtv3.JwtRequirement) []*jwtv3.RequirementRule {
	return []*jwtv3.RequirementRule{{
		Match:           &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
		RequirementType: &jwtv3.RequirementRule_Requires{Requires: needs},
	}}
}

func provider(r tokens.Rule) *jwtv3.JwtProvider {
	p := &jwtv3.JwtProvider{
		Issuer: r.Issuer, Audiences: r.Audiences, Forward: r.Forward, FromParams: r.Params, FromCookies: r.Cookies, ForwardPayloadHeader: r.PayloadHeader,
		JwksSourceSpecifier:        &jwtv3.JwtProvider_LocalJwks{LocalJwks: &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: r.Keys}}},
		PayloadInMetadata:          envoy.TokenPayload,
		NormalizePayloadInMetadata: &jwtv3.JwtProvider_NormalizePayload{SpaceDelimitedClaims: r.SpaceDelimited},
	}
	for _, h := range r.Headers {
		p.FromHeaders = append(p.FromHeaders, &jwtv3.JwtHeader{Name: h.Name, ValuePrefix: h.Prefix})
	}
	for _, c := range r.ClaimHeaders {
		p.ClaimToHeaders = append(p.ClaimToHeaders, &jwtv3.JwtClaimToHeader{HeaderName: c.Header, ClaimName: c.Claim})
	}
	return p
}
