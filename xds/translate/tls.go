package translate

import (
	"slices"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/serviceentry/registry"
)

// minTLS is the oldest version that is spoken anywhere.
func minTLS() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2}
}

// secret refers to a secret that the agent serves on its unix socket.
func secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{
		Name: name,
		SdsConfig: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
				ApiType:                   corev3.ApiConfigSource_GRPC,
				TransportApiVersion:       corev3.ApiVersion_V3,
				SetNodeOnFirstMessageOnly: true,
				GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: sdsCluster},
				}}},
			}},
		},
	}
}

// validation checks the peer against a bundle that the agent serves and, beyond that, as more says.
func validation(roots string, more *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext:         more,
			ValidationContextSdsSecretConfig: secret(roots),
		},
	}
}

func san(kind tlsv3.SubjectAltNameMatcher_SanType, m *matcherv3.StringMatcher) *tlsv3.SubjectAltNameMatcher {
	return &tlsv3.SubjectAltNameMatcher{SanType: kind, Matcher: m}
}

func exact(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
}

func prefix(s string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: s}}
}

// trusts are the mesh's trust domain and its aliases, in one value that can be compared.
type trusts string

func trustsOf(m *mesh.Config) trusts {
	return trusts(strings.Join(append([]string{m.TrustDomain}, m.TrustDomainAliases...), " "))
}

// names gives what begins with each of the trust domains: "spiffe://DOMAIN/" and the rest.
func (t trusts) names(rest string) []string {
	domains := strings.Fields(string(t))
	out := make([]string, len(domains))
	for i, d := range domains {
		out[i] = "spiffe://" + d + "/" + rest
	}
	return out
}

// account is the identities that a service account may show.
func (t trusts) account(ns, account string) []string { return t.names("ns/" + ns + "/sa/" + account) }

// TLS sessions between sidecars and gateways.
const (
	sessionsKept   = 16
	sessionTimeout = 10 * time.Minute
)

// meshClientTLS is a sidecar's side of the leg to a gateway: its own certificate, and the gateway's identity
// asked for.
func meshClientTLS(sni string, identities []string) *corev3.TransportSocket {
	names := make([]*tlsv3.SubjectAltNameMatcher, 0, len(identities))
	for _, id := range identities {
		names = append(names, san(tlsv3.SubjectAltNameMatcher_URI, exact(id)))
	}
	return tlsSocket(&tlsv3.UpstreamTlsContext{
		Sni: sni,
		// each tunnel takes a connection: those that come at the same time find a session each to resume
		MaxSessionKeys: wrapperspb.UInt32(sessionsKept),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      minTLS(),
			AlpnProtocols:                  []string{"h2"}, // tunnels offer another, see alone
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(secretIdentity)},
			ValidationContextType:          validation(secretMeshRoots, &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: names}),
		},
	})
}

// meshServerTLS is the gateway's side: a certificate of the mesh is required of every client.
func meshServerTLS(trust trusts, alpn ...string) *corev3.TransportSocket {
	var members []*tlsv3.SubjectAltNameMatcher
	for _, name := range trust.names("") {
		members = append(members, san(tlsv3.SubjectAltNameMatcher_URI, prefix(name)))
	}
	return tlsSocket(&tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		// A session stands for a certificate that was shown: it must not outlive it for long.
		SessionTimeout: durationpb.New(sessionTimeout),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      minTLS(),
			AlpnProtocols:                  alpn,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{secret(secretIdentity)},
			ValidationContextType:          validation(secretMeshRoots, &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: members}),
		},
	})
}

// originateTLS is the TLS that a proxy speaks to a server outside: the system's roots and the host's own name,
// unless the user said otherwise. A wildcard's name is taken from the request.
func originateTLS(host string, sans []string, t *registry.TLSSettings, given registry.Given, http2 bool) *corev3.TransportSocket {
	ctx := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsParams: minTLS()}}
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
			ctx.CommonTlsContext.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{secret(pairName(given.Ref))}
		} else {
			ctx.CommonTlsContext.TlsCertificates = []*tlsv3.TlsCertificate{{
				CertificateChain: file(t.ClientCertificate), PrivateKey: file(t.PrivateKey),
			}}
		}
	}
	return tlsSocket(ctx)
}

// setTrust says which servers are the right one. The names asked for are, in this order: the rule's, the entry's,
// the host (for a wildcard: the name in the request, which auto_san_validation of the cluster checks).
func setTrust(ctx *tlsv3.CommonTlsContext, host string, sans []string, t *registry.TLSSettings, given registry.Given) {
	if len(t.SANs) > 0 {
		sans = t.SANs
	}
	var names []*tlsv3.SubjectAltNameMatcher
	for _, n := range slices.Sorted(slices.Values(sans)) {
		for _, kind := range [...]tlsv3.SubjectAltNameMatcher_SanType{tlsv3.SubjectAltNameMatcher_DNS, tlsv3.SubjectAltNameMatcher_URI} {
			names = append(names, san(kind, exact(n)))
		}
	}
	if len(names) == 0 && host != "" && host[0] != '*' {
		names = append(names, san(tlsv3.SubjectAltNameMatcher_DNS, exact(host)))
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
		ctx.ValidationContextType = validation(rootsName(given.Ref), own)
	case t.CACertificates != "" && t.CACertificates != "system":
		own.TrustedCa = file(t.CACertificates)
		ctx.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: own}
	default:
		ctx.ValidationContextType = validation(secretSystemRoots, own)
	}
}

func file(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

func tlsSocket(ctx proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: packed(ctx)},
	}
}
