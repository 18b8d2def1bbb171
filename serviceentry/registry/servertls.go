package registry

import (
	"encoding/base64"
	"encoding/hex"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// What a server's TLS may ask of an ingress gateway's proxy. Envoy refuses a listener as a whole for one name or hash that it cannot read, and a
// listener is of all Gateways of its port: what is none of these goes to no proxy, whoever judged the object.

// suites are the cipher suites up to TLS 1.2 that Envoy's library has: those that Istio takes, by the library's names, and their names of RFC 5289 and
// RFC 7905.
var suites = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
	"ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
	"ECDHE-ECDSA-AES128-SHA256", "ECDHE-RSA-AES128-SHA256", "AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "DES-CBC3-SHA",
	"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
	"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
}

// suitesTLS13 are those of TLS 1.3 (RFC 8446 appendix B.4). Proxies have all of them, and none can be left out.
var suitesTLS13 = []string{"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"}

// Suite is what a proxy makes of the name of a cipher suite.
type Suite uint8

// The kinds.
const (
	UnknownSuite Suite = iota
	ChosenSuite        // up to TLS 1.2
	TLS13Suite         // has no choice
)

// Suites are the names that are chosen by.
func Suites() []string { return append([]string{"ALL"}, suites...) }

// ParseSuite reads a name.
func ParseSuite(name string) Suite {
	switch {
	case name == "ALL" || slices.Contains(suites, name):
		return ChosenSuite
	case slices.Contains(suitesTLS13, name):
		return TLS13Suite
	default:
		return UnknownSuite
	}
}

// chooseSuites reads the names of a server: the suites up to TLS 1.2 that proxies know, each once. Where all are of TLS 1.3 nothing older is spoken. It
// says false where nothing is left of what was asked for.
func (t *ServerTLS) chooseSuites(names []string) bool {
	t.Ciphers = nil
	if len(names) == 0 || t.Min >= tls13 {
		return true
	}
	newest := true
	for _, name := range names {
		switch ParseSuite(name) {
		case ChosenSuite:
			if newest = false; !slices.Contains(t.Ciphers, name) {
				t.Ciphers = append(t.Ciphers, name)
			}
		case UnknownSuite:
			newest = false
		}
	}
	if newest {
		t.Min = tls13
		return t.Max == 0 || t.Max >= tls13
	}
	return len(t.Ciphers) > 0
}

// tls13 is TLS 1.3 as Istio and Envoy number versions.
const tls13 = uint32(networking.ServerTLSSettings_TLSV1_3)

// IsCertificateHash says whether it is the SHA-256 of a certificate as Envoy reads it: 64 digits, or 32 pairs of them with ":" between.
func IsCertificateHash(s string) bool {
	if strings.Count(s, ":") == sha256Bytes-1 {
		for pair := range strings.SplitSeq(s, ":") {
			if len(pair) != 2 {
				return false
			}
		}
		s = strings.ReplaceAll(s, ":", "")
	}
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256Bytes
}

// IsKeyHash says whether it is the SHA-256 of a public key in base64, as Envoy reads it.
func IsKeyHash(s string) bool {
	b, err := base64.StdEncoding.DecodeString(s)
	return err == nil && len(b) == sha256Bytes && base64.StdEncoding.EncodeToString(b) == s
}

const sha256Bytes = 32
