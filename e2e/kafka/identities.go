package kafka

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
	"time"
)

// identities writes an authority, the broker's certificate and a client's.
func (b *Broker) identities(host string) error {
	b.CA, b.Certificate, b.Key = b.file("ca.crt"), b.file("client.crt"), b.file("client.key")
	parent, signer, err := issue("authority", nil, nil, nil)
	if err != nil {
		return err
	}
	broker, brokerKey, err := issue("broker", net.ParseIP(host), parent, signer)
	if err != nil {
		return err
	}
	client, clientKey, err := issue("client", nil, parent, signer)
	if err != nil {
		return err
	}
	brokerSecret, err := secret(brokerKey)
	if err != nil {
		return err
	}
	clientSecret, err := secret(clientKey)
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{
		b.CA: public(parent), b.Certificate: public(client), b.Key: clientSecret, b.file("broker.pem"): append(brokerSecret, public(broker)...),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// issue makes a certificate; without a parent it is an authority's.
func issue(name string, ip net.IP, parent *x509.Certificate, signer *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true,
	}
	if ip != nil {
		template.IPAddresses = []net.IP{ip}
	}
	if parent == nil {
		template.IsCA, template.KeyUsage, parent, signer = true, x509.KeyUsageCertSign, template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return certificate, key, err
}

func public(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

func secret(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
