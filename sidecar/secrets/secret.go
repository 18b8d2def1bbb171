package secrets

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// The names by which Envoy's configuration asks for the workload's secrets; Istio's.
const (
	CertificateName = "default"
	RootsName       = "ROOTCA"
)

// secretType is the type URL of Envoy's secrets.
const secretType = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"

// secret is one secret as Envoy gets it. Equal content has an equal version.
type secret struct {
	version string
	body    *anypb.Any
}

// secrets are those that may be handed out now, by name. An expired certificate is not: who asks for it waits for
// the next one.
func (m *material) secrets(now time.Time) (map[string]secret, error) {
	all := make(map[string]secret, len(m.others)+len(m.pods)+3)
	maps.Copy(all, m.others)
	maps.Copy(all, m.pods)
	add := func(s *tlsv3.Secret) error {
		made, err := pack(s)
		all[s.GetName()] = made
		return err
	}
	if c := m.certificate; c != nil && !c.expired(now) {
		if err := add(c.secret(CertificateName)); err != nil {
			return nil, err
		}
	}
	if roots := m.roots(); len(roots) > 0 {
		if err := add(&tlsv3.Secret{Name: RootsName, Type: &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline(encodeCertificates(roots))},
		}}); err != nil {
			return nil, err
		}
	}
	if file := systemRoots(); file != "" {
		if err := add(&tlsv3.Secret{Name: SystemRootsName, Type: &tlsv3.Secret_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{
				TrustedCa: &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: file}},
			},
		}}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// secret is the certificate with its key.
func (c *certificate) secret(name string) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{
		TlsCertificate: &tlsv3.TlsCertificate{CertificateChain: inline(c.chain), PrivateKey: inline(c.key)},
	}}
}

func pack(s *tlsv3.Secret) (secret, error) {
	content, err := proto.MarshalOptions{Deterministic: true}.Marshal(s)
	if err != nil {
		return secret{}, fmt.Errorf("secret %q: %w", s.GetName(), err)
	}
	hash := sha256.Sum256(content)
	return secret{version: hex.EncodeToString(hash[:16]), body: &anypb.Any{TypeUrl: secretType, Value: content}}, nil
}

func inline(content []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: content}}
}

// SystemRootsName is the secret with the roots that the proxy's host trusts: what servers outside the mesh are
// verified by. Istio's name.
const SystemRootsName = "file-root:system"

// rootFiles are where distributions keep those roots; crypto/x509 looks at the same places.
var rootFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Arch
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // RHEL 7
	"/etc/ssl/cert.pem",                                 // Alpine
}

// systemRoots is the file with the host's roots: SSL_CERT_FILE if it is set, as everywhere; "" when there is none.
func systemRoots() string {
	if file := os.Getenv("SSL_CERT_FILE"); file != "" {
		return file
	}
	for _, file := range rootFiles {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}
