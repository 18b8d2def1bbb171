package farend

import (
	"slices"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/sallyport/sallyport/serviceentry/registry"
	"github.com/sallyport/sallyport/serviceentry/resolve"
	"github.com/sallyport/sallyport/xds/envoy"
	"github.com/sallyport/sallyport/xds/resource"
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

// Mutual is the mesh's TLS towards the endpoints of a service.
type Mutual struct {
	To                   resolve.Mutual
	SNI                  string
	Identities, Prefixes []string // whom an endpoint may prove to be; how that may begin
}

// MutualTo is that towards a port of a service, or a subset, whose endpoints have these accounts: one of them, in the service's namespace,
// is whom an endpoint has to be. Where an account is not known it may be any there. What the entry says (subjectAltNames), or a
// rule does, counts in their place, as far as it is theirs to say (resolve.MeshTLS).
func MutualTo(to resolve.Mutual, svc *registry.Service, port registry.Port, subset string, mesh resolve.MeshTLS, tls *registry.TLSSettings, trust envoy.TrustDomains) Mutual {
	if to == resolve.MutualNever {
		return Mutual{}
	}
	m := Mutual{To: to, SNI: resolve.SNI(port.Number, subset, svc.Host)}
	said, confined := svc.SANs, mesh.EntryConfined
	if tls != nil && tls.SNI != "" {
		m.SNI = tls.SNI
	}
	if tls != nil && len(tls.SANs) > 0 {
		said, confined = tls.SANs, mesh.RuleConfined
	}
	m.Identities = slices.DeleteFunc(slices.Sorted(slices.Values(said)), func(id string) bool { return confined && trust.Elsewhere(id, svc.Namespace) })
	if len(m.Identities) > 0 {
		return m
	}
	for _, a := range mesh.Accounts {
		if a == "" {
			m.Prefixes = trust.Namespace(svc.Namespace)
		} else {
			m.Identities = append(m.Identities, trust.Account(svc.Namespace, a)...)
		}
	}
	if len(mesh.Accounts) == 0 { // a rule asks for it where nobody seems to take it
		m.Prefixes = trust.Namespace(svc.Namespace)
	}
	return m
}

func (m Mutual) apply(c *clusterv3.Cluster, port registry.Port, http2 bool) {
	if m.To == resolve.MutualNever {
		return
	}
	socket := envoy.PeerTLS(m.SNI, m.Identities, m.Prefixes, meshALPN(c, port, http2)...)
	if m.To == resolve.MutualAlways {
		c.TransportSocket = socket
		return
	}
	envoy.TLSWhereMarked(c, socket)
}

// meshALPN is what is offered: what the far end's proxy knows us by comes first, what is spoken inside last, where that is known: to
// where clients go themselves it is what they speak.
func meshALPN(c *clusterv3.Cluster, port registry.Port, http2 bool) []string {
	switch {
	case port.Protocol.IsHTTP() && !http2 && c.GetType() == clusterv3.Cluster_ORIGINAL_DST:
		return []string{wire.ALPNMeshHTTP, wire.ALPNMesh}
	case http2:
		return []string{wire.ALPNMeshHTTP2, wire.ALPNMesh, "h2"}
	case port.Protocol.IsHTTP():
		return []string{wire.ALPNMeshHTTP, wire.ALPNMesh, envoy.HTTP11}
	default:
		return []string{wire.ALPNMeshTCP, wire.ALPNMesh}
	}
}

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
