package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// lifetime is long enough for a cluster that somebody leaves up over a weekend.
const lifetime = 7 * 24 * time.Hour

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// Pair is a certificate with its key, both PEM.
type Pair struct{ Cert, Key []byte }

// Holder is who a certificate is for. Kubernetes reads a client's user name from Name and its groups from Groups;
// Hosts are the names and addresses that a server answers at.
type Holder struct {
	Name   string
	Groups []string
	Hosts  []string
}

// New makes an authority that nobody knew before.
func New(name string) (*Authority, error) { return (*Authority)(nil).Below(name) }

// Below makes an authority that this one signs.
func (a *Authority) Below(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template, err := template(Holder{Name: name})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign|x509.KeyUsageDigitalSignature
	if a == nil {
		a = &Authority{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &Authority{cert: cert, key: key}, err
}

// Certificate is the authority's own, PEM.
func (a *Authority) Certificate() []byte { return encode("CERTIFICATE", a.cert.Raw) }

// Pair is the authority's certificate and key, for the programs that sign with it.
func (a *Authority) Pair() (Pair, error) {
	key, err := encodeKey(a.key)
	return Pair{Cert: a.Certificate(), Key: key}, err
}

// Issue signs a certificate for clients and servers alike.
func (a *Authority) Issue(h Holder) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	template, err := template(h)
	if err != nil {
		return Pair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, err
	}
	private, err := encodeKey(key)
	return Pair{Cert: encode("CERTIFICATE", der), Key: private}, err
}

// Write leaves the pair in dir as NAME.crt and NAME.key.
func (p Pair) Write(dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.Cert, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.Key, 0o600)
}

func template(h Holder) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: h.Name, Organization: h.Groups},
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              time.Now().Add(lifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range h.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			t.IPAddresses = append(t.IPAddresses, ip)
		} else {
			t.DNSNames = append(t.DNSNames, host)
		}
	}
	return t, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
