package farend

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/wire"
)

// originateTLS is the TLS that a proxy speaks to a server outside: the system's roots and the host's own name,
// unless the user said otherwise. A wildcard's name is taken from the request.
func originateTLS(host string, sans []string, t *registry.TLSSettings, given registry.ServedCredential, http2 bool) *corev3.TransportSocket {
	ctx := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsParams: envoy.MinTLS()}}
	setTrust(ctx.CommonTlsContext, host, sans, t, given)
	if http2 {
		ctx.CommonTlsContext.AlpnProtocols = []string{"h2"}
	}
	switch {
	case t.SNI != "":
		ctx.Sni = t.SNI
	case host != "" && host[0] != '*':
		ctx.Sni = host
	}
	if t.Mode == registry.TLSMutual {
		if given.Pair {
			ctx.CommonTlsContext.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{envoy.Secret(PairName(given.Ref))}
		} else {
			ctx.CommonTlsContext.TlsCertificates = []*tlsv3.TlsCertificate{{
				CertificateChain: file(t.ClientCertificate), PrivateKey: file(t.PrivateKey),
			}}
		}
	}
	return envoy.TLSSocket(ctx)
}

// setTrust says which servers are the right one. The names asked for are, in this order: the rule's, the entry's,
// the host (for a wildcard: the name in the request, which auto_san_validation of the cluster checks).
func setTrust(ctx *tlsv3.CommonTlsContext, host string, sans []string, t *registry.TLSSettings, given registry.ServedCredential) {
	if len(t.SANs) > 0 {
		sans = t.SANs
	}
	var names []*tlsv3.SubjectAltNameMatcher
	for _, n := range slices.Sorted(slices.Values(sans)) {
		if suffix, of := strings.CutPrefix(n, "*"); of && t.By != nil {
			names = append(names, envoy.SAN(tlsv3.SubjectAltNameMatcher_DNS, envoy.Suffix(suffix)))
			continue
		}
		for _, kind := range [...]tlsv3.SubjectAltNameMatcher_SanType{tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI} {
			names = append(names, envoy.SAN(kind, envoy.Exact(n)))
		}
	}
	if len(names) == 0 && host != "" && host[0] != '*' {
		names = append(names, envoy.SAN(tlsv3.SubjectAltNameMatcher_DNS, envoy.Exact(host)))
	}
	own := &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: names}
	if t.CRL != "" {
		own.Crl = file(t.CRL)
	}
	switch {
	case t.InsecureSkipVerify:
		ctx.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
			TrustChainVerification: tlsv3.CertificateValidationContext_ACCEPT_UNTRUSTED,
		}}
	case given.Roots:
		ctx.ValidationContextType = envoy.Validation(RootsName(trusted(given)), own)
	case t.CACertificates != "" && t.CACertificates != "system":
		own.TrustedCa = file(t.CACertificates)
		ctx.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: own}
	default:
		ctx.ValidationContextType = envoy.Validation(wire.SecretSystemRoots, own)
	}
}

// trusted is what says whom to trust.
func trusted(given registry.ServedCredential) registry.CredentialRef {
	if given.Trust.Bundle != "" {
		return given.Trust
	}
	return given.Ref
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}
