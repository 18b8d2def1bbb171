package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

const ingressTokens = `apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  jwtRules: [{issuer: %q, jwks: '%s'}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: tokens, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules: [{from: [{source: {notRequestPrincipals: ["*"]}}], to: [{operation: {paths: [/with-token], ports: ["80", "8080"]}}]}]
`

// claimRoutes lead by what a token says, each answering by itself.
const claimRoutes = `---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: claims, namespace: shop}
spec:
  hosts: [live.test]
  gateways: [public]
  http:
  - {match: [{headers: {"@request.auth.claims.group": {exact: ops}}}], directResponse: {status: 210}}
  - {match: [{headers: {"@request.auth.claims[realm][roles]": {prefix: read}}}], directResponse: {status: 211}}
  - {match: [{withoutHeaders: {"@request.auth.claims.sub": {}}}], directResponse: {status: 212}}
  - {directResponse: {status: 213}}
`

// tokens: an ingress gateway verifies tokens before its policies ask for them.
func (in *ingressScene) tokens(t *testing.T) {
	ours, other := newSigner(t, "https://ours.test", "o1"), newSigner(t, "https://other.test", "x1")
	if err := in.scene.Config.Write("tokens.yaml", fmt.Sprintf(ingressTokens, ours.name, keys(t, ours))+claimRoutes); err != nil {
		t.Fatal(err)
	}
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	routed := func(status int, more claims) error {
		return in.answersFor(t.Context(), "live.test", "/", bearer(ours.token(t, "u1", more)), status)
	}
	all := func() error {
		return errors.Join(
			in.answersFor(t.Context(), "live.test", "/", nil, 212),
			in.answersFor(t.Context(), "live.test", "/", http.Header{"Group": {"ops"}}, 212),
			in.answersFor(t.Context(), "live.test", "/", bearer(other.token(t, "u1", claims{"group": "ops"})), 401),
			routed(210, claims{"group": "ops"}), routed(210, claims{"group": []string{"dev", "ops"}}), routed(213, claims{"group": "dev"}),
			routed(211, claims{"realm": claims{"roles": []string{"reader"}}}), routed(213, claims{"realm": "reader"}), routed(213, claims{"group": true}),
			in.answers(t.Context(), "/open", nil, 200),
			in.answers(t.Context(), "/open", bearer("forged"), 401),
			in.answers(t.Context(), "/open", bearer(other.token(t, "u1", nil)), 401),
			in.answers(t.Context(), "/with-token", nil, 403),
			in.answers(t.Context(), "/with-token", bearer(ours.token(t, "u1", nil)), 200),
		)
	}
	if err := world.Within(t.Context(), time.Minute, all); err != nil {
		t.Error(err)
	}
	if err := in.scene.Config.Remove("tokens.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, func() error { return in.answers(t.Context(), "/open", bearer("forged"), 200) }); err != nil {
		t.Error(err)
	}
}
