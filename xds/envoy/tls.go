package envoy

import (
	"regexp"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/sallyport/sallyport/config/mesh"
	"github.com/sallyport/sallyport/xds/wire"
)

// MinTLS is the oldest version that is spoken anywhere.
func MinTLS() *tlsv3.TlsParameters {
	return &tlsv3.TlsParameters{TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2}
}

// Secret refers to a secret that the agent serves on its unix socket. Each is a stream of its own, of the delta kind: of a stream of the other kind Envoy keeps the
// first request, in which it has named all of its extensions (docs/adr/0165-a-secrets-stream-is-delta.md).
func Secret(name string) *tlsv3.SdsSecretConfig {
	return &tlsv3.SdsSecretConfig{
		Name: name,
		SdsConfig: &corev3.ConfigSource{
			ResourceApiVersion: corev3.ApiVersion_V3,
			ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
				ApiType:             corev3.ApiConfigSource_DELTA_GRPC,
				TransportApiVersion: corev3.ApiVersion_V3,
				GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
					EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: wire.SDSCluster},
				}}},
			}},
		},
	}
}

// Validation checks the peer against a bundle that the agent serves and, beyond that, as more says.
func Validation(roots string, more *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext:         more,
			ValidationContextSdsSecretConfig: Secret(roots),
		},
	}
}

// SAN matches one kind of subjectAltName.
func SAN(kind tlsv3.SubjectAltNameMatcher_SanType, m *matcherv3.StringMatcher) *tlsv3.SubjectAltNameMatcher {
	return &tlsv3.SubjectAltNameMatcher{SanType: kind, Matcher: m}
}

// TrustDomains are the mesh's trust domain and its aliases, in one value that can be compared.
type TrustDomains string

// TrustsOf are those of a mesh.
func TrustsOf(m *mesh.Config) TrustDomains {
	return TrustDomains(strings.Join(m.TrustDomains(), " "))
}

// Domains are the trust domain and its aliases.
func (t TrustDomains) Domains() []string { return strings.Fields(string(t)) }

// names gives what begins with each of the trust domains: "spiffe://DOMAIN/" and the rest.
func (t TrustDomains) names(rest string) []string {
	domains := t.Domains()
	out := make([]string, len(domains))
	for i, d := range domains {
		out[i] = "spiffe://" + d + "/" + rest
	}
	return out
}

// Account is the identities that a service account may show.
func (t TrustDomains) Account(ns, account string) []string {
	return t.names("ns/" + ns + "/sa/" + account)
}

// Namespace gives how the identities of a namespace begin.
func (t TrustDomains) Namespace(ns string) []string { return t.names("ns/" + ns + "/sa/") }

// Elsewhere says whether an identity is of the mesh, and of none of a namespace's accounts.
func (t TrustDomains) Elsewhere(id, ns string) bool { return mesh.Elsewhere(t.Domains(), id, ns) }

// AccountAnywhere is an expression (RE2) for those of accounts of a name in any namespace.
func (t TrustDomains) AccountAnywhere(account string) string {
	out := t.names("")
	for i := range out {
		out[i] = regexp.QuoteMeta(out[i])
	}
	return "(" + strings.Join(out, "|") + ")ns/[^/]+/sa/" + regexp.QuoteMeta(account)
}

// TLS sessions between sidecars and gateways.
const (
	sessionsKept   = 16
	sessionTimeout = 10 * time.Minute
)

// MeshClientTLS is a sidecar's side of the leg to a gateway: its own certificate, and the gateway's identity
// asked for.
func MeshClientTLS(sni string, identities []string) *corev3.TransportSocket {
	names := make([]*tlsv3.SubjectAltNameMatcher, 0, len(identities))
	for _, id := range identities {
		names = append(names, SAN(tlsv3.SubjectAltNameMatcher_URI, Exact(id)))
	}
	return TLSSocket(&tlsv3.UpstreamTlsContext{
		Sni: sni,
		// each tunnel takes a connection: those that come at the same time find a session each to resume
		MaxSessionKeys: wrapperspb.UInt32(sessionsKept),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      MinTLS(),
			AlpnProtocols:                  []string{"h2"}, // tunnels offer another, see alone
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{Secret(wire.SecretIdentity)},
			ValidationContextType:          Validation(wire.SecretMeshRoots, &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: names}),
		},
	})
}

// PeerTLS is a sidecar's side of a connection to another pod: its own certificate, and one of the identities asked for, or of those
// that begin with one of the prefixes.
func PeerTLS(sni string, identities, prefixes []string, alpn ...string) *corev3.TransportSocket {
	var names []*tlsv3.SubjectAltNameMatcher
	for _, id := range identities {
		names = append(names, SAN(tlsv3.SubjectAltNameMatcher_URI, Exact(id)))
	}
	for _, begins := range prefixes {
		names = append(names, SAN(tlsv3.SubjectAltNameMatcher_URI, Prefix(begins)))
	}
	return TLSSocket(&tlsv3.UpstreamTlsContext{
		Sni: sni,
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      MinTLS(),
			AlpnProtocols:                  alpn,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{Secret(wire.SecretIdentity)},
			ValidationContextType:          Validation(wire.SecretMeshRoots, &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: names}),
		},
	})
}

// MeshServerTLS is the gateway's side: a certificate of the mesh is required of every client.
func MeshServerTLS(trust TrustDomains, alpn ...string) *corev3.TransportSocket {
	var members []*tlsv3.SubjectAltNameMatcher
	for _, name := range trust.names("") {
		members = append(members, SAN(tlsv3.SubjectAltNameMatcher_URI, Prefix(name)))
	}
	return TLSSocket(&tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		// A session stands for a certificate that was shown: it must not outlive it for long.
		SessionTimeout: durationpb.New(sessionTimeout),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			TlsParams:                      MinTLS(),
			AlpnProtocols:                  alpn,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{Secret(wire.SecretIdentity)},
			ValidationContextType:          Validation(wire.SecretMeshRoots, &tlsv3.CertificateValidationContext{MatchTypedSubjectAltNames: members}),
		},
	})
}

// TLSSocket wraps a TLS context.
func TLSSocket(ctx proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: ToAny(ctx)},
	}
}
