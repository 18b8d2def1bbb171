package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The ports of the authorizers, which are at the bystander.
const (
	authorizerGRPC = 9191
	authorizerHTTP = 9192
	authorizerAway = 9193 // nobody listens
)

const authorizerObjects = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: authz, namespace: istio-system}
spec:
  hosts: [authz.test]
  location: MESH_INTERNAL
  resolution: STATIC
  endpoints: [{address: %s}]
  ports: [{number: 9191, name: grpc, protocol: GRPC}, {number: 9192, name: http, protocol: HTTP}, {number: 9193, name: grpc-away, protocol: GRPC}]
`

const authorizerSettings = `
extensionProviders:
- {name: by-grpc, envoyExtAuthzGrpc: {service: authz.test, port: 9191, timeout: 60s, includeRequestBodyInCheck: {maxRequestBytes: 1024}}}
- {name: by-http, envoyExtAuthzHttp: {service: istio-system/authz.test, port: 9192, timeout: 60s, pathPrefix: /check, includeRequestHeadersInCheck: [x-show, x-asks],
    includeAdditionalHeadersInCheck: {x-mesh: ours}, headersToUpstreamOnAllow: [x-who], headersToDownstreamOnDeny: [x-why], headersToDownstreamOnAllow: [x-seen]}}
- {name: slow, envoyExtAuthzGrpc: {service: authz.test, port: 9191, timeout: 0.3s, statusOnError: "503"}}
- {name: away, envoyExtAuthzGrpc: {service: authz.test, port: 9193, timeout: 1s}}
- {name: away-open, envoyExtAuthzGrpc: {service: authz.test, port: 9193, timeout: 1s, failOpen: true}}
- {name: nowhere, envoyExtAuthzGrpc: {service: nowhere.test, port: 1}}
`

// customPod is the meshed pod, with AuthorizationPolicies that have an authorizer asked.
type customPod struct {
	*authorizedPod
	asked authorizer
}

// authorizer answers by gRPC and by HTTP: it denies what asks to be denied.
type authorizer struct {
	authv3.UnimplementedAuthorizationServer

	mu    sync.Mutex
	last  *authv3.CheckRequest
	http  http.Header
	count atomic.Int64
}

func (a *authorizer) Check(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	a.count.Add(1)
	a.mu.Lock()
	a.last = req
	a.mu.Unlock()
	in := req.GetAttributes().GetRequest().GetHttp()
	switch asks := in.GetHeaders()["x-asks"]; {
	case asks == "wait":
		<-ctx.Done()
		return nil, ctx.Err()
	case asks == "deny", strings.Contains(in.GetBody(), "secret"), in == nil && req.GetAttributes().GetSource().GetPrincipal() == "":
		return &authv3.CheckResponse{
			Status: &statuspb.Status{Code: int32(codes.PermissionDenied)},
			HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
				Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}, Body: "the authorizer says no",
				Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-why", Value: "asked"}}},
			}},
		}, nil
	}
	return &authv3.CheckResponse{
		Status: &statuspb.Status{Code: int32(codes.OK)},
		HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
			Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-who", Value: "anna"}}},
		}},
	}, nil
}

func (a *authorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.count.Add(1)
	a.mu.Lock()
	a.http = r.Header.Clone()
	a.mu.Unlock()
	w.Header().Set("x-why", "asked")
	w.Header().Set("x-seen", "yes")
	w.Header().Set("x-who", "bert")
	if r.Header.Get("x-asks") == "deny" || !strings.HasPrefix(r.URL.Path, "/check/") || r.Header.Get("x-mesh") != "ours" {
		w.WriteHeader(http.StatusPaymentRequired)
	}
}

// TestCustomAuthorization: policies with the action CUSTOM have a server of the mesh asked, by gRPC or by HTTP, before requests and connections come to
// a pod's app; who cannot be asked closes, unless it is to be open.
func TestCustomAuthorization(t *testing.T) {
	needRoot(t)
	t.Parallel()
	p := &customPod{authorizedPod: &authorizedPod{meshed: newMeshed(t)}}
	p.asked.serve(t, p.bystander, bystanderAddr)
	p.asked.provide(t, p.scene, bystanderAddr)
	inOrder(t, []part{
		{"by gRPC", p.byGRPC},
		{"before others", p.beforeOthers},
		{"by HTTP", p.byHTTP},
		{"connections", p.connections},
		{"slow", p.slow},
		{"away", p.away},
		{"nobody to ask", p.nobody},
		{"a neighbour", p.neighbour},
		{"live", p.liveEdits},
		{"closed at every moment", p.closedMoments},
		{"the log", p.customLog},
	})
}

func custom(provider, rules string) [3]string {
	return own(`action: CUSTOM, provider: {name: ` + provider + `}, rules: [` + rules + `]`)
}

// says asks for a page, with headers, until the answer is of a status, and has a text in its body or headers.
func (p *customPod) says(t *testing.T, path string, status int, text, body string, header ...string) {
	t.Helper()
	turns(t, func() error {
		got, all, err := p.request(t.Context(), path, body, header...)
		if err != nil || got != status || !strings.Contains(all, text) {
			return fmt.Errorf("%s %v: %d %q (%w), want %d with %q", path, header, got, all, err, status, text)
		}
		return nil
	})
}

func (p *customPod) request(ctx context.Context, path, body string, header ...string) (status int, all string, err error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return p.scene.World.App.DialContext(ctx, network, netip.AddrPortFrom(meshedService, meshedHTTP).String())
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+meshedHost+":8080"+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, fmt.Sprintf("%v %s", resp.Header, text), err
}

// byGRPC: what a rule means is asked about, with who asks, and the body; what it answers comes to the client.
func (p *customPod) byGRPC(t *testing.T) {
	p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"], paths: [/asked*]}}]}`))
	p.says(t, "/asked", 401, "the authorizer says no", "", "x-asks", "deny")
	p.says(t, "/asked", 401, "X-Why:[asked]", "", "x-asks", "deny")
	p.says(t, "/asked", 401, "no", "a secret")
	p.says(t, "/asked", 413, "", strings.Repeat("x", 2048))
	p.says(t, "/asked", 200, "", "all is well")
	p.asked.mu.Lock()
	if got := p.asked.last.GetAttributes().GetSource().GetPrincipal(); got != "spiffe://"+meshedApp {
		t.Errorf("the client is told as %q", got)
	}
	p.asked.mu.Unlock()
	before := p.asked.count.Load()
	p.says(t, "/else", 200, "", "", "x-asks", "deny")
	if n := p.asked.count.Load() - before; n > 0 {
		t.Errorf("%d questions about what no rule means", n)
	}
}

