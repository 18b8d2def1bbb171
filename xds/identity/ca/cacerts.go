package ca

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/sallyport/sallyport/xds/identity/pemfile"
)

// readCACerts reads a CA that someone else made. root-cert.pem may hold several roots; cert-chain.pem (from the CA
// up, with or without the root) may be missing when a root itself signs.
// https://istio.io/latest/docs/tasks/security/cert-management/plugin-ca-cert/
func readCACerts(folder string, now time.Time) (*issuer, error) {
	keyPath := filepath.Join(folder, "ca-key.pem")
	keyText, err := os.ReadFile(keyPath)
	if err != nil {
		return nil, err
	}
	key, err := pemfile.ParseKey(keyText)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyPath, err)
	}
	own, err := readCertificates(folder, "ca-cert.pem")
	if err != nil {
		return nil, err
	}
	roots, err := readCertificates(folder, "root-cert.pem")
	if err != nil {
		return nil, err
	}
	chain, err := readCertificates(folder, "cert-chain.pem")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	i, err := newIssuer(key, own[0], append(own[1:], chain...), roots, now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return i, nil
}

func readCertificates(folder, name string) ([]*x509.Certificate, error) {
	path := filepath.Join(folder, name)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certificates, err := pemfile.ParseCertificates(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certificates, nil
}
