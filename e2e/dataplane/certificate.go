package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
)

// writeCertificate puts a certificate and its key into PEM files.
func writeCertificate(certFile, keyFile string, c *tls.Certificate) error {
	chain, key, err := inPEM(c)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(certFile, chain, 0o600), os.WriteFile(keyFile, key, 0o600))
}

func inPEM(c *tls.Certificate) (chain, key []byte, err error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		return nil, nil, err
	}
	for _, der := range c.Certificate {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return chain, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
