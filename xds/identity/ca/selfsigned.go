package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

const rootTTL = 10 * 365 * 24 * time.Hour // Istio's default

// readSelfSigned reads the root in folder and makes what is missing of it. The key comes first and exactly once;
// the certificate follows from it, exactly once too: a crash in between and any number of concurrent starts end
// with one root.
func readSelfSigned(folder, trustDomain string, now time.Time) (*issuer, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	keyPath := filepath.Join(folder, "ca-key.pem")
	keyText, err := pemfile.Once(keyPath, 0o600, func() ([]byte, error) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return nil, err
		}
		return pemfile.EncodeKey(key)
	})
	if err != nil {
		return nil, err
	}
	key, err := pemfile.ParseKey(keyText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	certificatePath := filepath.Join(folder, "ca-cert.pem")
	text, err := pemfile.Once(certificatePath, 0o644, func() ([]byte, error) { return selfSign(key, trustDomain, now) })
	if err != nil {
		return nil, err
	}
	own, err := pemfile.ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certificatePath, err)
	}
	more, err := readRoots(filepath.Join(folder, "roots"))
	if err != nil {
		return nil, err
	}
	i, err := newIssuer(key, own[0], nil, append(own[:1], more...), now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certificatePath, err)
	}
	return i, nil
}

// selfSign makes the root's certificate. Its common name holds a part of the key's hash, so that clients which
// choose a certificate by the server's list of CA names can tell two roots of one mesh apart.
func selfSign(key crypto.Signer, trustDomain string, now time.Time) ([]byte, error) {
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(public)
	template := &x509.Certificate{
		Subject: pkix.Name{
			Organization: []string{trustDomain},
			CommonName:   "Sallyport root " + hex.EncodeToString(hash[:4]),
		},
		NotBefore:             now.Add(-Backdate),
		NotAfter:              now.Add(rootTTL),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs leaves only
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("self-sign the root: %w", err)
	}
	return pemfile.EncodeCertificates(&x509.Certificate{Raw: der}), nil
}

// readRoots reads the additional roots, in the order of their files' names.
func readRoots(folder string) ([]*x509.Certificate, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.pem"))
	if err != nil {
		return nil, err
	}
	var all []*x509.Certificate
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		roots, err := pemfile.ParseCertificates(text)
		if err != nil {
			return nil, fmt.Errorf("additional root %s: %w", path, err)
		}
		all = append(all, roots...)
	}
	return all, nil
}
