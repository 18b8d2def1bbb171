package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// letOut registers hosts by routes at an egress Gateway, and by nothing else: two for which servers outside have certificates.
const letOut = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: out, namespace: istio-system}
spec:
  gatewayClassName: sallyport-egress
  addresses: [{type: Hostname, value: istio-egressgateway.istio-system.svc.cluster.local}]
  listeners:
  - {name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}
  - {name: tls, port: 443, protocol: TLS, tls: {mode: Passthrough}, allowedRoutes: {namespaces: {from: All}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: api, namespace: default}
spec:
  parentRefs: [{name: out, namespace: istio-system, sectionName: http}]
  hostnames: [second.com]
  rules:
  - matches: [{path: {type: PathPrefix, value: /v1}}]
    filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /api}}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: second.com, port: %[1]d}]
  - matches: [{path: {type: PathPrefix, value: /safe}}]
    backendRefs: [{group: networking.istio.io, kind: Hostname, name: second.com, port: 443}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {name: passed, namespace: default}
spec:
  parentRefs: [{name: out, namespace: istio-system, sectionName: tls}]
  hostnames: [unregistered.test]
  rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: unregistered.test, port: 443}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: theirs, namespace: neighbour}
spec:
  parentRefs: [{name: out, namespace: istio-system, sectionName: http}]
  hostnames: [second.com]
  rules: [{filters: [{type: RequestRedirect, requestRedirect: {hostname: theirs.test}}]}]
---
apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: letout, namespace: default}
spec:
  rules:
  - {name: closed, hosts: [second.com], paths: [/v1/closed], action: Deny}
`

// lets holds that what routes let out leaves by the egress gateway as they say, and nothing else of it.
func (w *routed) lets(t *testing.T) {
	w.scene.Outside.Set("second.com", time.Minute, world.OutsideAddrs[0]) // which serves routesPort, too
	if err := w.scene.Config.Write("letout.yaml", fmt.Sprintf(letOut, routesPort)); err != nil {
		t.Fatal(err)
	}
	var gateway string
	w.ready(t, "one.gateway.test", func(status int, s seen) bool { gateway = s.From; return status == http.StatusOK })
	get := func(path string) (int, string, error) {
		return appOf(w.scene).get(w.ctx, time.Minute, "second.com", 80, path, http.Header{})
	}
	if err := world.Within(w.ctx, time.Minute, func() error {
		addr, err := appOf(w.scene).resolve(w.ctx, "second.com")
		if err != nil || !madeUp.Contains(addr) {
			return fmt.Errorf("second.com is at %s (%w)", addr, err)
		}
		status, text, err := get("/v1/x")
		if err == nil && (status != http.StatusOK || !strings.Contains(text, `"Path":"/api/x"`) || !strings.Contains(text, `"From":"`+gateway+`"`)) {
			err = fmt.Errorf("%d %s, want /api/x from %s", status, text, gateway)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{"/": http.StatusNotFound, "/v2": http.StatusNotFound, "/v1/closed": http.StatusForbidden} {
		if err := world.Within(w.ctx, time.Minute, func() error { // a policy is in force by other resources than a route
			status, text, err := get(path)
			if err == nil && status != want {
				err = fmt.Errorf("%s: %d %s, want %d", path, status, text, want)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	if err := world.Within(w.ctx, time.Minute, func() error {
		status, text, err := get("/safe")
		if err == nil && (status != http.StatusOK || !strings.Contains(text, "says hello to "+gateway)) {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	}); err != nil {
		t.Errorf("a request that the gateway wraps in TLS: %v", err)
	}
	tls := func(host string) string { // what the server says, or why it says nothing
		_, err := appOf(w.scene).whileOpen(true).try(w.ctx, "https", host, 443, "/")
		return fmt.Sprint(err)
	}
	if err := world.Within(w.ctx, time.Minute, func() error {
		if said := tls("unregistered.test"); !strings.Contains(said, "says hello to "+gateway) {
			return fmt.Errorf("TLS that is passed on: %s, want it from %s", said, gateway)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if said := tls("second.com"); strings.Contains(said, "says hello") {
		t.Errorf("TLS to a port that no listener lets out: %s", said)
	}
	w.letOutRecorded(t)
}

// letOutRecorded holds that the audit log names the route, of what went and of what was turned away.
func (w *routed) letOutRecorded(t *testing.T) {
	t.Helper()
	says := func(path string, verdict record.Verdict, object record.Object) func(record.Record) bool {
		return func(r record.Record) bool {
			by := r.DecidedBy
			return r.Reporter == record.ReporterGateway && r.URLPath == path && r.Verdict == verdict && by.Kind == object.Kind && by.Namespace == object.Namespace && by.Name == object.Name
		}
	}
	api := record.Object{Kind: "HTTPRoute", Namespace: "default", Name: "api"}
	wanted := map[string]func(record.Record) bool{
		"what went":            says("/api/x", record.Allowed, api),
		"what was turned away": says("/v2", record.Denied, api),
		"what a policy denied": says("/v1/closed", record.Denied, record.Object{Kind: record.EgressPolicy, Namespace: "default", Name: "letout"}),
	}
	if err := world.Within(w.ctx, time.Minute, func() error {
		records, err := w.scene.AuditRecords(w.ctx, "--host", "second.com")
		if err != nil {
			return err
		}
		for what, is := range wanted {
			if !slices.ContainsFunc(records, is) {
				return fmt.Errorf("no record of %s among %+v", what, records)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
