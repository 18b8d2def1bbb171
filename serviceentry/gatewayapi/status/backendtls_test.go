package status_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/serviceentry/gatewayapi/status"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

// backendTLS is a BackendTLSPolicy of namespace shop, of a day.
func backendTLS(name string, day int, target, validation string) string {
	return fmt.Sprintf("apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: %s, namespace: shop, creationTimestamp: '2026-01-%02dT00:00:00Z'}\nspec: {targetRefs: [{group: '', kind: Service, name: %s}], validation: {hostname: web.example.org, %s}}\n",
		name, day, target, validation)
}

// TestBackendTLS: what is told of policies, at the Gateway whose route leads to their target.
func TestBackendTLS(t *testing.T) {
	const ca = "caCertificateRefs: [{group: '', kind: %s, name: %s}]"
	roots := fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: roots, namespace: shop}\ndata: {ca.crt: %q}\n", registrytest.Pair(0).Certificate)
	good := "Accepted=True/Accepted ResolvedRefs=True/ResolvedRefs"
	for _, c := range []struct{ what, policy, want string }{
		{"a ConfigMap", backendTLS("p", 1, "web", fmt.Sprintf(ca, "ConfigMap", "roots")), good},
		{"the system's roots", backendTLS("p", 1, "web, sectionName: http", "wellKnownCACertificates: System"), good},
		{"unknown roots", backendTLS("p", 1, "web", "wellKnownCACertificates: Own"), "Accepted=False/Invalid ResolvedRefs=True/ResolvedRefs"},
		{"nobody's ConfigMap", backendTLS("p", 1, "web", fmt.Sprintf(ca, "ConfigMap", "none")), "Accepted=False/NoValidCACertificate ResolvedRefs=False/InvalidCACertificateRef"},
		{"another kind", backendTLS("p", 1, "web", fmt.Sprintf(ca, "Service", "web")), "Accepted=False/NoValidCACertificate ResolvedRefs=False/InvalidKind"},
		{"one of two", backendTLS("p", 1, "web", "caCertificateRefs: [{group: '', kind: ConfigMap, name: roots}, {group: '', kind: ConfigMap, name: none}]"), "Accepted=True/Accepted ResolvedRefs=False/InvalidCACertificateRef"},
		{"nobody's port", backendTLS("p", 1, "web, sectionName: other", "wellKnownCACertificates: System"), "Accepted=False/TargetNotFound ResolvedRefs=True/ResolvedRefs"},
		{"an older one's", backendTLS("p", 8, "web", "wellKnownCACertificates: System") + "---\n" + backendTLS("q", 7, "web", "wellKnownCACertificates: System"), "Accepted=False/Conflicted ResolvedRefs=True/ResolvedRefs"},
		{"beside one of a port", backendTLS("p", 8, "web", "wellKnownCACertificates: System") + "---\n" + backendTLS("q", 7, "web, sectionName: http", "wellKnownCACertificates: System"), good},
	} {
		r := registry.New(settings())
		s, _ := apply(t, r, service, gateway, open, routeText, roots, c.policy)
		key := config.Key{Kind: config.KindBackendTLSPolicy, Namespace: "shop", Name: "p"}
		got, _ := status.BackendTLS(s, key)
		if len(got.Ancestors) != 1 || got.Ancestors[0].AncestorRef.Name != "public" || said(got.Ancestors[0].Conditions) != c.want {
			t.Errorf("%s: %+v, want %s", c.what, got.Ancestors, c.want)
		}
		s, changed := r.Apply([]config.Change{{Key: routeKey}})
		if got, _ := status.BackendTLS(s, key); len(got.Ancestors) != 0 || !slices.Contains(changed.GatewayAPI, key) {
			t.Errorf("%s: without a route that leads there: %+v, told of %v", c.what, got.Ancestors, changed.GatewayAPI)
		}
	}
}

// TestShownCertificate: what is told of a Gateway's certificate for backends.
func TestShownCertificate(t *testing.T) {
	for ref, want := range map[string]string{
		"{name: cert}":                  "ResolvedRefs=False/InvalidClientCertificateRef",
		"{name: cert, kind: Other}":     "ResolvedRefs=False/InvalidClientCertificateRef",
		"{name: cert, namespace: keys}": "ResolvedRefs=False/RefNotPermitted",
	} {
		text := strings.Replace(gateway, "  listeners:", "  tls: {backend: {clientCertificateRef: "+ref+"}}\n  listeners:", 1)
		s, _ := apply(t, registry.New(settings()), text)
		got, _ := status.Gateway(s, gatewayKey)
		if text := said(got.Conditions); !strings.HasSuffix(text, want) {
			t.Errorf("%s: %s, want %s", ref, text, want)
		}
	}
}
