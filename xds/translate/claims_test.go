package translate_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/route"
	"github.com/sallyport/sallyport/serviceentry/tokens"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
	"github.com/sallyport/sallyport/xds/translate/authzfilter"
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
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: "test",
		HttpFilters: []*hcmv3.HttpFilter{
			{Name: envoy.TokenFilter, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, verifying())}},
			{Name: "router", ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, &routerv3.Router{})}},
		},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "test", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{r}}},
		}},
	}
	return startListening(t, m)
}

// verifying is the filter that verifies claimToken.
func verifying() *jwtv3.JwtAuthentication {
	return authzfilter.Tokens(tokens.Set{{Rules: []tokens.Rule{{Name: "shop/tokens/jwtRules[0]", Issuer: "https://issuer.example", Keys: claimKeys}}}}, true)
}

// startListening starts an Envoy that reads requests.
func startListening(t *testing.T, m *hcmv3.HttpConnectionManager, clusters ...*clusterv3.Cluster) (address string) {
	t.Helper()
	address = filepath.Join(t.TempDir(), "socket")
	envoytest.Start(t, &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{Clusters: clusters, Listeners: []*listenerv3.Listener{{
		Name: "test", Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: address}}},
		FilterChains: []*listenerv3.FilterChain{envoy.FilterChain("http", nil, envoy.NetworkFilter("envoy.filters.network.http_connection_manager", m))},
	}}}}, address)
	return address
}

func askWithToken(t *testing.T, address, token string) int {
	t.Helper()
	return askAt(t, address, "/", token, "Group", "orders").StatusCode
}

// askAt asks as a page's script does by gRPC-Web, with a header; the answer's body is read.
func askAt(t *testing.T, address, path, token string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", address)
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://a.com"+path, http.NoBody)
	must(err)
	req.Header.Set("Content-Type", "application/grpc-web")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp
}

// claimedRoutes are found by what a token says, and differ in what else they ask for.
const claimedRoutes = `apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: v}
spec:
  hosts: [a.com]
  gateways: [g]
  http:
  - {match: [{uri: {exact: /fault}, headers: {"@request.auth.claims.group": {exact: orders}}}], fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, directResponse: {status: 299}}
  - {match: [{uri: {exact: /fault}}], directResponse: {status: 297}}
  - {match: [{uri: {exact: /no-fault}, headers: {"@request.auth.claims.group": {exact: orders}}}], directResponse: {status: 299}}
  - {match: [{uri: {exact: /cors}, headers: {"@request.auth.claims.group": {exact: orders}}}], corsPolicy: {allowOrigins: [{exact: "https://page.example"}]}, route: [{destination: {host: plain.example}}]}
  - {match: [{uri: {exact: /web}, headers: {"@request.auth.claims.group": {exact: orders}}}], route: [{destination: {host: grpc.example}}]}
  - {match: [{uri: {exact: /web}}], route: [{destination: {host: plain.example}}]}
  - {match: [{uri: {exact: /no-web}, headers: {"@request.auth.claims.group": {exact: orders}}}], route: [{destination: {host: plain.example}}]}
  - {match: [{uri: {exact: /no-web}}], route: [{destination: {host: grpc.example}}]}
  - {match: [{uri: {exact: /shares}, headers: {"@request.auth.claims.group": {exact: orders}}}], route: [{destination: {host: grpc.example}, weight: 50}, {destination: {host: grpc.example}, weight: 50}]}
  - {match: [{uri: {exact: /token}, headers: {"@request.auth.claims.group": {exact: orders}}}], fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, directResponse: {status: 299}}
  - {match: [{uri: {exact: /token}}], directResponse: {status: 404}}
  - {fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, corsPolicy: {allowOrigins: [{exact: "https://other.example"}]}, route: [{destination: {host: plain.example}}]}
`

