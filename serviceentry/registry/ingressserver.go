package registry

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// ServerKind is what an ingress gateway does for a Gateway's server.
type ServerKind uint8

// The kinds.
const (
	NotServed         ServerKind = iota
	ServesRequests               // reads plain requests
	ServesTLSRequests            // ends TLS, and reads requests
	ServesTLSBytes               // ends TLS, and passes on what is in it
	PassesTLS                    // reads the TLS name, and passes everything on
	ServesBytes                  // passes everything on
	PassesMesh                   // passes mutual TLS of the mesh on to the Service that its TLS name says
	ServesDatagrams              // passes on what comes by UDP
)

// EndsTLS says whether the gateway shows a certificate.
func (k ServerKind) EndsTLS() bool { return k == ServesTLSRequests || k == ServesTLSBytes }

// ReadsRequests says whether routes of requests count.
func (k ServerKind) ReadsRequests() bool { return k == ServesRequests || k == ServesTLSRequests }

// Nameless says whether nothing that comes says a name: all that comes to the port is alike.
func (k ServerKind) Nameless() bool { return k == ServesBytes || k == ServesDatagrams }

// Unread says whether what comes is passed on without requests being read.
func (k ServerKind) Unread() bool {
	return k == PassesTLS || k == ServesTLSBytes || k == ServesBytes
}

// Family tells which servers may share a port: what comes first there is of one of them.
func (k ServerKind) Family() ServerKind {
	switch k {
	case ServesTLSRequests, ServesTLSBytes, PassesMesh:
		return PassesTLS
	default:
		return k
	}
}

// ClientCertificate is what a server asks of its clients.
type ClientCertificate uint8

// The ways.
const (
	NoneAsked ClientCertificate = iota
	Asked                       // one that is shown has to be right
	Required
	Unverified // one may be shown, whatever it is
)

// ServerTLS is how a server ends TLS.
type ServerTLS struct {
	Clients     ClientCertificate
	Credentials []string      // Secrets of the gateway's namespace; of several the client's capabilities choose
	Trust       CredentialRef // says who clients may be, in the Gateway API; Roots is not read then
	Roots       string        // the Secret that says who clients may be, where that is not Credentials[0]; "" otherwise
	SANs        []string      // of clients
	SPKI, Hash  []string      // of clients' certificates
	Min, Max    uint32        // of TLS, as Envoy numbers versions; 0: as usual
	Ciphers     []string      // up to TLS 1.2; nil: Envoy's
}

// Plain says whether it is the usual: a certificate, whoever the client is. What is so may be asked for over one connection.
func (t *ServerTLS) Plain() bool {
	return t.Clients == NoneAsked && t.Min == 0 && t.Max == 0 && len(t.Ciphers) == 0
}

// open reads what an ingress gateway makes of a server.
func (g *GatewayServer) open(s *networking.Server) {
	g.Name = s.GetPort().GetName()
	g.Serves, g.Why = servesAs(s)
	if s.Bind != "" {
		g.Serves, g.Why = NotServed, "bind: an ingress gateway listens at all of its addresses"
	}
	g.Redirect = g.Serves == ServesRequests && s.GetTls().GetHttpsRedirect()
	if g.Serves.EndsTLS() {
		if g.TLS, g.Why = serverTLS(s.Tls); g.Why != "" {
			g.Serves, g.TLS = NotServed, nil
		}
	}
}

// servesAs says what is done for a server, or why nothing is.
func servesAs(s *networking.Server) (ServerKind, string) {
	protocol, tls := strings.ToUpper(s.GetPort().GetProtocol()), s.GetTls()
	switch protocol {
	case "HTTP", "HTTP2", "GRPC", "GRPC-WEB":
		return ServesRequests, ""
	case "HTTPS", "TLS":
	default:
		if ParseProtocol(protocol) == TCP {
			return ServesBytes, ""
		}
		return NotServed, "port.protocol: " + protocol + " is not served"
	}
	switch tls.GetMode() {
	case networking.ServerTLSSettings_PASSTHROUGH:
		return PassesTLS, ""
	case networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		return PassesMesh, ""
	case networking.ServerTLSSettings_SIMPLE, networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
	default:
		return NotServed, "tls.mode: " + tls.GetMode().String() + " is not served by ingress gateways"
	}
	names := credentialNames(tls)
	switch {
	case len(names) == 0 || tls.CaCertificates != "" || tls.CaCrl != "":
		return NotServed, "tls: the certificate has to be in a Secret that credentialName names; files of the gateway's are not read"
	case slices.ContainsFunc(append(names, tls.CaCertCredentialName), func(n string) bool { return strings.ContainsAny(n, "/:") }):
		return NotServed, "tls.credentialName: Secrets are of the gateway's own namespace, and are named without it"
	case tls.GetInsecureSkipVerify().GetValue():
		return NotServed, "tls.insecureSkipVerify: clients' certificates are verified"
	case protocol == "HTTPS":
		return ServesTLSRequests, ""
	default:
		return ServesTLSBytes, ""
	}
}

func credentialNames(t *networking.ServerTLSSettings) []string {
	if t.GetCredentialName() != "" {
		return []string{t.CredentialName}
	}
	return slices.Clone(t.GetCredentialNames())
}

// serverTLS reads how TLS is ended, or says why it cannot be.
func serverTLS(t *networking.ServerTLSSettings) (*ServerTLS, string) {
	out := &ServerTLS{Credentials: credentialNames(t), Min: uint32(t.MinProtocolVersion), Max: uint32(t.MaxProtocolVersion)}
	if out.Min != 0 && out.Min < tls12 {
		out.Min = 0 // the oldest that is spoken anywhere
	}
	if out.Max != 0 && out.Max < tls12 {
		out.Max = tls12
	}
	if !out.chooseSuites(t.CipherSuites) {
		return nil, "tls.cipherSuites: no proxy knows one of them"
	}
	switch t.Mode {
	case networking.ServerTLSSettings_MUTUAL:
		out.Clients = Required
	case networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		out.Clients = Asked
	default:
		return out, ""
	}
	out.Roots, out.SANs = t.CaCertCredentialName, slices.Sorted(slices.Values(t.SubjectAltNames))
	out.SPKI, out.Hash = slices.Clone(t.VerifyCertificateSpki), slices.Clone(t.VerifyCertificateHash)
	switch {
	case !all(out.SPKI, IsKeyHash):
		return nil, "tls.verifyCertificateSpki: one is no SHA-256 of a key in base64"
	case !all(out.Hash, IsCertificateHash):
		return nil, "tls.verifyCertificateHash: one is no SHA-256 of a certificate"
	}
	return out, ""
}

func all(list []string, is func(string) bool) bool {
	return !slices.ContainsFunc(list, func(s string) bool { return !is(s) })
}

// tls12 is TLS 1.2 as Istio and Envoy number versions.
const tls12 = uint32(networking.ServerTLSSettings_TLSV1_2)
