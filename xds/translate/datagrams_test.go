package translate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/decode"
	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/resource"
	"github.com/sallyport/sallyport/xds/translate"
)

const aRoute = `apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: %s, namespace: %s, creationTimestamp: "%s-01-01T00:00:00Z"}
spec: {parentRefs: [{name: public, namespace: infra, port: %d}], rules: [{backendRefs: [{name: other, namespace: infra, port: 5353}]}]}
`

// TestDatagramsCostTheirListener: a route of UDP that comes is its port's listener, and nothing else; one that is younger, or of a namespace that
// the listener does not let in, is nothing.
func TestDatagramsCostTheirListener(t *testing.T) {
	l := newIngressTrialOf(t, "testdata/gatewayapi-datagrams.txtar")
	listener := func(port int) []string { return []string{fmt.Sprint(resource.Listener, " udp_0.0.0.0_", port)} }
	for _, c := range []struct {
		what, route string
		want        []string
	}{
		{"of another namespace", fmt.Sprintf(aRoute, "theirs", "shop", "2020", 53), nil},
		{"a younger one", fmt.Sprintf(aRoute, "young", "infra", "2027", 53), nil},
		{"an older one", fmt.Sprintf(aRoute, "old", "infra", "2020", 53), listener(5300)},
		{"where nothing listened", fmt.Sprintf(aRoute, "new", "infra", "2020", 99), listener(99)},
	} {
		if refs := l.apply(c.route, false); !slices.Equal(refs, c.want) {
			t.Errorf("%s: %q, want %q", c.what, refs, c.want)
		}
		if refs := l.apply(c.route, true); !slices.Equal(refs, c.want) {
			t.Errorf("%s goes: %q, want %q", c.what, refs, c.want)
		}
	}
}

// TestDatagramsArePoliced: where an AuthorizationPolicy is for the pods, nothing listens for UDP, and what comes by TCP is as it was.
func TestDatagramsArePoliced(t *testing.T) {
	c := load(t, "testdata/gatewayapi-datagrams.txtar")
	c.node.Labels["app"] = "door"
	for text, closed := range map[string]bool{
		"metadata: {name: p, namespace: infra}\nspec: {}":                                                               true,
		"metadata: {name: p, namespace: istio-system}\nspec: {action: DENY, rules: [{}]}":                               true,
		"metadata: {name: p, namespace: infra}\nspec: {selector: {matchLabels: {app: door}}, rules: [{}]}":              true,
		"metadata: {name: p, namespace: infra}\nspec: {selector: {matchLabels: {app: web}}, rules: [{}]}":               false,
		"metadata: {name: p, namespace: infra}\nspec: {action: AUDIT, rules: [{}]}":                                     false,
		"metadata: {name: p, namespace: infra, annotations: {istio.io/dry-run: 'true'}}\nspec: {}":                      false,
		"metadata: {name: p, namespace: shop}\nspec: {}":                                                                false,
		"metadata: {name: p, namespace: shop}\nspec: {selector: {matchLabels: {app: door}}, action: DENY, rules: [{}]}": false,
	} {
		r := registry.New(&c.mesh)
		objects := slices.Clone(c.objects)
		f := decode.File("a.yaml", []byte("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\n"+text))
		objects = append(objects, f.Objects...)
		var changes []config.Change
		for i := range objects {
			changes = append(changes, config.Change{Key: objects[i].Key, Object: &objects[i]})
		}
		s, _ := r.Apply(changes)
		v := translate.NewTranslator().Build(s, translate.Classify(s, c.node))
		var names []string
		v.Walk(resource.Listener, func(l *resource.Resource) bool {
			if strings.Contains(l.Name, "0.0.0.0") {
				names = append(names, l.Name)
			}
			return true
		})
		want := []string{"0.0.0.0_5301", "udp_0.0.0.0_5300"}
		if closed {
			want = want[:1]
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", text, names, want)
		}
	}
}
