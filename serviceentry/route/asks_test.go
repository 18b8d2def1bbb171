package route

import (
	"reflect"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestAsks: what a filter says of who is asked, and what of it is not done.
func TestAsks(t *testing.T) {
	const grpc, http = "protocol: GRPC, backendRef: {name: a, port: 9000}", "protocol: HTTP, backendRef: {name: a, port: 80}"
	for _, c := range []struct {
		filter string
		want   ExternalAuth
		why    string
	}{
		{"{" + grpc + "}", ExternalAuth{Destination: Destination{Host: "a", Port: 9000}, GRPC: true}, ""},
		{"{" + grpc + ", grpc: {allowedHeaders: [X-A]}, forwardBody: {maxSize: 100}}", ExternalAuth{Destination: Destination{Host: "a", Port: 9000}, GRPC: true, Sent: []string{"X-A"}, Body: 100}, ""},
		{"{" + http + ", http: {path: check/, allowedHeaders: [a], allowedResponseHeaders: [X-B]}}", ExternalAuth{Destination: Destination{Host: "a", Port: 80}, Path: "/check", Sent: []string{"a"}, Taken: []string{"X-B"}}, ""},
		{"{protocol: HTTP, backendRef: {name: gone}, http: {path: /}, forwardBody: {maxSize: 0}}", ExternalAuth{}, ""},
		{"{" + grpc + ", http: {}}", ExternalAuth{}, "externalAuth.http is for"},
		{"{" + http + ", grpc: {}}", ExternalAuth{}, "externalAuth.grpc is for"},
		{"{protocol: REST, backendRef: {name: a, port: 80}}", ExternalAuth{}, `"REST" is neither`},
		{"{" + http + ", http: {path: '/a?b'}}", ExternalAuth{}, `"/a?b"`},
		{"{" + http + ", http: {allowedHeaders: ['a b']}}", ExternalAuth{}, `"a b" in allowedHeaders`},
		{"{" + http + ", http: {allowedResponseHeaders: [Host]}}", ExternalAuth{}, `"Host" in allowedResponseHeaders`},
		{"{" + http + ", http: {allowedResponseHeaders: [Transfer-Encoding]}}", ExternalAuth{}, `"Transfer-Encoding"`},
		{"{" + http + ", http: {allowedResponseHeaders: [x-sallyport-a]}}", ExternalAuth{}, `"x-sallyport-a"`},
	} {
		spec, got := parseRules(t, "- {filters: [{type: ExternalAuth, externalAuth: "+c.filter+"}], backendRefs: [{name: b, port: 80}]}")
		field, why := Unsupported(spec)
		if c.why != "" {
			if field != "rules[0].filters[0]" || !strings.Contains(why, c.why) {
				t.Errorf("%s: %q %q, want %q", c.filter, field, why, c.why)
			}
			continue
		}
		if why != "" || len(got) != 1 || got[0].Asks == nil || !reflect.DeepEqual(*got[0].Asks, c.want) {
			t.Errorf("%s: %q %+v, want %+v", c.filter, why, got[0].Asks, c.want)
		}
	}
	spec, _ := parseRules(t, "- {filters: [{type: ExternalAuth, externalAuth: {"+grpc+"}}, {type: ExternalAuth, externalAuth: {"+http+"}}, {type: RequestMirror, requestMirror: {backendRef: {name: m, port: 1}}}], backendRefs: [{name: b, port: 80}]}")
	if field, why := Unsupported(spec); field != "rules[0].filters[1]" || !strings.Contains(why, "one authorizer") {
		t.Errorf("two: %q %q", field, why)
	}
	if empty, _ := parseRules(t, "- {filters: [{type: ExternalAuth}]}"); !strings.Contains(second(Unsupported(empty)), "empty") {
		t.Error("an empty filter is taken")
	}
	var names []string
	for _, b := range Backends(spec) {
		names = append(names, string(b.Name))
	}
	if text := strings.Join(names, " "); text != "b a a m" {
		t.Errorf("backends %s", text)
	}
	if by := AskedByGRPC(spec); len(by) != 1 || *by[0].Port != 9000 || !AsksAuthorizer(spec) || AsksAuthorizer(&gatewayv1.TCPRouteSpec{}) {
		t.Errorf("by gRPC: %+v", by)
	}
}

func second(_, b string) string { return b }
