package envoylog_test

import (
	"strings"
	"testing"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

const (
	rootEnforced, ownEnforced = wire.StatRoot + wire.EnforcedRule, wire.StatOwn + wire.EnforcedRule
	rootObserved, ownObserved = wire.StatRoot + wire.ShadowRule, wire.StatOwn + wire.ShadowRule

	authzEnforced, authzObserved = wire.StatAuthz + wire.EnforcedRule, wire.StatAuthz + wire.ShadowRule
)

// The rules that are met here, as proxies write them, and as records name them.
var (
	list       = wire.Rule{Verdict: wire.RuleDenies, Policy: "default/list", Rule: "one", Revision: revisionTag, Reason: "no gambling, please", Owner: "web@example.com"}
	allowed    = wire.Rule{Verdict: wire.RuleAllows, Policy: "default/list", Rule: "rules[1]", Revision: revisionTag}
	meshDenies = wire.Rule{Verdict: wire.RuleDenies, Policy: "istio-system/mesh", Rule: "default", Revision: revisionTag}
	meshAllows = wire.Rule{Verdict: wire.RuleAllows, Policy: "istio-system/mesh", Rule: "all", Revision: revisionTag}
	meshFinal  = wire.Rule{Verdict: wire.RuleFinal, Policy: "istio-system/mesh", Rule: "backups", Revision: revisionTag}

	authzDenies = wire.Rule{Verdict: wire.RuleDenies, Policy: "AuthorizationPolicy/istio-system/way", Rule: "rules[0]", Revision: revisionTag}
	authzAsks   = wire.Rule{Verdict: wire.RuleAsks, Policy: "AuthorizationPolicy/istio-system/way", Rule: "rules[0]", Revision: revisionTag, Reason: "authz"}
	authzAllows = wire.Rule{Verdict: wire.RuleAllows, Policy: "AuthorizationPolicy/istio-system/way", Rule: "rules[1]", Revision: revisionTag}

	byAuthz    = record.Object{Kind: "AuthorizationPolicy", Namespace: "istio-system", Name: "way", Rule: "rules[0]", Revision: revisionTag}
	byAuthzAll = record.Object{Kind: "AuthorizationPolicy", Namespace: "istio-system", Name: "way", Rule: "rules[1]", Revision: revisionTag}

	byList     = record.Object{Kind: "EgressPolicy", Namespace: "default", Name: "list", Rule: "one", Revision: revisionTag}
	byAllowed  = record.Object{Kind: "EgressPolicy", Namespace: "default", Name: "list", Rule: "rules[1]", Revision: revisionTag}
	byMesh     = record.Object{Kind: "EgressPolicy", Namespace: "istio-system", Name: "mesh", Rule: "default", Revision: revisionTag}
	byMeshAll  = record.Object{Kind: "EgressPolicy", Namespace: "istio-system", Name: "mesh", Rule: "all", Revision: revisionTag}
	byMeshLast = record.Object{Kind: "EgressPolicy", Namespace: "istio-system", Name: "mesh", Rule: "backups", Revision: revisionTag}
)

const whyList = "denied by EgressPolicy default/list, rule one: no gambling, please (owner: web@example.com)"

// ruled adds what a filter says; said are pairs of keys and values.
func ruled(c *datav3.AccessLogCommon, filter string, said ...string) *datav3.AccessLogCommon {
	fields := map[string]*structpb.Value{}
	for i := 0; i+1 < len(said); i += 2 {
		fields[said[i]] = structpb.NewStringValue(said[i+1])
	}
	c.Metadata = &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{filter: {Fields: fields}}}
	return c
}

// answered adds what a question was answered: an answer has room, and ends in spaces.
func answered(c *datav3.AccessLogCommon, key, said string) *datav3.AccessLogCommon {
	return ruled(c, wire.AnswerFilter, "route", "default", key, said+strings.Repeat(" ", 40))
}

func details(r wire.Rule) string { return "rbac_access_denied_matched_policy[" + r.String() + "]" }

