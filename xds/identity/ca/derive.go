package ca

import (
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
)

// Derive makes 32 bytes of the key that signs, for a purpose: all replicas know them, and nobody else does. Another key makes others.
func (c *CA) Derive(purpose string) ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(c.issuer.Load().key)
	if err != nil {
		return nil, fmt.Errorf("mesh CA: %w", err)
	}
	return hkdf.Key(sha256.New, key, nil, purpose, sha256.Size)
}
