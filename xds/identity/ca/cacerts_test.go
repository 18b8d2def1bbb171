package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

type authority struct {
	key         crypto.Signer
	certificate *x509.Certificate
}

// newAuthority makes a CA; parent nil makes a root.
func newAuthority(t *testing.T, name string, key crypto.Signer, parent *authority, ttl time.Duration) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(ttl),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	issuer, signer := template, key
	if parent != nil {
		issuer, signer = parent.certificate, parent.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{key: key, certificate: certificate}
}

func writeCACerts(t *testing.T, key, certificate, chain, roots []byte) string {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string][]byte{
		"ca-key.pem": key, "ca-cert.pem": certificate, "cert-chain.pem": chain, "root-cert.pem": roots,
	} {
		if content == nil {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func TestCACerts(t *testing.T) {
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	root := newAuthority(t, "root", newKey(t), nil, 1000*time.Hour)
	upper := newAuthority(t, "upper", newKey(t), &root, 500*time.Hour)
	lower := newAuthority(t, "lower", large, &upper, 800*time.Hour) // longer than the one above it
	nextRoot := newAuthority(t, "next root", newKey(t), nil, 1000*time.Hour)
	pkcs1 := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(large)})
	rootKey, err := pemfile.EncodeKey(root.key)
	if err != nil {
		t.Fatal(err)
	}
	encode := pemfile.EncodeCertificates

	for _, c := range []struct {
		name          string
		folder        string
		intermediates []string
		roots         []string
		expires       time.Time
	}{
		{
			"as Istio's Makefile writes it: the chain from the CA to the root",
			writeCACerts(t, pkcs1, encode(lower.certificate), encode(lower.certificate, upper.certificate, root.certificate), encode(root.certificate)),
			[]string{"lower", "upper"}, []string{"root"}, upper.certificate.NotAfter,
		},
		{
			"two roots, the signing one last; the chain in any order and without the root",
			writeCACerts(t, pkcs1, encode(lower.certificate), encode(upper.certificate), encode(nextRoot.certificate, root.certificate)),
			[]string{"lower", "upper"}, []string{"root", "next root"}, upper.certificate.NotAfter,
		},
		{
			"a root signs by itself, no chain file",
			writeCACerts(t, rootKey, encode(root.certificate), nil, encode(root.certificate)),
			nil, []string{"root"}, root.certificate.NotAfter,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ca := open(t, Options{CACertsDir: c.folder})
			chain, err := ca.Sign(csr(t, newKey(t), x509.CertificateRequest{}), checkout, 10000*time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			var intermediates []string
			for _, text := range chain[1 : len(chain)-1] {
				all, err := pemfile.ParseCertificates([]byte(text))
				if err != nil || len(all) != 1 {
					t.Fatalf("%d certificates in one element, %v", len(all), err)
				}
				intermediates = append(intermediates, all[0].Subject.CommonName)
			}
			if strings.Join(intermediates, " ") != strings.Join(c.intermediates, " ") {
				t.Errorf("intermediates %v, want %v", intermediates, c.intermediates)
			}
			var roots []string
			for _, r := range ca.Bundle() {
				roots = append(roots, r.Subject.CommonName)
			}
			if strings.Join(roots, ",") != strings.Join(c.roots, ",") {
				t.Errorf("roots %v, want %v", roots, c.roots)
			}
			if chain[len(chain)-1] != string(ca.BundlePEM()) {
				t.Error("the last element is not the trust bundle")
			}
			leaf := leafOf(t, chain)
			if !leaf.NotAfter.Equal(c.expires) {
				t.Errorf("expires %s, want with the chain at %s", leaf.NotAfter, c.expires)
			}
			options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
			options.Roots.AddCert(root.certificate)
			options.Intermediates.AppendCertsFromPEM([]byte(strings.Join(chain[1:len(chain)-1], "")))
			if _, err := leaf.Verify(options); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCACertsRefused(t *testing.T) {
	root := newAuthority(t, "root", newKey(t), nil, time.Hour)
	other := newAuthority(t, "other", newKey(t), nil, time.Hour)
	lower := newAuthority(t, "lower", newKey(t), &root, time.Hour)
	old := newAuthority(t, "old", newKey(t), nil, -time.Minute)
	text := func(a authority) (key, certificate []byte) {
		key, err := pemfile.EncodeKey(a.key)
		if err != nil {
			t.Fatal(err)
		}
		return key, pemfile.EncodeCertificates(a.certificate)
	}
	rootKey, rootText := text(root)
	otherKey, otherText := text(other)
	lowerKey, lowerText := text(lower)
	oldKey, oldText := text(old)
	signed, err := open(t, Options{CACertsDir: writeCACerts(t, rootKey, rootText, nil, rootText)}).SignServer(lower.key.Public(), []string{"localhost"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, folder, err string }{
		{"another's key", writeCACerts(t, otherKey, rootText, rootText, rootText), "private key"},
		{"another's root", writeCACerts(t, lowerKey, lowerText, lowerText, otherText), "trusted root"},
		{"no CA", writeCACerts(t, lowerKey, pemfile.EncodeCertificates(signed...), nil, rootText), "may not sign"},
		{"expired", writeCACerts(t, oldKey, oldText, oldText, oldText), "expired"},
		{"no key", writeCACerts(t, nil, rootText, rootText, rootText), "ca-key.pem"},
		{"key is no key", writeCACerts(t, rootText, rootText, rootText, rootText), "ca-key.pem"},
		{"no root", writeCACerts(t, rootKey, rootText, rootText, nil), "root-cert.pem"},
		{"garbage chain", writeCACerts(t, rootKey, rootText, []byte("x"), rootText), "cert-chain.pem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Open(Options{DataDir: t.TempDir(), CACertsDir: c.folder})
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}
