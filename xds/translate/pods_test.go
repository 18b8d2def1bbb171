package translate_test

import (
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/translate"
)

// TestUnserved: the proxy of a node serves an ordinary namespace's pods, those with Services too, and says by which object it does not serve one.
func TestUnserved(t *testing.T) {
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: shop}\nspec: {clusterIP: 10.0.0.9, selector: {app: web}, ports: [{name: http, port: 80}]}\n---\n"
	const security = "apiVersion: security.istio.io/v1\n"
	for name, c := range map[string]struct{ text, want string }{
		"a Service":        {service, ""},
		"permissive":       {service + security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: shop}\nspec: {mtls: {mode: PERMISSIVE}}\n", ""},
		"strict":           {security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: istio-system}\nspec: {mtls: {mode: STRICT}}\n", "PeerAuthentication istio-system/p"},
		"strict at a port": {security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: shop}\nspec: {selector: {matchLabels: {app: web}}, portLevelMtls: {8080: {mode: STRICT}}}\n", "PeerAuthentication shop/p"},
		"of others":        {security + "kind: PeerAuthentication\nmetadata: {name: p, namespace: bank}\nspec: {mtls: {mode: STRICT}}\n", ""},
		"authorized":       {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {}\n", "AuthorizationPolicy shop/a"},
		"of others' pods":  {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop}\nspec: {selector: {matchLabels: {app: other}}}\n", ""},
		"tried only":       {security + "kind: AuthorizationPolicy\nmetadata: {name: a, namespace: shop, annotations: {istio.io/dry-run: 'true'}}\nspec: {}\n", ""},
		"a Sidecar":        {"apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: s, namespace: shop}\nspec: {egress: [{hosts: ['./*']}]}\n", "Sidecar shop/s"},
		"hosts of its own": {"apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: e, namespace: shop}\nspec: {hosts: [own.com], exportTo: ['.'], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}]}\n", "not to everybody"},
	} {
		settings := mesh.Default()
		result := decode.File("objects.yaml", []byte(c.text))
		for _, f := range result.Findings {
			t.Errorf("%s: %s", name, f)
		}
		var changes []config.Change
		for i := range result.Objects {
			changes = append(changes, config.Change{Key: result.Objects[i].Key, Object: &result.Objects[i]})
		}
		s, _ := registry.New(&settings).Apply(changes)
		if got := translate.Unserved(s, "shop", map[string]string{"app": "web"}); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
