package ca

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// The names of a CA's texts, in a folder and in a Secret alike. The first four are those of Istio's `cacerts`.
const (
	KeyFile             = "ca-key.pem"
	CertificateFile     = "ca-cert.pem"
	ChainFile           = "cert-chain.pem"
	RootsFile           = "root-cert.pem"
	NextKeyFile         = "next-key.pem"
	NextCertificateFile = "next-cert.pem"
	RotationFile        = "rotation.json"
)

// Files are a CA's texts as a Store keeps them.
type Files struct {
	Key         []byte // private key, PEM
	Certificate []byte // PEM; of several, the one of the key signs
	Chain       []byte // PEM: from Certificate up, with or without the root; empty when a root signs
	Roots       []byte // PEM: what to trust; empty when Certificate is a root and the only one

	NextKey, NextCertificate []byte // the root that a rotation brings, until it signs
	Rotation                 []byte // JSON: how far a rotation came

	Origin  string // where they are, for messages
	Given   bool   // somebody else made them, and they are never changed
	Version string // of what was loaded; empty when nothing was there
}

// Store keeps the Files of one CA for all controllers of a mesh.
type Store interface {
	// Load reads the files; the error is fs.ErrNotExist when there are none.
	Load(ctx context.Context) (Files, error)
	// Save puts the files in the place of those that have f.Version, or makes them when it is empty. The error is
	// ErrConflict when others are there by now.
	Save(ctx context.Context, f Files) error
}

// ErrConflict says that a Store's files are not those that a change was made from.
var ErrConflict = errors.New("somebody else changed the CA meanwhile; look at it again")

// issuer reads the files and checks that they belong together.
func (f Files) issuer(now time.Time) (*issuer, error) {
	key, err := pemfile.ParseKey(f.Key)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.Origin, KeyFile, err)
	}
	own, err := f.parse(CertificateFile, f.Certificate)
	if err != nil {
		return nil, err
	}
	// While a rotation replaces key and certificate one after the other, there are two certificates.
	signs := max(slices.IndexFunc(own, func(c *x509.Certificate) bool { return belongs(c, key) }), 0)
	roots := own[signs : signs+1]
	if len(bytes.TrimSpace(f.Roots)) > 0 {
		if roots, err = f.parse(RootsFile, f.Roots); err != nil {
			return nil, err
		}
	}
	chain := own
	if len(bytes.TrimSpace(f.Chain)) > 0 {
		more, err := f.parse(ChainFile, f.Chain)
		if err != nil {
			return nil, err
		}
		chain = append(slices.Clone(own), more...)
	}
	i, err := newIssuer(key, own[signs], chain, roots, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Origin, err)
	}
	return i, nil
}

func (f Files) parse(name string, text []byte) ([]*x509.Certificate, error) {
	all, err := pemfile.ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", f.Origin, name, err)
	}
	return all, nil
}
