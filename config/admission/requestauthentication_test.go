package admission

import (
	"fmt"
	"strings"
	"testing"

	security "istio.io/api/security/v1"

	"github.com/sallyport/sallyport/config"
	"github.com/sallyport/sallyport/config/mesh"
)

// TestWebURLs: keys are fetched from names and addresses alone.
func TestWebURLs(t *testing.T) {
	for text, want := range map[string]bool{
		"https://issuer.example/keys": true, "http://keycloak:8080/": true, "https://10.0.0.1/keys": true, "https://[2001:db8::1]:8443/": true,
		"https://my_idp.example/": true, "https://issuer.example./keys": true,
		"https://%ff.example/keys": false, "https://a b.example/": false, "https://*.example/": false, "https://-a.example/": false, "https:///keys": false,
		"ftp://issuer.example/": false, "https://me@issuer.example/": false, "https://issuer.example:0/": false, "issuer": false,
	} {
		if got := isWebURL(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestSetsOfKeysAreBounded: an object is refused that wants more sets than are fetched for a namespace, alone or with others; another namespace's are not counted.
func TestSetsOfKeysAreBounded(t *testing.T) {
	wants := func(ns, name string, n int) config.Object {
		p := &security.RequestAuthentication{}
		for i := range n {
			p.JwtRules = append(p.JwtRules, &security.JWTRule{Issuer: "https://a.test", JwksUri: fmt.Sprintf("https://%s.test/%d", name, i)})
		}
		return config.Object{Key: config.Key{Kind: config.KindRequestAuthentication, Namespace: ns, Name: name}, Spec: p}
	}
	refused := func(list []Finding) (out []string) {
		for _, f := range list {
			if strings.Contains(f.Message, "too many sets of keys") {
				out = append(out, f.Key.Name)
			}
		}
		return out
	}
	cfg := mesh.Default()
	got := refused(Check([]config.Object{wants("shop", "a", 60), wants("shop", "b", 60), wants("shop", "c", 0), wants("other", "d", 100)}, cfg))
	if len(got) != 1 || got[0] != "b" {
		t.Errorf("refused: %v", got)
	}
}