func ruledRequests() map[string]logCase {
	denied := func(change func(*record.Record)) *record.Record {
		r := record.Record{
			Class: record.HTTP, Verdict: record.Denied, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
			Protocol: "http", Method: "GET", URLPath: "/bets", Status: 403, DecidedBy: byList, Reason: whyList,
		}
		change(&r)
		return want(r)
	}
	left := func(allowedBy, wouldDeny record.Object) *record.Record {
		return want(record.Record{
			Class: record.HTTP, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 80, Authority: "external.com",
			Protocol: "http", Method: "GET", URLPath: "/", Status: 200, Cluster: "outbound|80||external.com", Route: "default", DecidedBy: revisedEntry, Reason: "registered",
			Destination: "203.0.113.1:443", AllowedBy: allowedBy, WouldDeny: wouldDeny,
		})
	}
	leaves := func(said ...string) logCase {
		return logCase{place: wire.GatewayHTTP, message: httpLog(ruled(
			peered(at(common("outbound|80||external.com", "default", "role", "external", "config", entryTag, "revision", revisionTag+"-"), address("10.0.0.2", 8443), address("203.0.113.1", 443))),
			wire.RuleFilter, said...), get, "external.com", "/", 200, "via_upstream")}
	}
	expecting := func(c logCase, allowedBy, wouldDeny record.Object) logCase {
		c.want = left(allowedBy, wouldDeny)
		return c
	}
	none := record.Object{}
	return map[string]logCase{
		"a request that a policy denies": {wire.GatewayHTTP, httpLog(
			ruled(peered(common("", "")), wire.RuleFilter, ownEnforced, list.String(), rootEnforced, wire.NoRule), get, "external.com", "/bets?on=red", 403, details(list)),
			denied(func(*record.Record) {})},
		"a request that a policy denies, to a host with a route": {wire.GatewayHTTP, httpLog(
			peered(common("outbound|80||external.com", "default", "role", "external", "config", entryTag, "revision", strings.Repeat("f", 32)+"-")), get, "external.com", "/bets", 403, details(list)),
			denied(func(r *record.Record) { r.Cluster, r.Route = "outbound|80||external.com", "default" })},
		"a request that the root namespace's default denies": {wire.GatewayHTTP, httpLog(peered(common("", "")), get, "external.com", "/bets", 403, details(meshDenies)),
			denied(func(r *record.Record) {
				r.DecidedBy, r.Reason = byMesh, "denied by EgressPolicy istio-system/mesh: no rule allows it"
			})},
		"a request that a default denies which says no revision": {wire.GatewayHTTP, httpLog(
			peered(common("outbound|80||external.com", "default", "role", "external", "config", entryTag, "revision", strings.Repeat("f", 32)+"-")), get, "external.com", "/bets", 403, details(wire.Rule{Verdict: wire.RuleDenies, Policy: "istio-system/mesh", Rule: "default"})),
			denied(func(r *record.Record) {
				r.DecidedBy, r.Reason = byMesh, "denied by EgressPolicy istio-system/mesh: no rule allows it"
				r.DecidedBy.Revision, r.Cluster, r.Route = "", "outbound|80||external.com", "default"
			})},
		"a request that an AuthorizationPolicy denies": {wire.GatewayHTTP, httpLog(ruled(peered(common("", "")), wire.RuleFilter, ownEnforced, allowed.String()), get, "external.com", "/bets", 403, details(authzDenies)),
			denied(func(r *record.Record) {
				r.DecidedBy, r.Reason = byAuthz, "denied by AuthorizationPolicy istio-system/way, rule rules[0]"
			})},
		"a request about which somebody was to be asked, who was asked no more": {wire.GatewayHTTP, httpLog(
			ruled(peered(common("", "")), wire.RuleFilter, wire.StatAsked+wire.ShadowRule, authzAsks.String()), get, "external.com", "/bets", 403, details(wire.Rule{Verdict: wire.RuleDenies, Reason: "it changes"})),
			denied(func(r *record.Record) {
				r.DecidedBy, r.Reason = byAuthz, "denied by AuthorizationPolicy istio-system/way, rule rules[0]: it changes"
			})},
		"a request whose path can be taken for another one": {wire.GatewayHTTP, httpLog(
			peered(common("", "")), get, "external.com", "/bets", 403, details(wire.Rule{Verdict: wire.RuleDenies, Policy: "default/list", Rule: "one.paths", Revision: revisionTag, Reason: "downloads"})),
			denied(func(r *record.Record) {
				r.DecidedBy.Rule, r.Reason = "one.paths", "denied by EgressPolicy default/list, rule one: the path can be taken for another one"
			})},
		"a request of nobody knows whom": {wire.GatewayHTTP, httpLog(
			common("", ""), get, "external.com", "/bets", 403, details(wire.Rule{Verdict: wire.RuleDenies, Policy: "default/list", Rule: "selector", Revision: revisionTag})),
			denied(func(r *record.Record) {
				r.Workload, r.DecidedBy.Rule, r.Reason = record.Workload{}, "selector", "denied by EgressPolicy default/list: nobody knows the workload's labels"
			})},
		"a request that the client's own proxy denies, on its way to a gateway": {wire.SidecarHTTP, httpLog(
			common(gatewayCluster, "default", "role", "gateway"), get, "external.com", "/bets", 403, details(list)),
			denied(func(r *record.Record) {
				r.Path, r.Reporter, r.Workload, r.Dialled, r.Cluster, r.Route = "blackhole", "sidecar", app, "240.240.0.9:80", gatewayCluster, "default"
			})},
		"a request that nobody registered, and the client's own proxy denies": {wire.SidecarHTTP, httpLog(
			common("PassthroughCluster", "allow_any", "role", "passthrough", "policy", policyTag), get, "external.com", "/bets", 403, details(list)),
			denied(func(r *record.Record) {
				r.Path, r.Reporter, r.Workload, r.Dialled, r.Cluster, r.Route = "blackhole", "sidecar", app, "240.240.0.9:80", "PassthroughCluster", "allow_any"
			})},
		"a request that the forward proxy denies": {wire.ForwardHTTP, httpLog(common("", ""), get, "external.com", "/bets", 403, details(list)),
			denied(func(r *record.Record) { r.Reporter, r.Workload = "proxy", app })},
		"a tunnel that the forward proxy denies": {wire.ForwardHTTP, httpLog(common("", ""), connect, "external.com:443", "", 403, details(list)),
			denied(func(r *record.Record) {
				r.Class, r.Protocol, r.Method, r.URLPath, r.Reporter, r.Workload = record.Network, "tls", "", "", "proxy", app
				r.Authority, r.Port, r.SNI = "external.com:443", 443, "external.com"
			})},
		"a request that a policy denied at the gateway, at the sidecar": {wire.SidecarHTTP, httpLog(
			common(gatewayCluster, "default", "role", "gateway"), get, "external.com", "/bets", 403, "via_upstream"), nil},

		"policies have nothing to say":               expecting(leaves(rootEnforced, wire.NoRule, ownEnforced, wire.NoRule), none, none),
		"another filter's rules":                     expecting(leaves("default_"+wire.EnforcedRule, allowed.String(), wire.EnforcedRule, "none"), none, none),
		"a namespace's rule allows":                  expecting(leaves(ownEnforced, allowed.String()), byAllowed, none),
		"both levels allow":                          expecting(leaves(rootEnforced, meshAllows.String(), ownEnforced, allowed.String()), byAllowed, none),
		"the root namespace's rule allows":           expecting(leaves(rootEnforced, meshAllows.String(), ownEnforced, wire.NoRule), byMeshAll, none),
		"the root namespace's rule allows for good":  expecting(leaves(rootEnforced, meshFinal.String(), ownEnforced, allowed.String()), byMeshLast, none),
		"an observed rule would deny":                expecting(leaves(ownObserved, list.String()), none, byList),
		"an observed rule of the root would deny":    expecting(leaves(rootObserved, meshDenies.String(), ownObserved, list.String()), none, byMesh),
		"allowed by one, another would deny":         expecting(leaves(ownEnforced, allowed.String(), rootObserved, meshDenies.String()), byAllowed, byMesh),
		"an observed rule that the root overrules":   expecting(leaves(rootObserved, meshFinal.String(), ownObserved, list.String()), none, none),
		"an observed rule that an enforced one does": expecting(leaves(rootEnforced, meshFinal.String(), ownObserved, list.String()), byMeshLast, none),
		"an observed rule beside one that allows":    expecting(leaves(rootEnforced, meshAllows.String(), rootObserved, meshAllows.String(), ownObserved, list.String()), byMeshAll, byList),
		"an AuthorizationPolicy allows":              expecting(leaves(rootEnforced, wire.NoRule, authzEnforced, authzAllows.String()), byAuthzAll, none),
		"two kinds of policies allow":                expecting(leaves(ownEnforced, allowed.String(), authzEnforced, authzAllows.String()), byAllowed, none),
		"a dry run would deny":                       expecting(leaves(authzEnforced, wire.NoRule, authzObserved, authzDenies.String()), none, byAuthz),
		"observed rules that allow":                  expecting(leaves(rootObserved, meshAllows.String(), ownObserved, allowed.String()), none, none),
	}
}

