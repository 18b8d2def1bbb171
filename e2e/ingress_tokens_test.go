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

// tokens: an ingress gateway verifies tokens before its policies ask for them.
func (in *ingressScene) tokens(t *testing.T) {
	ours, other := newSigner(t, "https://ours.test", "o1"), newSigner(t, "https://other.test", "x1")
	if err := in.scene.Config.Write("tokens.yaml", fmt.Sprintf(ingressTokens, ours.name, keys(t, ours))); err != nil {
		t.Fatal(err)
	}
	bearer := func(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
	all := func() error {
		return errors.Join(
			in.answers(t.Context(), "/open", nil, 200),
			in.answers(t.Context(), "/open", bearer("forged"), 401),
			in.answers(t.Context(), "/open", bearer(other.token(t, "u1", nil)), 401),
			in.answers(t.Context(), "/with-token", nil, 403),
			in.answers(t.Context(), "/with-token", bearer(ours.token(t, "u1", nil)), 200),
		)
	}
	if err := world.Within(t.Context(), 20*time.Second, all); err != nil {
		t.Error(err)
	}
	if err := in.scene.Config.Remove("tokens.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), 20*time.Second, func() error { return in.answers(t.Context(), "/open", bearer("forged"), 200) }); err != nil {
		t.Error(err)
	}
}
