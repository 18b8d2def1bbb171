package kubernetes

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/istioca"
	"github.com/sallyport/sallyport/xds/identity/kubeca"
	"github.com/sallyport/sallyport/xds/identity/kubetoken"
	"github.com/sallyport/sallyport/xds/identity/servertls"
)

// testCertificates: a pod's token is worth a certificate of its service account, whatever the request asks for, and the
// certificate is worth the next one.
func testCertificates(t *testing.T, c cluster) {
	c.account(t, "bank", "teller")
	pod := c.pod(t, "bank", "teller-0", "teller", "10.0.1.1")
	c.namespace(t, "control-plane")
	authority, err := ca.OpenContext(t.Context(), ca.Options{Store: kubeca.NewStore(c.CoreV1(), "control-plane"), Log: logTo(t)})
	if err != nil {
		t.Fatal(err)
	}
	address := c.serve(t, authority)
	token := c.token(t, "bank", "teller", kubetoken.Audience, pod)

	ask := func(token string, own ...tls.Certificate) (tls.Certificate, error) {
		t.Helper()
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(authority.BundlePEM())
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: own})))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		key, csr := request(t)
		ctx := t.Context()
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		answer, err := securityv1alpha1.NewIstioCertificateServiceClient(conn).CreateCertificate(ctx, &securityv1alpha1.IstioCertificateRequest{Csr: csr})
		if err != nil {
			return tls.Certificate{}, err
		}
		block, _ := pem.Decode([]byte(answer.GetCertChain()[0]))
		leaf, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if len(leaf.URIs) != 1 || leaf.URIs[0].String() != "spiffe://cluster.local/ns/bank/sa/teller" || len(leaf.DNSNames)+len(leaf.IPAddresses)+len(leaf.EmailAddresses) > 0 {
			t.Errorf("certificate of %v, %v, %v", leaf.URIs, leaf.DNSNames, leaf.IPAddresses)
		}
		return tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf}, nil
	}
	mine, err := ask(token)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ask("", mine); status.Code(err) != codes.Unauthenticated {
		t.Errorf("by a certificate, which whoever copied it could renew for ever: %v", err)
	}
	if _, err := ask(""); status.Code(err) != codes.Unauthenticated {
		t.Errorf("by nothing: %v", err)
	}
	if _, err := ask(c.token(t, "bank", "teller", "vault", pod)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("by a token for another audience: %v", err)
	}
	if _, err := ask("", forged(t, authority)); err == nil {
		t.Error("a certificate of another CA with our root's name was taken")
	}
}

// serve is the secure port as the controller wires it.
func (c cluster) serve(t *testing.T, authority *ca.CA) string {
	t.Helper()
	config, err := servertls.New(servertls.Options{CA: authority, Hosts: servertls.Hosts()})
	if err != nil {
		t.Fatal(err)
	}
	guard := identity.NewGuard(identity.FirstOf(identity.Certificate{TrustDomain: authority.TrustDomain()}, c.authenticator(t, nil)), logTo(t), nil)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnaryInterceptor(guard.Unary))
	istioca.New(istioca.Options{CA: authority, Tokens: c.authenticator(t, nil), OfPod: true}).Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// request is a CSR that asks for names of others.
func request(t *testing.T) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, csr, err := newRequest()
	if err != nil {
		t.Fatal(err)
	}
	return key, csr
}

func newRequest() (*ecdsa.PrivateKey, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		URIs:     []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/istio-system/sa/sallyport"}},
		DNSNames: []string{"sallyport.istio-system.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		EmailAddresses: []string{"admin@example.org"},
	}, key)
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), err
}

// forged is a certificate for bank's teller whose issuer looks like the mesh's root and is not.
func forged(t *testing.T, authority *ca.CA) tls.Certificate {
	t.Helper()
	key, _ := request(t)
	template := authority.Bundle()[0]
	id := identity.ID{TrustDomain: "cluster.local", Namespace: "bank", ServiceAccount: "teller"}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: template.SerialNumber, URIs: []*url.URL{id.URI()}, NotBefore: template.NotBefore, NotAfter: template.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature,
	}, &x509.Certificate{Subject: template.Subject, SubjectKeyId: template.SubjectKeyId, IsCA: true, BasicConstraintsValid: true, PublicKey: key.Public()}, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
