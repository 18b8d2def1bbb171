package mesh_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/mesh"
)

// TestAuthorizers: providers that are asked are read with what they leave out, and others are warned of by name.
func TestAuthorizers(t *testing.T) {
	cfg, err := mesh.Parse([]byte(`
extensionProviders:
- {name: a, envoyExtAuthzGrpc: {service: authz.team.svc.cluster.local, port: 9000}}
- {name: b, envoyExtAuthzHttp: {service: team/authz.test, port: 8000, timeout: 2s, statusOnError: "503", failOpen: true, includeHeadersInCheck: [old], pathPrefix: /check,
    includeAdditionalHeadersInCheck: {z: "1", x: "2"}, includeRequestBodyInCheck: {maxRequestBytes: 10}, headersToUpstreamOnAllow: ["x-*"]}}
- {name: c, zipkin: {service: z.test, port: 1}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []mesh.Authorizer{
		{Name: "a", GRPC: true, Host: "authz.team.svc.cluster.local", Port: 9000, Timeout: 10 * time.Minute, StatusOnError: 403},
		{
			Name: "b", Namespace: "team", Host: "authz.test", Port: 8000, Timeout: 2 * time.Second, StatusOnError: 503, FailOpen: true, PathPrefix: "/check", SentHeaders: []string{"old"},
			Added: []mesh.AuthorizerHeader{{Name: "x", Value: "2"}, {Name: "z", Value: "1"}}, Body: &mesh.AuthorizerBody{Most: 10}, Upstream: []string{"x-*"},
		},
	}
	if !reflect.DeepEqual(cfg.Authorizers, want) {
		t.Errorf("%+v", cfg.Authorizers)
	}
	if len(cfg.Ignored) != 1 || !strings.Contains(cfg.Ignored[0].Field, "extensionProviders[2].zipkin") {
		t.Errorf("ignored: %v", cfg.Ignored)
	}
}

// TestAuthorizersRefused: what is wrong with one is said by its field.
func TestAuthorizersRefused(t *testing.T) {
	for _, status := range []string{"418", "425", "451", "199", "five"} { // of these proxies know none
		yaml := `extensionProviders: [{name: a, envoyExtAuthzGrpc: {service: a.b, port: 1, statusOnError: "` + status + `"}}]`
		if _, err := mesh.Parse([]byte(yaml)); err == nil || !strings.Contains(err.Error(), status) {
			t.Errorf("statusOnError %s: %v", status, err)
		}
	}
	for _, header := range []string{"host", "Host", `":path"`} {
		yaml := `extensionProviders: [{name: a, envoyExtAuthzHttp: {service: a.b, port: 1, includeAdditionalHeadersInCheck: {` + header + `: c}}}]`
		if _, err := mesh.Parse([]byte(yaml)); err == nil || !strings.Contains(err.Error(), "includeAdditionalHeadersInCheck") {
			t.Errorf("header %s: %v", header, err)
		}
	}
	for field, yaml := range map[string]string{
		"[0].name":                      `[{name: "", envoyExtAuthzGrpc: {service: a.b, port: 1}}]`,
		"[1].name":                      `[{name: a, envoyExtAuthzGrpc: {service: a.b, port: 1}}, {name: a, envoyExtAuthzGrpc: {service: a.b, port: 1}}]`,
		"Grpc.service":                  `[{name: a, envoyExtAuthzGrpc: {service: "", port: 1}}]`,
		"Http.service":                  `[{name: a, envoyExtAuthzHttp: {service: "*.b", port: 1}}]`,
		"Grpc.port":                     `[{name: a, envoyExtAuthzGrpc: {service: a.b, port: 70000}}]`,
		"Grpc.timeout":                  `[{name: a, envoyExtAuthzGrpc: {service: a.b, port: 1, timeout: 0s}}]`,
		"Grpc.statusOnError":            `[{name: a, envoyExtAuthzGrpc: {service: a.b, port: 1, statusOnError: "999"}}]`,
		"maxRequestBytes":               `[{name: a, envoyExtAuthzGrpc: {service: a.b, port: 1, includeRequestBodyInCheck: {}}}]`,
		"pathPrefix":                    `[{name: a, envoyExtAuthzHttp: {service: a.b, port: 1, pathPrefix: check}}]`,
		"headersToUpstreamOnAllow":      `[{name: a, envoyExtAuthzHttp: {service: a.b, port: 1, headersToUpstreamOnAllow: ["a b"]}}]`,
		"includeAdditionalHeadersInChe": `[{name: a, envoyExtAuthzHttp: {service: a.b, port: 1, includeAdditionalHeadersInCheck: {"a b": c}}}]`,
	} {
		if _, err := mesh.Parse([]byte("extensionProviders: " + yaml)); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
