package registry_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/registry/registrytest"
)

func TestCheckSecret(t *testing.T) {
	pair, other := registrytest.Pair(0), registrytest.Pair(1)
	for name, c := range map[string]struct {
		kind corev1.SecretType
		data map[string]string
		want string
	}{
		"pair":                     {"", map[string]string{"tls.crt": pair.Certificate, "tls.key": pair.Key}, ""},
		"pair with roots":          {"", map[string]string{"cert": pair.Certificate, "key": pair.Key, "cacert": pair.Certificate}, ""},
		"roots":                    {"", map[string]string{"ca.crt": pair.Certificate + other.Certificate}, ""},
		"something else":           {"", map[string]string{"key": "secret-api-key"}, ""},
		"nothing":                  {"", nil, ""},
		"TLS without a key":        {corev1.SecretTypeTLS, map[string]string{"tls.crt": pair.Certificate}, "it holds tls.crt without tls.key"},
		"another key":              {"", map[string]string{"tls.crt": pair.Certificate, "tls.key": other.Key}, "that belong together"},
		"nonsense":                 {"", map[string]string{"tls.crt": "secret-nonsense", "tls.key": "secret-nonsense"}, "that belong together"},
		"roots that are a key":     {"", map[string]string{"ca.crt": pair.Key}, "ca.crt holds no certificates"},
		"roots that are nothing":   {"", map[string]string{"ca.crt": "secret"}, "ca.crt holds no certificates"},
		"a list that is no list":   {"", map[string]string{"ca.crt": pair.Certificate, "ca.crl": pair.Certificate}, "ca.crl holds no revocation list"},
		"a list without its roots": {"", map[string]string{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crl": "x"}, ""},
	} {
		err := registry.CheckSecret(&corev1.Secret{Type: c.kind, StringData: c.data})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the value is in the words: %v", name, err)
		}
	}
}
