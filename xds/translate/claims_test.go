package translate_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/authorizing"
	"github.com/sallyport/sallyport/xds/translate/httproute"
)

// claimKeys verify claimToken, which says {"iss": "https://issuer.example", "sub": "anna", "group": "orders"} until 2099.
const (
	claimKeys  = `{"keys":[{"kty":"EC","kid":"try","crv":"P-256","alg":"ES256","x":"xJCW1rPjFb-ZvDnokB6c6xHDK4mGYaj1kDC6ndH_CVA","y":"taMMXDYNV9p0Gwk7Kef5LZAGjl7k4JDHjueYc21Gdxw"}]}`
	claimToken = "eyJhbGciOiJFUzI1NiIsImtpZCI6InRyeSJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoiYW5uYSIsImdyb3VwIjoib3JkZXJzIiwiZXhwIjo0MTAyNDQ0ODAwfQ.ZpVDDN_rn4SMG1BH25I_O0niatxK_JwuPygYDrdwpvQlu4pyWF92hGGlcpIw9786QsKpmB2ycfijddpP68aMzQ"
)

// TestEnvoyRoutesByClaims: a real Envoy follows routes by the claims of a token that it verified, and takes no header of a client's for one.
func TestEnvoyRoutesByClaims(t *testing.T) {
	for match, status := range map[string][2]int{ // without a token, and with it; 404 is that the route does not mean it
		`{headers: {"@request.auth.claims.group": {exact: orders}}}`:        {404, 299},
		`{headers: {"@request.auth.claims[group]": {prefix: ord}}}`:         {404, 299},
		`{headers: {"@request.auth.claims.group": {regex: "o.*s"}}}`:        {404, 299},
		`{headers: {"@request.auth.claims.group": {}}}`:                     {404, 299},
		`{headers: {"@request.auth.claims.group": {exact: other}}}`:         {404, 404},
		`{headers: {"@request.auth.claims.group.within": {}}}`:              {404, 404},
		`{headers: {"@request.auth.claims.none": {}}}`:                      {404, 404},
		`{withoutHeaders: {"@request.auth.claims.group": {exact: orders}}}`: {299, 404},
		`{withoutHeaders: {"@request.auth.claims.sub": {}}}`:                {299, 404},
	} {
		t.Run(match, func(t *testing.T) {
			t.Parallel()
			f := decode.File("v.yaml", []byte("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: v}\nspec: {hosts: [a.com], gateways: [g], http: [{match: ["+match+"], directResponse: {status: 299}}]}"))
			if len(f.Findings) > 0 {
				t.Fatal(f.Findings)
			}
			h := route.Parse(&f.Objects[0], f.Objects[0].Spec.(*networking.VirtualService)).HTTP[0]
			address := startWithTokens(t, httproute.Render(&h, &h.Matches[0], 80, nil, nil))
			for i, token := range []string{"", claimToken} {
				if got := askWithToken(t, address, token); got != status[i] {
					t.Errorf("with the token %.5q: %d, want %d", token, got, status[i])
				}
			}
			if got := askWithToken(t, address, claimToken[:len(claimToken)-10]+"AAAAAAAAAA"); got != http.StatusUnauthorized {
				t.Errorf("with a forged token: %d", got)
			}
		})
	}
}

// startWithTokens starts an Envoy that verifies tokens before it follows a route.
func startWithTokens(t *testing.T, r *routev3.Route) (address string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "socket")
	verifies := authorizing.Tokens(tokens.Set{{Rules: []tokens.Rule{{Name: "shop/tokens/jwtRules[0]", Issuer: "https://issuer.example", Keys: claimKeys}}}}, true)
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: "test",
		HttpFilters: []*hcmv3.HttpFilter{
			{Name: envoy.TokenFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, verifies)}},
			{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, &routerv3.Router{})}},
		},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "test", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{r}}},
		}},
	}
	envoytest.Start(t, &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{{
		Name: "test", Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: address}}},
		FilterChains: []*listenerv3.FilterChain{envoy.Chain("http", nil, envoy.NetworkFilter("envoy.filters.network.http_connection_manager", m))},
	}}}}, address)
	return address
}

func askWithToken(t *testing.T, address, token string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", address)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.com/", http.NoBody)
	must(err)
	req.Header.Set("group", "orders")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestIngressFollowsClaims: an ingress gateway has routes found once more when it has verified a token; a pod's own proxy has none.
func TestIngressFollowsClaims(t *testing.T) {
	for name, routed := range map[string]bool{"ingress": true, "mtls-sidecar": false, "gateway": false} {
		c := cases(t)[name]
		c.objects = append(append([]config.Object{}, c.objects...), authenticationFor(c.node.Namespace, nil))
		s := c.snapshot()
		r, ok := translate.BuildPolicies(s, translate.PolicedBy(s, c.node)).Get(resource.Extension, envoy.FilterTokens)
		if !ok {
			t.Fatalf("%s: nothing for the filter", name)
		}
		m, err := r.Any().UnmarshalNew()
		must(err)
		filter := &jwtv3.JwtAuthentication{}
		must(m.(*corev3.TypedExtensionConfig).TypedConfig.UnmarshalTo(filter))
		for rule, p := range filter.Providers {
			if p.ClearRouteCache != routed {
				t.Errorf("%s: %s: routes are found once more: %v", name, rule, p.ClearRouteCache)
			}
		}
		if len(filter.Providers) == 0 {
			t.Errorf("%s: no rules", name)
		}
	}
}
