package kafka

import (
	"crypto/x509"
	"encoding/pem"
	"os"

	"github.com/sallyport/sallyport/e2e/cluster/pki"
)

// identities writes an authority, the broker's certificate and a client's.
func (b *Broker) identities(host string) error {
	b.CA, b.Certificate, b.Key = b.file("ca.crt"), b.file("client.crt"), b.file("client.key")
	authority, err := pki.New("authority")
	if err != nil {
		return err
	}
	broker, err := authority.Issue(pki.Holder{Name: "broker", Hosts: []string{host}})
	if err != nil {
		return err
	}
	client, err := authority.Issue(pki.Holder{Name: "client"})
	if err != nil {
		return err
	}
	key, err := inPKCS8(broker.Key)
	if err != nil {
		return err
	}
	for file, content := range map[string][]byte{
		b.CA: authority.Certificate(), b.Certificate: client.Cert, b.Key: client.Key, b.file("broker.pem"): append(key, broker.Cert...),
	} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// inPKCS8 writes a key as Kafka reads it.
func inPKCS8(key []byte) ([]byte, error) {
	block, _ := pem.Decode(key)
	parsed, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(parsed)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), err
}
