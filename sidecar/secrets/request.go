package secrets

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1alpha1 "istio.io/api/security/v1alpha1"
)

// impersonated is the key by which Istio's proxies of nodes ask for the certificate of another identity.
const impersonated = "ImpersonatedIdentity"

// requestTimeout bounds one CreateCertificate call.
const requestTimeout = 10 * time.Second

// request makes a new key, has the controller certify it, and returns the certificate with the roots that came
// with it. Names are not asked for: the controller puts in the identity that it authenticated.
func request(ctx context.Context, conn grpc.ClientConnInterface, ttl time.Duration, as string) (*certificate, []*x509.Certificate, error) {
	key, csr, err := newRequest()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	asked := &securityv1alpha1.IstioCertificateRequest{Csr: string(csr), ValidityDuration: int64(ttl / time.Second)}
	if as != "" {
		asked.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{impersonated: structpb.NewStringValue(as)}}
	}
	response, err := securityv1alpha1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, asked)
	if err != nil {
		return nil, nil, err
	}
	return readResponse(response.GetCertChain(), key, time.Now())
}

// readResponse takes apart what the controller answered: the leaf, intermediates, and last one or several roots.
func readResponse(answer []string, key []byte, now time.Time) (*certificate, []*x509.Certificate, error) {
	if len(answer) < 2 {
		return nil, nil, fmt.Errorf("the controller answered %d certificates, want at least a leaf and a root", len(answer))
	}
	last := len(answer) - 1
	roots, err := parseCertificates([]byte(answer[last]))
	if err != nil {
		return nil, nil, fmt.Errorf("roots in the controller's answer: %w", err)
	}
	c, err := newCertificate([]byte(strings.Join(answer[:last], "")), key, now)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate in the controller's answer: %w", err)
	}
	if c.expired(now) {
		return nil, nil, fmt.Errorf("the controller's certificate expired at %s already: compare the clocks", c.leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if c.spiffeID() == "" {
		return nil, nil, errors.New("the controller's certificate has no SPIFFE id")
	}
	if err := c.trustedBy(roots, now); err != nil {
		return nil, nil, fmt.Errorf("the controller's certificate does not lead to the roots beside it: %w", err)
	}
	return c, roots, nil
}

// newRequest returns a new ECDSA P-256 key and a CSR for it, both PEM.
func newRequest() (key, csr []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if der, err = x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, private); err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), nil
}
