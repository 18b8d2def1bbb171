package farend

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
)

// PairName is the name by which a proxy asks its agent for the certificate and key that a Secret holds.
func PairName(ref registry.CredentialRef) string {
	return "kubernetes://" + ref.Namespace + "/" + ref.Name
}

// RootsName is that for the roots in it.
func RootsName(ref registry.CredentialRef) string {
	if ref.Bundle != "" {
		return "kubernetes-bundle://" + ref.Bundle
	}
	return "kubernetes-roots://" + ref.Namespace + "/" + ref.Name
}

// Material is what a class's proxies are given of one Secret.
type Material struct {
	Given      registry.ServedCredential
	Credential *registry.Credential
}

// SealSecrets makes them resources.
func SealSecrets(all []Material) []*resource.Resource {
	var out []*resource.Resource
	add := func(s *tlsv3.Secret) { out = append(out, envoy.Seal(resource.Secret, s.Name, s)) }
	for _, m := range all {
		if m.Given.Pair {
			add(&tlsv3.Secret{Name: PairName(m.Given.Ref), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
				CertificateChain: inlineBytes(m.Credential.Certificate), PrivateKey: inlineBytes(m.Credential.Key),
			}}})
		}
		if m.Given.Roots {
			v := &tlsv3.CertificateValidationContext{TrustedCa: inlineBytes(m.Credential.Roots)}
			if len(m.Credential.CRL) > 0 {
				v.Crl = inlineBytes(m.Credential.CRL)
			}
			add(&tlsv3.Secret{Name: RootsName(m.Given.Ref), Type: &tlsv3.Secret_ValidationContext{ValidationContext: v}})
		}
	}
	return out
}

func inlineBytes(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
