package ocsf

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sallyport/sallyport/egress/audit/ocsf/ocsftest"
	"github.com/sallyport/sallyport/egress/audit/record"
)

func TestFromRecord(t *testing.T) {
	base := record.Record{
		Proxy: "sidecar~10.0.0.1~cart-1.shop~shop", Epoch: 5, Seq: 9, Time: time.UnixMilli(1_800_000_000_123),
		Workload: record.Workload{Principal: "spiffe://cluster.local/ns/shop/sa/cart", Namespace: "shop",
			ServiceAccount: "cart", Name: "cart-1"},
		Source: "10.0.0.1:4000", Host: "api.example.com", Port: 443, Destination: "192.0.2.1:443",
	}
	with := func(change func(*record.Record)) record.Record {
		r := base
		change(&r)
		return r
	}
	tests := []struct {
		name   string
		record record.Record
		want   map[string]any // path of the field → value in the JSON
	}{
		{"allowed connection", with(func(r *record.Record) {
			r.Class, r.Verdict, r.SNI, r.Duration = record.Network, record.Allowed, "api.example.com", time.Second
			r.BytesSent, r.BytesReceived, r.Path = 10, 5, record.PathGateway
		}), map[string]any{
			"class_uid": 4001.0, "category_uid": 4.0, "activity_id": 6.0, "type_uid": 400106.0, "severity_id": 1.0,
			"time": 1800000000123.0, "duration": 1000.0, "end_time": 1800000001123.0, "disposition": "Allowed",
			"disposition_id": 1.0, "action_id": 1.0, "src_endpoint.ip": "10.0.0.1", "src_endpoint.port": 4000.0,
			"dst_endpoint.hostname": "api.example.com", "dst_endpoint.ip": "192.0.2.1", "dst_endpoint.port": 443.0,
			"actor.user.uid": "spiffe://cluster.local/ns/shop/sa/cart", "actor.user.name": "shop/cart",
			"tls.sni": "api.example.com", "traffic.bytes": 15.0, "traffic.bytes_in": 10.0, "unmapped.path": "gateway",
			"metadata.product.name": "Sallyport", "metadata.version": "1.8.0",
			"metadata.uid": "sidecar~10.0.0.1~cart-1.shop~shop/5/9", "http_request": nil, "policy": nil,
		}},
		{"a word of review", with(func(r *record.Record) {
			r.Class, r.Reporter, r.Actor, r.ActorBy, r.Action, r.Reason, r.URLPath = record.Action, record.ReporterConsole, "oidc:ann", record.ByIssuer, "approved", "asked for", "/review"
		}), map[string]any{
			"unmapped.host": "api.example.com", "unmapped.port": "443", "unmapped.url_path": "/review",
			"class_uid": 6003.0, "category_uid": 6.0, "activity_id": 99.0, "activity_name": "approved", "type_uid": 600399.0, "actor.user.name": "oidc:ann", "actor.user.type_id": 1.0,
			"api.operation": "approved", "api.service.name": "sallyport console", "src_endpoint.ip": "10.0.0.1", "message": "approved by oidc:ann; asked for", "unmapped.actor_by": "issuer",
			"proxy_endpoint": nil, "dst_endpoint": nil, "disposition_id": nil,
		}},
		{"a word of nobody's who logged in", with(func(r *record.Record) {
			r.Class, r.Reporter, r.Action, r.Source = record.Action, record.ReporterConsole, "rejected", ""
		}), map[string]any{
			"actor.user.name": "nobody logged in", "actor.user.type_id": 0.0, "src_endpoint.name": "sidecar~10.0.0.1~cart-1.shop~shop", "message": "rejected by whoever reached the page, where nobody logs in",
		}},
		{"denied connection", with(func(r *record.Record) {
			r.Class, r.Verdict, r.Reason, r.Destination = record.Network, record.Denied, "not registered", ""
			r.DecidedBy = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "strict", Rule: "rules[1]"}
		}), map[string]any{
			"type_uid": 400105.0, "severity_id": 2.0, "disposition": "Blocked", "action": "Denied",
			"firewall_rule.name": "shop/strict", "firewall_rule.uid": "rules[1]", "firewall_rule.type": "EgressPolicy",
			"message": "not registered", "dst_endpoint.ip": nil, "dst_endpoint.port": 443.0,
			"policy.uid": "shop/strict", "policy.name": "strict", "policy.is_applied": true, "unmapped.policy_rule": "rules[1]",
		}},
		{"allowed by a policy's rule", with(func(r *record.Record) {
			r.Class, r.Verdict, r.DecidedBy = record.Network, record.Allowed, record.Object{Kind: "ServiceEntry", Namespace: "shop", Name: "api"}
			r.AllowedBy = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "strict", Rule: "api", Revision: "abc"}
		}), map[string]any{
			"action_id": 1.0, "firewall_rule.name": "shop/api", "policy.uid": "shop/strict", "policy.version": "abc", "policy.is_applied": true, "unmapped.policy_rule": "api",
		}},
		{"an observed policy would deny", with(func(r *record.Record) {
			r.Class, r.Verdict, r.DecidedBy = record.Network, record.Allowed, record.Object{Kind: "ServiceEntry", Namespace: "shop", Name: "api"}
			r.AllowedBy = record.Object{Kind: "EgressPolicy", Namespace: "shop", Name: "strict", Rule: "api"}
			r.WouldDeny = record.Object{Kind: "EgressPolicy", Namespace: "istio-system", Name: "next", Rule: "default", Revision: "def"}
		}), map[string]any{
			"action_id": 3.0, "action": "Observed", "disposition_id": 17.0, "type_uid": 400106.0, "severity_id": 1.0, "firewall_rule.name": "shop/api",
			"policy.uid": "istio-system/next", "policy.name": "next", "policy.version": "def", "policy.is_applied": false, "unmapped.policy_rule": "default",
			"unmapped.allowed_by": "shop/strict api",
		}},
		{"direction", with(func(r *record.Record) {
			r.Class, r.Direction, r.Dialled, r.DecidedBy = record.Network, record.Lateral, "10.0.0.9:80", record.Object{Kind: "Service", Name: "s", Revision: "abc"}
			r.DestinationWorkload, r.Workload.Labels = record.Workload{Name: "cart-2", Namespace: "shop"}, "app=cart"
		}), map[string]any{
			"connection_info.direction": "Lateral", "connection_info.direction_id": 3.0, "dst_endpoint.name": "cart-2", "firewall_rule.version": "abc",
			"unmapped.labels": "app=cart", "unmapped.dialled": "10.0.0.9:80", "unmapped.destination_namespace": "shop",
		}},
		{"inbound", with(func(r *record.Record) { r.Class, r.Direction = record.Network, record.Inbound }), map[string]any{"connection_info.direction_id": 1.0}},
		{"outbound", with(func(r *record.Record) { r.Class, r.Direction = record.Network, record.Outbound }), map[string]any{"connection_info.direction_id": 2.0}},
		{"of before directions", with(func(r *record.Record) { r.Class = record.Network }), map[string]any{"connection_info.direction_id": 0.0}},
		{"request", with(func(r *record.Record) {
			r.Class, r.Verdict, r.Method, r.URLPath, r.Status = record.HTTP, record.Denied, "POST", "/a?b=c", 403
		}), map[string]any{
			"class_uid": 4002.0, "activity_id": 6.0, "activity_name": "Post", "type_uid": 400206.0,
			"http_request.http_method": "POST", "http_request.url.path": "/a", "http_request.url.query_string": "b=c",
			"http_request.url.hostname": "api.example.com", "http_response.code": 403.0,
		}},
		{"request with another method", with(func(r *record.Record) { r.Class, r.Method = record.HTTP, "PROPFIND" }),
			map[string]any{"type_uid": 400299.0, "activity_name": "PROPFIND", "unmapped.method": "PROPFIND", "http_request.http_method": nil, "disposition_id": nil}},
		{"request that was none", with(func(r *record.Record) { r.Class = record.HTTP }),
			map[string]any{"type_uid": 400200.0}},
		{"name", with(func(r *record.Record) { r.Class, r.Verdict = record.DNS, record.Denied }), map[string]any{
			"class_uid": 4003.0, "type_uid": 400306.0, "query.hostname": "api.example.com",
			"connection_info.protocol_name": "udp", "dst_endpoint.hostname": nil,
		}},
		{"gap", record.Record{Proxy: "p", Class: record.Gap, Count: 12, Reason: "full", Time: base.Time}, map[string]any{
			"class_uid": 0.0, "category_uid": 0.0, "type_uid": 99.0, "count": 12.0, "severity_id": 3.0, "actor": nil, "proxy_endpoint": nil, "unmapped.proxy": "p",
			"message": "12 audit records of p are missing: full",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := json.Marshal(FromRecord(tt.record))
			if err != nil {
				t.Fatal(err)
			}
			var event map[string]any
			if err := json.Unmarshal(b, &event); err != nil {
				t.Fatal(err)
			}
			ocsftest.Check(t, b)
			got := map[string]any{}
			for path := range tt.want {
				got[path] = lookup(event, path)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lookup finds a field by its dotted path; nil when it is not there.
func lookup(event map[string]any, path string) any {
	var at any = event
	for key := range strings.SplitSeq(path, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[key]
	}
	return at
}
