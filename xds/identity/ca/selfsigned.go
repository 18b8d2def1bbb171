package ca

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

const rootTTL = 10 * 365 * 24 * time.Hour // Istio's default

// attempts bounds how often obtain looks again after another controller was faster.
const attempts = 5

// obtain loads the CA and makes what is missing of it: however many controllers start at the same time, and wherever
// one of them dies, they end with one root.
func obtain(ctx context.Context, store Store, trustDomain string, now time.Time) (Files, error) {
	for range attempts {
		f, err := store.Load(ctx)
		switch {
		case err != nil && (f.Given || !errors.Is(err, fs.ErrNotExist)):
			return Files{}, err
		case err == nil && (f.Given || len(f.Certificate) > 0):
			return f, nil
		}
		if f, err = withRoot(f, trustDomain, now); err != nil {
			return Files{}, err
		}
		if err := store.Save(ctx, f); err != nil && !errors.Is(err, ErrConflict) {
			return Files{}, err
		}
	}
	return Files{}, errors.New("the store does not keep the CA that was put into it")
}

// withRoot adds a key, unless there is one, and the certificate of a new root.
func withRoot(f Files, trustDomain string, now time.Time) (Files, error) {
	var err error
	if len(f.Key) == 0 {
		if f.Key, err = newKeyText(); err != nil {
			return Files{}, err
		}
	}
	key, err := pemfile.ParseKey(f.Key)
	if err != nil {
		return Files{}, fmt.Errorf("%s: %s: %w", f.Origin, KeyFile, err)
	}
	f.Certificate, err = selfSign(key, trustDomain, now)
	f.Roots = append(f.Roots, f.Certificate...)
	return f, err
}

func newKeyText() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	return pemfile.EncodeKey(key)
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
