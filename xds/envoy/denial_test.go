package envoy

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	statev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	httpstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	"github.com/sallyport/sallyport/xds/envoy/envoytest"
	"github.com/sallyport/sallyport/xds/wire"
)

// denied is what a client is to read of a rule, whoever wrote what into it.
type denied struct {
	rule                 wire.Rule
	words                string // of the sentence, behind "EgressPolicy "
	policy, name, reason string // of the JSON
	owner                string
	unregistered         bool
}

var deniedRules = []denied{
	{
		wire.Rule{Policy: "shop/list", Rule: "one", Revision: "77aa", Reason: "No gambling, please: it is (really) 100 %", Owner: "web [team] | mail"},
		"shop/list, one: No gambling, please: it is (really) 100 % (owner: web [team] | mail)",
		"shop/list", "one", "No gambling, please: it is (really) 100 %", "web [team] | mail", false,
	},
	{wire.Rule{Policy: "shop/list", Rule: "default", Revision: "77aa"}, "shop/list, default: no rule allows it (owner: )", "shop/list", "default", "no rule allows it", "", false},
	{
		wire.Rule{Policy: "shop/list", Rule: "selector", Owner: "o"},
		"shop/list, selector: it selects by labels, and nobody knows the workload (owner: o)", "shop/list", "selector", "it selects by labels, and nobody knows the workload", "o", false,
	},
	{wire.Rule{Policy: "shop/list", Rule: "two", Revision: "1"}, "shop/list, two: the rule gives none (owner: )", "shop/list", "two", "the rule gives none", "", false},
	{wire.Rule{Policy: "shop/list", Rule: "default", Reason: "mine"}, "shop/list, default: mine (owner: )", "shop/list", "default", "mine", "", false},
	{
		wire.Rule{Policy: "MeshConfig/istio-system/mesh", Rule: "default", Revision: "1"},
		"MeshConfig/istio-system/mesh, default: no rule allows it (owner: )", "MeshConfig/istio-system/mesh", "default", "no rule allows it", "", true,
	},
	{ // as if it were of the sentence, or of the JSON
		wire.Rule{Policy: "shop/list", Rule: "two", Reason: `", default:  (`, Owner: `\"},{`}, `shop/list, two: ", default:  ( (owner: \"},{)`, "shop/list", "two", `", default:  (`, `\"},{`, false,
	},
	{wire.Rule{Policy: "shop/list", Rule: "two", Reason: "|a%20b|default|", Owner: "]"}, "shop/list, two: |a%20b|default| (owner: ])", "shop/list", "two", "|a%20b|default|", "]", false},
}

// TestDenialsAreReadable: a real Envoy says of each rule what it should, in words to browsers and in JSON to others.
func TestDenialsAreReadable(t *testing.T) {
	policies := map[string]*rbacv3.Policy{}
	for i, d := range deniedRules {
		rule := d.rule
		rule.Verdict = wire.RuleDenies
		policies[rule.String()] = &rbacv3.Policy{
			Principals: []*rbacv3.Principal{{Identifier: &rbacv3.Principal_Any{Any: true}}},
			Permissions: []*rbacv3.Permission{{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
				Rule: &matcherv3.PathMatcher_Path{Path: Exact("/" + strconv.Itoa(i))},
			}}}},
		}
	}
	ask := denying(t, policies)
	for i, d := range deniedRules {
		suffix := ""
		if d.unregistered {
			suffix = ", unregistered: true"
		}
		allow := "- {hosts: [host.test], action: Allow" + suffix + "}"
		if got, want := ask(i, "text/html"), "sallyport: host.test is denied by EgressPolicy "+d.words+"\nTo allow it, write this before that rule:\n"+allow+"\n"; got != want {
			t.Errorf("%v in words:\n%s\nwant:\n%s", d.rule, got, want)
		}
		got, want := map[string]string{}, map[string]string{"error": "denied by EgressPolicy", "host": "host.test", "allow": allow, "policy": d.policy, "rule": d.name, "reason": d.reason, "owner": d.owner}
		if text := ask(i, "*/*"); json.Unmarshal([]byte(text), &got) != nil || !maps.Equal(got, want) {
			t.Errorf("%v in JSON:\n%s\nwant:\n%v", d.rule, text, want)
		}
	}
}

// denying runs an Envoy that denies requests by these policies. What it gives asks for a path, and gives the answer.
func denying(t *testing.T, policies map[string]*rbacv3.Policy) func(path int, accept string) string {
	t.Helper()
	address := filepath.Join(t.TempDir(), "socket")
	host := &httpstatev3.Config{OnRequestHeaders: []*statev3.FilterStateValue{State(wire.StateHost, "%REQ(:AUTHORITY)%", NotShared)}}
	m := &hcmv3.HttpConnectionManager{
		StatPrefix: "test", LocalReplyConfig: denials(),
		HttpFilters: []*hcmv3.HttpFilter{httpFilter(filterState, host), httpFilter(FilterRBAC, &httprbacv3.RBAC{Rules: &rbacv3.RBAC{Action: rbacv3.RBAC_DENY, Policies: policies}}), router()},
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{Name: "test", VirtualHosts: []*routev3.VirtualHost{{Name: "all", Domains: []string{"*"}, Routes: []*routev3.Route{{
			Match: &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}, Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusOK}},
		}}}}}},
	}
	envoytest.Start(t, &bootstrapv3.Bootstrap{StaticResources: &bootstrapv3.Bootstrap_StaticResources{Listeners: []*listenerv3.Listener{{
		Name: "test", Address: &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: address}}},
		FilterChains: []*listenerv3.FilterChain{FilterChain("http", nil, NetworkFilter("envoy.filters.network.http_connection_manager", m))},
	}}}}, address)
	return func(path int, accept string) string {
		conn, err := net.Dial("unix", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "GET /"+strconv.Itoa(path)+" HTTP/1.1\r\nHost: host.test\r\nAccept: "+accept+"\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusForbidden {
			t.Fatalf("%d %v", resp.StatusCode, err)
		}
		return string(body)
	}
}

// TestDenialsAreFew: operations of expressions are what they cost each connection manager of an Envoy.
func TestDenialsAreFew(t *testing.T) {
	const most = 20
	text := denials().String()
	for _, operation := range []string{".replace(", ".split("} {
		if n := strings.Count(text, operation); n > most {
			t.Errorf("%d × %s, want at most %d", n, operation, most)
		}
	}
}

// TestAnswersAreHeldAgainstNoExpressionFirst: every answer to a question is held against what denied ones are, so something cheap says first of which an
// expression is asked.
func TestAnswersAreHeldAgainstNoExpressionFirst(t *testing.T) {
	for _, verified := range []bool{false, true} {
		for i, m := range deniedAnswers(verified).Mappers {
			first := m.Filter
			for first.GetAndFilter() != nil || first.GetOrFilter() != nil {
				first = append(first.GetAndFilter().GetFilters(), first.GetOrFilter().GetFilters()...)[0]
			}
			if first.GetExtensionFilter() != nil {
				t.Errorf("mapper %d of answers, clients verified: %v, asks an expression of each answer", i, verified)
			}
		}
	}
}