// TestEnvoyAppliesRoutesOfClaims: of a route that is found when a token was verified all counts, and nothing of the one that was found before it.
func TestEnvoyAppliesRoutesOfClaims(t *testing.T) {
	t.Parallel()
	f := decode.File("v.yaml", []byte(claimedRoutes))
	if len(f.Findings) > 0 {
		t.Fatal(f.Findings)
	}
	ends := map[string]httproute.End{
		"grpc.example":  {Cluster: "app", Filters: envoy.GRPCWebConfig()},
		"plain.example": {Cluster: "app"},
	}
	var routes []*routev3.Route
	for _, h := range route.Parse(&f.Objects[0], f.Objects[0].Spec.(*networking.VirtualService)).HTTP {
		var to []httproute.End
		for _, d := range h.Destinations {
			to = append(to, ends[d.Host])
		}
		for i := range h.Matches {
			routes = append(routes, httproute.Render(&h, &h.Matches[i], 80, to, nil))
		}
	}
	address := startIngress(t, routes)
	for _, c := range []struct {
		path, token   string
		status        int
		origin, asked string // what the answer lets read, and what the app was asked in
	}{
		{"/fault", "", 297, "", ""},
		{"/fault", claimToken, 418, "", ""},
		{"/no-fault", "", 418, "https://other.example", ""},
		{"/no-fault", claimToken, 299, "", ""},
		{"/cors", "", 418, "https://other.example", ""},
		{"/cors", claimToken, 200, "https://page.example", "application/grpc-web"},
		{"/web", "", 200, "", "application/grpc-web"},
		{"/web", claimToken, 200, "", "application/grpc"},
		{"/no-web", "", 200, "", "application/grpc"},
		{"/no-web", claimToken, 200, "", "application/grpc-web"},
		{"/shares", claimToken, 200, "", "application/grpc"},
		{"/token", "", 404, "", ""},
		{"/token", claimToken, 418, "", ""},
	} {
		resp := askAt(t, address, c.path, c.token)
		if resp.StatusCode != c.status {
			t.Errorf("%s with the token %.5q: %d, want %d", c.path, c.token, resp.StatusCode, c.status)
		}
		if got := resp.Header.Get("x-asked"); got != c.asked {
			t.Errorf("%s with the token %.5q: the app is asked in %q, want %q", c.path, c.token, got, c.asked)
		}
		for _, origin := range []string{"https://page.example", "https://other.example"} {
			got := askAt(t, address, c.path, c.token, "Origin", origin).Header.Get("Access-Control-Allow-Origin")
			if want := map[bool]string{true: origin}[origin == c.origin]; got != want {
				t.Errorf("%s with the token %.5q from %s: %q may read it, want %q", c.path, c.token, origin, got, want)
			}
		}
	}
}

// startIngress starts an Envoy whose requests go through an ingress gateway's filters, and then by these routes to an app which says in what it is asked.
func startIngress(t *testing.T, routes []*routev3.Route) (address string) {
	t.Helper()
	m := &hcmv3.HttpConnectionManager{}
	must(envoy.IngressHCM("test", mesh.Ingress{}).GetTypedConfig().UnmarshalTo(m))
	m.HttpFilters = slices.DeleteFunc(m.HttpFilters, func(f *hcmv3.HttpFilter) bool { return f.Name != envoy.FilterTokens && f.GetConfigDiscovery() != nil })
	for _, f := range m.HttpFilters {
		if f.Name == envoy.FilterTokens {
			f.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: wrap(t, verifying())}
		}
	}
	m.AccessLog = nil
	row := &routev3.VirtualHost{Name: "all", Domains: []string{"*"}, Routes: routes}
	envoy.EnableConfigured(row)
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{Name: "test", VirtualHosts: []*routev3.VirtualHost{row}}}
	app := filepath.Join(t.TempDir(), "app")
	listens, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", app)
	must(err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Asked", r.Header.Get("Content-Type"))
	})}
	go func() { _ = server.Serve(listens) }()
	t.Cleanup(func() { _ = server.Close() })
	at := &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: app}}}
	to := &clusterv3.Cluster{Name: "app", ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}, LoadAssignment: &endpointv3.ClusterLoadAssignment{
		ClusterName: "app", Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{Address: at}}}}}},
	}}
	return startListening(t, m, to)
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