func ruledConnections() map[string]logCase {
	denied := func(place, path string, who record.Workload, change func(*record.Record)) *record.Record {
		r := record.Record{
			Class: record.Network, Verdict: record.Denied, Path: path, Reporter: place, Workload: who, Host: "external.com", Port: 443, SNI: "external.com",
			Authority: "external.com:443", Protocol: "tls", Cluster: "BlackHoleCluster", Route: "policy", DecidedBy: byList, Reason: whyList,
		}
		change(&r)
		return want(r)
	}
	behind := func(cluster, route, authority string, tags ...string) *datav3.AccessLogCommon {
		c := at(common(cluster, "", append(tags, "route", route, "authority", authority, "peer", app.Principal, "source", "10.0.0.1:41000")...), inner, nil)
		c.DownstreamRemoteAddress, c.DownstreamDirectRemoteAddress = inner, inner
		return c
	}
	to := func(dialled, asked string, tags ...string) *datav3.AccessLogCommon {
		return at(common("BlackHoleCluster", "", append(tags, "role", "blackhole", "route", "policy", "authority", asked)...), address(dialled, 443), nil)
	}
	return map[string]logCase{
		"TLS that a policy denies at the gateway": {wire.GatewayTLS, tcpLog(
			answered(behind("BlackHoleCluster", "policy", "external.com:443", "role", "blackhole"), wire.AnswerDenied, list.String()), "external.com", ""),
			denied("gateway", "gateway", client, func(*record.Record) {})},
		"TCP that a policy denies at the gateway": {wire.GatewayTCP, tcpLog(
			answered(behind("BlackHoleCluster", "policy", "db.external.com:5432", "role", "blackhole"), wire.AnswerDenied, list.String()), "", ""),
			denied("gateway", "gateway", client, func(r *record.Record) {
				r.Host, r.Port, r.SNI, r.Authority, r.Protocol = "db.external.com", 5432, "", "db.external.com:5432", "tcp"
			})},
		"TLS that a policy denies at the forward proxy": {wire.ForwardTLS, tcpLog(
			answered(behind("BlackHoleCluster", "policy", "external.com:443", "role", "blackhole"), wire.AnswerDenied, list.String()), "external.com", ""),
			denied("proxy", "gateway", app, func(*record.Record) {})},
		"TLS that the client's own proxy denies": {wire.SidecarTunnel, tcpLog(
			flagged(answered(to("240.240.0.9", "external.com:443"), wire.AnswerDenied, list.String()), &datav3.ResponseFlags{NoHealthyUpstream: true}), "external.com", ""),
			denied("sidecar", "blackhole", app, func(r *record.Record) { r.Dialled, r.Flags = "240.240.0.9:443", []string{"UH"} })},
		"an address that the client's own proxy denies": {wire.SidecarTunnel, tcpLog(
			answered(to("203.0.113.7", "203.0.113.7:443"), wire.AnswerDenied, meshDenies.String()), "", ""),
			denied("sidecar", "blackhole", app, func(r *record.Record) {
				r.Host, r.SNI, r.Authority, r.Protocol, r.Dialled = "203.0.113.7", "", "203.0.113.7:443", "tcp", "203.0.113.7:443"
				r.DecidedBy, r.Reason = byMesh, "denied by EgressPolicy istio-system/mesh: no rule allows it"
			})},
		"TLS that a rule allows, and another would not": {wire.GatewayTLS, tcpLog(
			answered(behind("outbound|443||external.com", "default", "external.com:443", "role", "external", "config", entryTag), wire.AnswerRules,
				meshAllows.String()+" - "+meshDenies.String()+" "), "external.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Cluster: "outbound|443||external.com", Route: "default", DecidedBy: entry, Reason: "registered",
				AllowedBy: byMeshAll, WouldDeny: byMesh,
			})},
		"TLS to a pattern's host, which was asked about before": {wire.GatewayTLS, tcpLog(
			behind("outbound|443||*.com", "default", "external.com:443", "role", "external", "config", entryTag, "rules", meshAllows.String()+" - "+meshDenies.String()+strings.Repeat(" ", 40)), "external.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Cluster: "outbound|443||*.com", Route: "default", DecidedBy: entry, Reason: "registered",
				AllowedBy: byMeshAll, WouldDeny: byMesh,
			})},
		"TLS that an AuthorizationPolicy denies": {wire.GatewayTLS, tcpLog(
			answered(behind("BlackHoleCluster", "policy", "external.com:443", "role", "blackhole"), wire.AnswerDenied, authzDenies.String()), "external.com", ""),
			denied("gateway", "gateway", client, func(r *record.Record) {
				r.DecidedBy, r.Reason = byAuthz, "denied by AuthorizationPolicy istio-system/way, rule rules[0]"
			})},
		"TLS that an AuthorizationPolicy allows, and a dry run would not": {wire.GatewayTLS, tcpLog(
			answered(behind("outbound|443||external.com", "default", "external.com:443", "role", "external", "config", entryTag), wire.AnswerRules,
				"    "+authzAllows.String()+" "+authzDenies.String()), "external.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Cluster: "outbound|443||external.com", Route: "default", DecidedBy: entry, Reason: "registered",
				AllowedBy: byAuthzAll, WouldDeny: byAuthz,
			})},
		"TLS that nobody registered, which an observed rule would deny": {wire.SidecarTunnel, tcpLog(
			answered(at(common("PassthroughCluster", "", "role", "passthrough", "policy", policyTag, "route", "allow_any", "authority", "other.test:443"), address("203.0.113.9", 443), address("203.0.113.9", 443)),
				wire.AnswerRules, "   "+list.String()), "other.test", ""),
			want(record.Record{
				Dialled: "203.0.113.9:443", Destination: "203.0.113.9:443",
				Class: record.Network, Verdict: record.Allowed, Path: "passthrough", Reporter: "sidecar", Workload: app, Host: "other.test", Port: 443, SNI: "other.test",
				Authority: "other.test:443", Protocol: "tls", Cluster: "PassthroughCluster", Route: "allow_any", DecidedBy: policy, Reason: "not registered; ALLOW_ANY",
				WouldDeny: byList,
			})},
		"what nobody registered, which an observed rule would deny as well": {wire.SidecarTunnel, tcpLog(
			answered(at(common("BlackHoleCluster", "", "role", "blackhole", "policy", policyTag, "route", "block_all", "authority", "other.test:443"), address("203.0.113.9", 443), nil),
				wire.AnswerRules, " "+allowed.String()+"  "+list.String()), "other.test", ""),
			want(record.Record{
				Dialled: "203.0.113.9:443",
				Class:   record.Network, Verdict: record.Denied, Path: "blackhole", Reporter: "sidecar", Workload: app, Host: "other.test", Port: 443, SNI: "other.test",
				Authority: "other.test:443", Protocol: "tls", Cluster: "BlackHoleCluster", Route: "block_all", DecidedBy: policy, Reason: "not registered",
			})},
		"an answer that is full": {wire.GatewayTLS, tcpLog(
			ruled(behind("outbound|443||external.com", "default", "external.com:443", "role", "external", "config", entryTag), wire.AnswerFilter,
				wire.AnswerRules, " - "+meshFinal.String()+" deny|default/list|on"), "external.com", ""),
			want(record.Record{
				Class: record.Network, Verdict: record.Allowed, Path: "gateway", Reporter: "gateway", Workload: client, Host: "external.com", Port: 443, SNI: "external.com",
				Authority: "external.com:443", Protocol: "tls", Cluster: "outbound|443||external.com", Route: "default", DecidedBy: entry, Reason: "registered",
			})},
	}
}

// TestLongReasons: what policies say fits into a record like the rest.
func TestLongReasons(t *testing.T) {
	long := list
	long.Reason, long.Owner = strings.Repeat("ü", 128), strings.Repeat("|", 256)
	got := read(t, node, wire.GatewayHTTP, httpLog(common("", ""), get, "external.com", "/", 403, details(long)))
	wanted := "denied by EgressPolicy default/list, rule one: " + long.Reason + " (owner: " + long.Owner + ")"
	if len(got) != 1 || got[0].Reason != wanted {
		t.Fatal(cmp.Diff(wanted, got[0].Reason))
	}
	got[0].Bound()
	if len(got[0].Cut) > 0 {
		t.Errorf("cut: %q", got[0].Cut)
	}
}
