package route

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
)

func TestClaimPath(t *testing.T) {
	for header, want := range map[string][]string{
		"@request.auth.claims.group":         {"group"},
		"@Request.Auth.Claims.Group":         {"Group"},
		"@request.auth.claims.realm.roles":   {"realm", "roles"},
		"@request.auth.claims[realm][roles]": {"realm", "roles"},
		"@request.auth.claims[a.b/c]":        {"a.b/c"},
		"@request.auth.claims":               nil,
		"@request.auth.claims.":              nil,
		"@request.auth.claims.a..b":          nil,
		"@request.auth.claims[]":             nil,
		"@request.auth.claims[a][]":          nil,
		"@request.auth.claims[a":             nil,
		"@request.auth.claimsx.a":            nil,
		"request.auth.claims.a":              nil,
		"x":                                  nil,
	} {
		if got, ok := ClaimPath(header); ok != (want != nil) || ok && !slices.Equal(got, want) {
			t.Errorf("%s: %q %v", header, got, ok)
		}
	}
}

// TestClaims: routes by claims are for tokens that were verified, at places that read them; whoever has no token, or says so in a header, has no claims.
func TestClaims(t *testing.T) {
	exact := func(text string) *networking.StringMatch {
		return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: text}}
	}
	const group, role = "@request.auth.claims.group", "@request.auth.claims[realm][role]"
	of := func(m *networking.HTTPMatchRequest) *HTTP {
		o := &config.Object{Key: config.Key{Kind: config.KindVirtualService, Namespace: "shop", Name: "v"}}
		r := Parse(o, &networking.VirtualService{Hosts: []string{"a.com"}, Gateways: []string{"shop/public"}, Http: []*networking.HTTPRoute{{
			Match: []*networking.HTTPMatchRequest{m}, DirectResponse: &networking.HTTPDirectResponse{Status: 200},
		}}})
		if len(r.HTTP) != 1 {
			t.Fatalf("%v: %d routes", m, len(r.HTTP))
		}
		return &r.HTTP[0]
	}
	says := map[string][]string{"group": {"dev", "ops"}, "realm/role": {"reader"}}
	token := func(path []string) []string {
		key := path[0]
		for _, within := range path[1:] {
			key += "/" + within
		}
		return says[key]
	}
	for name, c := range map[string]struct {
		match      *networking.HTTPMatchRequest
		with, none bool
	}{
		"a text in a list": {&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{group: exact("ops")}}, true, false},
		"within a claim":   {&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{role: exact("reader")}}, true, false},
		"both":             {&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{group: exact("ops"), role: exact("writer")}}, false, false},
		"any text":         {&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{group: {}}}, true, false},
		"another":          {&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{group: exact("all")}}, false, false},
		"not there":        {&networking.HTTPMatchRequest{Headers: map[string]*networking.StringMatch{group + ".x": {}}}, false, false},
		"without it":       {&networking.HTTPMatchRequest{WithoutHeaders: map[string]*networking.StringMatch{group: exact("ops")}}, false, true},
		"without any":      {&networking.HTTPMatchRequest{WithoutHeaders: map[string]*networking.StringMatch{group: {}}}, false, true},
	} {
		h := of(c.match)
		q := Request{Place: Scope{Gateway: "shop/public", ReadsTokens: true}, Path: "/", Headers: map[string][]string{group: {"ops"}, "group": {"ops"}}}
		if got := h.Means(&q); got != c.none {
			t.Errorf("%s: without a token it means the request: %v", name, got)
		}
		if q.Claims = token; h.Means(&q) != c.with {
			t.Errorf("%s: with a token it means the request: %v", name, !c.with)
		}
		if q.Place.ReadsTokens = false; h.Means(&q) {
			t.Errorf("%s: it means a request where nobody reads tokens", name)
		}
	}
}