// beforeOthers: policies that deny, and allow, are asked after it, and count all the same.
func (p *customPod) beforeOthers(t *testing.T) {
	p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"]}}]}`), own(`action: DENY, rules: [{to: [{operation: {ports: ["8080"], paths: [/denied]}}]}]`),
		own(`rules: [{to: [{operation: {paths: [/asked, /denied]}}]}]`))
	p.says(t, "/asked", 200, "", "")
	p.says(t, "/asked", 401, "", "", "x-asks", "deny")
	p.says(t, "/denied", 403, "", "")
	p.says(t, "/denied", 401, "", "", "x-asks", "deny")
	p.says(t, "/else", 403, "", "")
}

func (p *customPod) byHTTP(t *testing.T) {
	p.authorize(t, custom("by-http", `{to: [{operation: {ports: ["8080"], notPaths: [/else]}}]}`))
	p.says(t, "/asked", 402, "X-Why:[asked]", "", "x-asks", "deny")
	p.says(t, "/asked", 200, "X-Seen:[yes]", "", "x-show", "shown", "x-hide", "hidden")
	p.asked.mu.Lock()
	if h := p.asked.http; h.Get("x-show") != "shown" || h.Get("x-hide") != "" || h.Get("x-mesh") != "ours" {
		t.Errorf("it is told %v", h)
	}
	p.asked.mu.Unlock()
	p.says(t, "/else", 200, "", "", "x-asks", "deny")
}

