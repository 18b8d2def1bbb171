package load

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// sharedGateway takes listeners of ListenerSets of all namespaces; one of its own it has to have.
const sharedGateway = `apiVersion: v1
kind: Service
metadata: {name: public-sallyport, namespace: ingress}
spec: {selector: {gateway.networking.k8s.io/gateway-name: public}, clusterIP: 10.251.0.2, ports: [{name: http, port: 80, targetPort: 8080}, {name: https, port: 443, targetPort: 8443}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: ingress}
spec:
  gatewayClassName: sallyport
  listeners: [{name: http, port: 80, protocol: HTTP}]
  allowedListeners: {namespaces: {from: All}}
`

// finding is a pod of the Gateway, whose agent finds certificates by the names that clients say. It comes without TLS, so that it is told of names and
// is given no keys.
func finding(i int) *core.Node {
	n := ingress(i)
	n.Metadata.Fields[certificatesKey] = structpb.NewStringValue("true")
	return n
}

// writeCertificates fills a directory with names, each with a Secret, a ListenerSet of one listener that shows it, and a route.
func (m mesh) writeCertificates(o Options) error {
	if err := os.WriteFile(m.named("ingress"), []byte(sharedGateway), 0o644); err != nil {
		return err
	}
	if err := m.writeWebs(); err != nil {
		return err
	}
	for i := range o.Entries {
		name, host := fmt.Sprintf("shop-%d", i), fmt.Sprintf("www.shop-%d.example.com", i)
		text, err := certified(name, namespace(i), host, 80)
		if err != nil {
			return err
		}
		if err := os.WriteFile(m.named(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// certified are the objects of one name: what its owner would write.
func certified(name, ns, host string, port int) (string, error) {
	certificate, key, err := selfSigned(host)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Secret
type: kubernetes.io/tls
metadata: {name: %[1]s, namespace: %[2]s}
data: {tls.crt: %[4]s, tls.key: %[5]s}
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  parentRef: {name: public, namespace: ingress}
  listeners: [{name: https, port: 443, protocol: HTTPS, hostname: %[3]s, tls: {certificateRefs: [{name: %[1]s}]}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  parentRefs: [{kind: ListenerSet, group: gateway.networking.k8s.io, name: %[1]s}]
  hostnames: [%[3]s]
  rules: [{backendRefs: [{name: web, port: %[6]d}]}]
`, name, ns, host, certificate, key, port), nil
}

// selfSigned is a certificate for a host and its key, as a Secret has them.
func selfSigned(host string) (certificate, key string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", "", err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return "", "", err
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", "", err
	}
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", raw), nil
}

func encoded(kind string, der []byte) string {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // a buffer takes everything
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// certificateSteps has a name with its certificate come, its route lead elsewhere, and all of it go.
func (m mesh) certificateSteps(round int) []step {
	name, host := fmt.Sprintf("new-%d", round), fmt.Sprintf("new-%d.load.example.org", round)
	put := func(port int) func() error {
		return func() error {
			text, err := certified(name, namespace(0), host, port)
			if err != nil {
				return err
			}
			return replace(m.named(name), text)
		}
	}
	return []step{{"added", host, put(80), nil}, {"changed", host, put(81), nil}, {"removed", host, func() error { return os.Remove(m.named(name)) }, nil}}
}
