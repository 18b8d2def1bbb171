package translate

import (
	"cmp"
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
)

// pairName and rootsName are the names by which a proxy asks its agent for what a Secret holds.
func pairName(ref registry.CredentialRef) string {
	return "kubernetes://" + ref.Namespace + "/" + ref.Name
}
func rootsName(ref registry.CredentialRef) string {
	return "kubernetes-roots://" + ref.Namespace + "/" + ref.Name
}

// material is what a class's proxies are given of one Secret.
type material struct {
	given      registry.Given
	credential *registry.Credential
}

// materials are what the hosts of a view need of Secrets, in order. Hosts name them; what is in them is the base's, so
// that a key that is exchanged is one resource for all hosts that use it.
func materials(s *registry.Snapshot, u uses) []material {
	all := map[registry.CredentialRef]registry.Given{}
	for g := range u.secrets {
		sum := all[g.Ref]
		all[g.Ref] = registry.Given{Ref: g.Ref, Pair: sum.Pair || g.Pair, Roots: sum.Roots || g.Roots}
	}
	var out []material
	for _, ref := range slices.SortedFunc(maps.Keys(all), func(a, b registry.CredentialRef) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}) {
		if c, _ := s.Credential(ref); c != nil {
			out = append(out, material{all[ref], c})
		}
	}
	return out
}

func sealSecrets(all []material) []*Resource {
	var out []*Resource
	add := func(s *tlsv3.Secret) { out = append(out, seal(Secret, s.Name, s)) }
	for _, m := range all {
		if m.given.Pair {
			add(&tlsv3.Secret{Name: pairName(m.given.Ref), Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
				CertificateChain: inlineBytes(m.credential.Certificate), PrivateKey: inlineBytes(m.credential.Key),
			}}})
		}
		if m.given.Roots {
			v := &tlsv3.CertificateValidationContext{TrustedCa: inlineBytes(m.credential.Roots)}
			if len(m.credential.CRL) > 0 {
				v.Crl = inlineBytes(m.credential.CRL)
			}
			add(&tlsv3.Secret{Name: rootsName(m.given.Ref), Type: &tlsv3.Secret_ValidationContext{ValidationContext: v}})
		}
	}
	return out
}

func inlineBytes(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