// connections: gRPC can be asked about them, and HTTP cannot, which closes what a rule means.
func (p *customPod) connections(t *testing.T) {
	p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["9002"]}}]}`))
	p.holds(t, "/any", true, true, true, false, true) // the bystander has no principal
	p.authorize(t, custom("by-http", `{to: [{operation: {ports: ["9002"]}}]}`))
	p.holds(t, "/any", true, true, false, false, true)
}

func (p *customPod) slow(t *testing.T) {
	p.authorize(t, custom("slow", `{to: [{operation: {ports: ["8080"]}}]}`))
	p.says(t, "/asked", 200, "", "")
	p.says(t, "/asked", 503, "", "", "x-asks", "wait")
}

func (p *customPod) away(t *testing.T) {
	p.authorize(t, custom("away", `{to: [{operation: {ports: ["8080", "9002"]}}]}`))
	p.says(t, "/asked", 403, "", "")
	p.holds(t, "/any", false, false, false, false, true)
	p.authorize(t, custom("away-open", `{to: [{operation: {ports: ["8080", "9002"]}}]}`))
	p.says(t, "/asked", 200, "", "")
	p.holds(t, "/any", true, true, true, true, true)
}

// nobody: a provider that is none, whose host is none, and two of them, close what the rules mean, and nothing else.
func (p *customPod) nobody(t *testing.T) {
	for _, providers := range [][]string{{"unheard-of"}, {"nowhere"}, {"by-grpc", "by-http"}} {
		var all [][3]string
		for _, name := range providers {
			all = append(all, custom(name, `{to: [{operation: {ports: ["8080"], paths: [/asked]}}]}`))
		}
		p.authorize(t, all...)
		p.says(t, "/asked", 403, "", "")
		p.says(t, "/else", 200, "", "")
	}
}

// neighbour: what others write of it, and of the authorizer's host, changes nothing here.
func (p *customPod) neighbour(t *testing.T) {
	p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"]}}]}`))
	if err := p.scene.Config.Write("neighbour.yaml", `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: authz, namespace: neighbour}
spec: {hosts: [authz.test], location: MESH_INTERNAL, resolution: STATIC, endpoints: [{address: 10.77.0.1}], ports: [{number: 9191, name: grpc, protocol: GRPC}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: custom, namespace: neighbour}
spec: {action: CUSTOM, provider: {name: unheard-of}, rules: [{}]}
`); err != nil {
		t.Fatal(err)
	}
	p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"], paths: [/asked]}}]}`))
	p.says(t, "/asked", 200, "", "")
	p.says(t, "/asked", 401, "", "", "x-asks", "deny")
}

// liveEdits: while policies change by which one is asked, no request is lost that all of them let in.
func (p *customPod) liveEdits(t *testing.T) {
	p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"]}}]}`))
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int64
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			for ctx.Err() == nil {
				if status, all, err := p.request(t.Context(), "/live", ""); err != nil || status != 200 {
					t.Errorf("while policies change: %d %s (%v)", status, all, err)
					return
				}
				asked.Add(1)
			}
		})
	}
	for range 3 {
		p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"], paths: [/else]}}]}`), own(`rules: [{}]`))
		p.authorize(t, custom("by-grpc", `{to: [{operation: {ports: ["8080"]}}]}`), custom("by-grpc", `{from: [{source: {namespaces: [default]}}]}`))
	}
	enough(t, &asked, 20)
	stop()
	running.Wait()
}

// closedMoments: while policies change between who is asked and closed, nothing passes that is denied either way, and nothing of it is lost that no
// rule means.
func (p *customPod) closedMoments(t *testing.T) {
	const rules = `{to: [{operation: {ports: ["8080"], notPaths: [/else]}}]}`
	p.authorize(t, custom("by-grpc", rules))
	p.says(t, "/asked", 401, "", "", "x-asks", "deny")
	ctx, stop := context.WithCancel(t.Context())
	var tried atomic.Int64
	var running sync.WaitGroup
	for path, passes := range map[string]bool{"/asked": false, "/else": true} {
		running.Go(func() {
			for ctx.Err() == nil {
				status, all, err := p.request(t.Context(), path, "", "x-asks", "deny")
				if err != nil || (status == 200) != passes {
					t.Errorf("while policies change: %s: %d %s (%v)", path, status, all, err)
					return
				}
				tried.Add(1)
			}
		})
	}
	for range 3 {
		for _, provider := range []string{"unheard-of", "by-http", "nowhere", "by-grpc"} {
			p.authorize(t, custom(provider, rules))
		}
	}
	enough(t, &tried, 40)
	stop()
	running.Wait()
}

// customLog: the record names the policy, and says whether the provider denied it or could not be asked.
func (p *customPod) customLog(t *testing.T) {
	p.authorize(t, custom("slow", `{to: [{operation: {ports: ["8080"], paths: [/logged*]}}]}`))
	policy := fmt.Sprintf("edition-%d-0", p.written)
	p.says(t, "/logged", 401, "", "", "x-asks", "deny")
	p.says(t, "/logged-late", 503, "", "", "x-asks", "wait")
	for path, reason := range map[string]string{"/logged": "denied by the provider slow", "/logged-late": "the provider slow could not be asked"} {
		err := world.Within(t.Context(), time.Minute, func() error {
			records, err := p.scene.AuditRecords(t.Context(), "reporter:destination", "--limit", "2000")
			for i := range records {
				if r := &records[i]; r.Verdict == record.Denied && r.URLPath == path && r.DecidedBy.Name == policy && strings.HasPrefix(r.Reason, reason) {
					return nil
				}
			}
			return fmt.Errorf("not among %d records, of which the last are %+v (%w)", len(records), records[max(len(records)-3, 0):], err)
		})
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
