package registry

import (
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

// TestServerTLSThatNoProxyTakes: Envoy refuses a listener, which is of all Gateways of a port, for one name or hash that it cannot read. No such value
// goes to it, and nothing less is asked of clients for it.
func TestServerTLSThatNoProxyTakes(t *testing.T) {
	const suite, newest = "ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_128_GCM_SHA256"
	hash, key := strings.Repeat("ab", 32), "IQnLhNPH/LTI1HLbPBtX3TxAQgdTLkjYQpp8WkxQseE="
	mutual := func(spki, hash []string) *networking.ServerTLSSettings {
		return &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_MUTUAL, VerifyCertificateSpki: spki, VerifyCertificateHash: hash}
	}
	of := func(names ...string) *networking.ServerTLSSettings {
		return &networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, CipherSuites: names}
	}
	above := of(newest)
	above.MaxProtocolVersion = networking.ServerTLSSettings_TLSV1_2
	only13 := of("FOO")
	only13.MinProtocolVersion = networking.ServerTLSSettings_TLSV1_3
	for name, c := range map[string]struct {
		tls     *networking.ServerTLSSettings
		closed  string // by which field
		ciphers []string
		min     uint32
	}{
		"as usual":                    {of(), "", nil, 0},
		"some":                        {of(suite, "FOO", suite, "", suite+":FOO"), "", []string{suite}, 0},
		"beside those of TLS 1.3":     {of(newest, suite), "", []string{suite}, 0},
		"none":                        {of("FOO"), "tls.cipherSuites", nil, 0},
		"none but of TLS 1.3":         {of("FOO", newest), "tls.cipherSuites", nil, 0},
		"of TLS 1.3 alone":            {of(newest), "", nil, tls13},
		"of TLS 1.3 alone, and below": {above, "tls.cipherSuites", nil, 0},
		"where none counts":           {only13, "", nil, tls13},
		"hashes":                      {mutual([]string{key}, []string{hash, strings.ToUpper(hash), strings.TrimSuffix(strings.Repeat("AB:", 32), ":")}), "", nil, 0},
		"no hash of a key":            {mutual([]string{key, "zz"}, nil), "tls.verifyCertificateSpki", nil, 0},
		"33 bytes":                    {mutual([]string{strings.Repeat("A", 44)}, nil), "tls.verifyCertificateSpki", nil, 0},
		"no hash":                     {mutual(nil, []string{strings.Repeat("z", 64)}), "tls.verifyCertificateHash", nil, 0},
		"some of it with colons":      {mutual(nil, []string{strings.Repeat("ab:", 16) + strings.Repeat("ab", 16)}), "tls.verifyCertificateHash", nil, 0},
		"clients are not asked":       {&networking.ServerTLSSettings{Mode: networking.ServerTLSSettings_SIMPLE, VerifyCertificateHash: []string{"zz"}}, "", nil, 0},
	} {
		c.tls.CredentialName = "cert"
		var g GatewayServer
		g.open(&networking.Server{Port: &networking.Port{Number: 443, Name: "https", Protocol: "HTTPS"}, Hosts: []string{"a.test"}, Tls: c.tls})
		if field, _, _ := strings.Cut(g.Why, ": "); field != c.closed || (g.Serves == NotServed) != (c.closed != "") {
			t.Errorf("%s: served %d, closed by %q, want %q", name, g.Serves, g.Why, c.closed)
			continue
		}
		if c.closed == "" && (!slices.Equal(g.TLS.Ciphers, c.ciphers) || g.TLS.Min != c.min) {
			t.Errorf("%s: %q from version %d on, want %q from %d on", name, g.TLS.Ciphers, g.TLS.Min, c.ciphers, c.min)
		}
	}
}
