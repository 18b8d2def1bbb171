package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

var checkout = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func csr(t testing.TB, key crypto.Signer, asks x509.CertificateRequest) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &asks, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func leafOf(t testing.TB, chain []string) *x509.Certificate {
	t.Helper()
	all, err := pemfile.ParseCertificates([]byte(chain[0]))
	if err != nil || len(all) != 1 {
		t.Fatalf("leaf: %d certificates, %v", len(all), err)
	}
	return all[0]
}

// Whatever the request asks for, the certificate says who sent it and nothing else.
func TestSignIgnoresTheNamesAskedFor(t *testing.T) {
	c := open(t, Options{})
	admin, _ := url.Parse("spiffe://cluster.local/ns/kube-system/sa/admin")
	greedy := x509.CertificateRequest{
		Subject:        pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}},
		URIs:           []*url.URL{admin},
		DNSNames:       []string{"istiod.istio-system.svc", "localhost"},
		IPAddresses:    []net.IP{net.IPv4(127, 0, 0, 1)},
		EmailAddresses: []string{"root@localhost"},
		ExtraExtensions: []pkix.Extension{
			{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}, // CA:TRUE
		},
	}
	now := time.Now()
	chain, err := c.Sign(csr(t, newKey(t), greedy), checkout, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	leaf := leafOf(t, chain)
	if len(leaf.URIs) != 1 || leaf.URIs[0].String() != checkout.String() {
		t.Errorf("URI names %v, want %s alone", leaf.URIs, checkout)
	}
	if len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) != 0 || leaf.Subject.String() != "" {
		t.Errorf("also named: %v %v %v %q", leaf.DNSNames, leaf.IPAddresses, leaf.EmailAddresses, leaf.Subject)
	}
	if leaf.IsCA || !leaf.BasicConstraintsValid || leaf.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("CA %v, key usage %v", leaf.IsCA, leaf.KeyUsage)
	}
	if len(leaf.ExtKeyUsage) != 2 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth || leaf.ExtKeyUsage[1] != x509.ExtKeyUsageServerAuth {
		t.Errorf("extended key usage %v", leaf.ExtKeyUsage)
	}
	if back := now.Sub(leaf.NotBefore); back < Backdate-2*time.Second || back > Backdate+2*time.Second {
		t.Errorf("backdated by %s", back)
	}
	if left := leaf.NotAfter.Sub(now); left < time.Hour-2*time.Second || left > time.Hour+2*time.Second {
		t.Errorf("valid for %s", left)
	}
	if bits := leaf.SerialNumber.BitLen(); bits < 100 {
		t.Errorf("serial of %d bits", bits)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(chain[len(chain)-1]))
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Errorf("leaf does not verify: %v", err)
	}
}

func TestSignNeverOutlivesTheCA(t *testing.T) {
	c := open(t, Options{})
	chain, err := c.Sign(csr(t, newKey(t), x509.CertificateRequest{}), checkout, 100*365*24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if leaf := leafOf(t, chain); !leaf.NotAfter.Equal(c.Expires()) {
		t.Errorf("leaf expires %s, the CA %s", leaf.NotAfter, c.Expires())
	}
	c.options.Now = func() time.Time { return c.Expires().Add(time.Second) }
	if _, err := c.Sign(csr(t, newKey(t), x509.CertificateRequest{}), checkout, time.Hour); err == nil {
		t.Error("an expired CA signs")
	}
}

func TestSignRefusesRequests(t *testing.T) {
	c := open(t, Options{})
	good := csr(t, newKey(t), x509.CertificateRequest{})
	block, _ := pem.Decode(good)
	tampered := append([]byte(nil), block.Bytes...)
	tampered[len(tampered)-1] ^= 1
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Skipf("no weak RSA key to be had: %v", err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, err string
		csr       []byte
	}{
		{"empty", "no PEM block", nil},
		{"not PEM", "no PEM block", []byte("hello")},
		{"a certificate", "no PEM block", c.BundlePEM()},
		{"garbage inside", "asn1", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("hello")})},
		{"signature of another key", "signature", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: tampered})},
		{"huge", "limit", make([]byte, maxCSRLength+1)},
		{"RSA-1024", "1024", csr(t, weak, x509.CertificateRequest{SignatureAlgorithm: x509.SHA256WithRSA})},
		{"P-224", "P-224", csr(t, p224, x509.CertificateRequest{})},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := c.Sign(tc.csr, checkout, time.Hour)
			var bad *CSRError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want a CSRError with %q", err, tc.err)
			}
		})
	}
}

func TestSignRefusesIdentities(t *testing.T) {
	c := open(t, Options{})
	for _, id := range []identity.ID{
		{}, {TrustDomain: "other", Namespace: "shop", ServiceAccount: "checkout"},
		{TrustDomain: "cluster.local", Namespace: "shop/sa/admin", ServiceAccount: "x"},
	} {
		if _, err := c.Sign(csr(t, newKey(t), x509.CertificateRequest{}), id, time.Hour); err == nil {
			t.Errorf("signed for %s", id)
		}
	}
	if _, err := c.Sign(csr(t, newKey(t), x509.CertificateRequest{}), checkout, 0); err == nil {
		t.Error("signed for no time at all")
	}
}

func TestSignAcceptsOtherKeys(t *testing.T) {
	c := open(t, Options{})
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []crypto.Signer{large, edwards} {
		chain, err := c.Sign(csr(t, key, x509.CertificateRequest{}), checkout, time.Hour)
		if err != nil {
			t.Errorf("%T: %v", key, err)
			continue
		}
		leaf := leafOf(t, chain)
		if _, isRSA := key.(*rsa.PrivateKey); isRSA != (leaf.KeyUsage&x509.KeyUsageKeyEncipherment != 0) {
			t.Errorf("%T: key usage %v", key, leaf.KeyUsage)
		}
	}
}

// FuzzSign holds that no request, however odd, gets a name that its sender does not have.
func FuzzSign(f *testing.F) {
	c := open(f, Options{})
	f.Add(csr(f, newKey(f), x509.CertificateRequest{DNSNames: []string{"localhost"}}))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, request []byte) {
		chain, err := c.Sign(request, checkout, time.Hour)
		if err != nil {
			return
		}
		leaf := leafOf(t, chain)
		if len(leaf.URIs) != 1 || leaf.URIs[0].String() != checkout.String() || len(leaf.DNSNames) != 0 || leaf.IsCA {
			t.Fatalf("certificate for %v %v, CA %v", leaf.URIs, leaf.DNSNames, leaf.IsCA)
		}
	})
}
