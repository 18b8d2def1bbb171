package istioca

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/e2e/leaks"
	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/identity/token"
)

func TestMain(m *testing.M) { leaks.Verify(m) }

// controller is the secure port as the controller wires it, on a real socket.
type controller struct {
	address string
	ca      *ca.CA
	key     *token.Key
	service *Service
}

func serve(t *testing.T, o Options) *controller {
	t.Helper()
	data := t.TempDir()
	authority, err := ca.Open(ca.Options{DataDir: data})
	if err != nil {
		t.Fatal(err)
	}
	key, err := token.OpenKey(data)
	if err != nil {
		t.Fatal(err)
	}
	config, err := servertls.New(servertls.Options{CA: authority, Hosts: servertls.Hosts()})
	if err != nil {
		t.Fatal(err)
	}
	o.CA, o.Tokens = authority, token.NewVerifier(key, authority.TrustDomain(), nil)
	service := New(o)
	guard := identity.NewGuard(identity.FirstOf(
		identity.Certificate{TrustDomain: authority.TrustDomain()}, o.Tokens,
	), slog.New(slog.DiscardHandler), nil)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnaryInterceptor(guard.Unary), grpc.StreamInterceptor(guard.Stream))
	service.Register(identity.Before(server))
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
	return &controller{address: listener.Addr().String(), ca: authority, key: key, service: service}
}

// client connects, with a client certificate when there is one.
func (c *controller) client(t *testing.T, certificates ...tls.Certificate) securityv1alpha1.IstioCertificateServiceClient {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.ca.BundlePEM())
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, Certificates: certificates})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return securityv1alpha1.NewIstioCertificateServiceClient(conn)
}

func (c *controller) token(t *testing.T, account string) context.Context {
	t.Helper()
	raw, _, err := c.key.Issue("shop", account, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return bearer(t, raw)
}

func bearer(t *testing.T, raw string) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+raw)
}

func newRequest(t *testing.T, names ...string) (*ecdsa.PrivateKey, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var asks x509.CertificateRequest
	for _, name := range names {
		u, err := url.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		asks.URIs = append(asks.URIs, u)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &asks, key)
	if err != nil {
		t.Fatal(err)
	}
	return key, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func leaf(t *testing.T, r *securityv1alpha1.IstioCertificateResponse) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(r.GetCertChain()[0]))
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pair(t *testing.T, key *ecdsa.PrivateKey, r *securityv1alpha1.IstioCertificateResponse) tls.Certificate {
	c := leaf(t, r)
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: key, Leaf: c}
}

// From token to certificate, and to the next by a token again, always the same identity: whoever has stolen a certificate
// has it until it ends.
func TestEachCertificateTakesAToken(t *testing.T) {
	c := serve(t, Options{})
	key, csr := newRequest(t)
	first, err := c.client(t).CreateCertificate(c.token(t, "checkout"), &securityv1alpha1.IstioCertificateRequest{Csr: csr})
	if err != nil {
		t.Fatal(err)
	}
	if chain := first.GetCertChain(); len(chain) != 2 || chain[1] != string(c.ca.BundlePEM()) {
		t.Errorf("chain of %d elements, the last has to be the roots", len(chain))
	}
	byCertificate := c.client(t, pair(t, key, first))
	_, csr = newRequest(t, "spiffe://cluster.local/ns/shop/sa/admin", "spiffe://cluster.local/ns/shop/sa/other")
	old, _, err := c.key.Issue("shop", "checkout", time.Now().Add(-2*time.Hour), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		ctx  context.Context
		code codes.Code
		told string
	}{
		"certificate and token":            {c.token(t, "checkout"), codes.OK, ""},
		"certificate alone":                {t.Context(), codes.Unauthenticated, "for a token only"},
		"certificate and garbage":          {bearer(t, "not.a.token"), codes.Unauthenticated, "not an ES256"},
		"certificate and an expired token": {bearer(t, old), codes.Unauthenticated, "expired"},
		"certificate and another's token":  {c.token(t, "admin"), codes.PermissionDenied, "the token is of"},
	} {
		second, err := byCertificate.CreateCertificate(tc.ctx, &securityv1alpha1.IstioCertificateRequest{Csr: csr})
		if status.Code(err) != tc.code || err != nil && !strings.Contains(err.Error(), tc.told) {
			t.Errorf("%s: %v, want %s with %q", name, err, tc.code, tc.told)
			continue
		}
		if err != nil {
			continue
		}
		if u := leaf(t, second).URIs; len(u) != 1 || u[0].String() != "spiffe://cluster.local/ns/shop/sa/checkout" {
			t.Errorf("%s: certificate of %v", name, u)
		}
	}
	var issued dto.Metric
	if err := c.service.metrics.issued.Write(&issued); err != nil || issued.GetCounter().GetValue() != 2 {
		t.Errorf("issued counted %v, want 2", &issued)
	}
}

// A token that no pod's end ends is not enough where pods have their own.
func TestTokensOfPods(t *testing.T) {
	c := serve(t, Options{OfPod: true})
	_, csr := newRequest(t)
	_, err := c.client(t).CreateCertificate(c.token(t, "checkout"), &securityv1alpha1.IstioCertificateRequest{Csr: csr})
	if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "bound to no pod") {
		t.Errorf("%v", err)
	}
	c = serve(t, Options{OfPod: true, Unbound: func(id identity.ID) bool { return id.Namespace == "shop" && id.ServiceAccount == "checkout" }})
	if _, err := c.client(t).CreateCertificate(c.token(t, "checkout"), &securityv1alpha1.IstioCertificateRequest{Csr: csr}); err != nil {
		t.Errorf("an account of machines: %v", err)
	}
	if _, err := c.client(t).CreateCertificate(c.token(t, "admin"), &securityv1alpha1.IstioCertificateRequest{Csr: csr}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("another account: %v", err)
	}
}

// Strangers and impostors get nothing.
func TestRefused(t *testing.T) {
	c := serve(t, Options{})
	other := serve(t, Options{})
	key, csr := newRequest(t)
	foreign, err := other.client(t).CreateCertificate(other.token(t, "checkout"), &securityv1alpha1.IstioCertificateRequest{Csr: csr})
	if err != nil {
		t.Fatal(err)
	}
	impersonate, err := structpb.NewStruct(map[string]any{impersonated: "spiffe://cluster.local/ns/shop/sa/admin"})
	if err != nil {
		t.Fatal(err)
	}
	odd, err := structpb.NewStruct(map[string]any{impersonated: "admin"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		ctx     context.Context
		client  securityv1alpha1.IstioCertificateServiceClient
		request *securityv1alpha1.IstioCertificateRequest
		code    codes.Code
		told    string
	}{
		{"no credentials", t.Context(), c.client(t), &securityv1alpha1.IstioCertificateRequest{Csr: csr}, codes.Unauthenticated, "authorization: Bearer TOKEN"},
		{"garbage token", bearer(t, "a.b.c"), c.client(t), &securityv1alpha1.IstioCertificateRequest{Csr: csr}, codes.Unauthenticated, "not an ES256"},
		{"another mesh's token", other.token(t, "checkout"), c.client(t), &securityv1alpha1.IstioCertificateRequest{Csr: csr}, codes.Unauthenticated, "signature"},
		{"no CSR", c.token(t, "checkout"), c.client(t), &securityv1alpha1.IstioCertificateRequest{}, codes.InvalidArgument, "certificate request"},
		{"negative lifetime", c.token(t, "checkout"), c.client(t), &securityv1alpha1.IstioCertificateRequest{Csr: csr, ValidityDuration: -1}, codes.InvalidArgument, "validity_duration -1"},
		{"stands in for another", c.token(t, "checkout"), c.client(t), &securityv1alpha1.IstioCertificateRequest{Csr: csr, Metadata: impersonate}, codes.PermissionDenied, "sa/admin"},
		{"stands in for nobody", c.token(t, "checkout"), c.client(t), &securityv1alpha1.IstioCertificateRequest{Csr: csr, Metadata: odd}, codes.InvalidArgument, `"admin"`},
		{"another mesh's certificate", t.Context(), c.client(t, pair(t, key, foreign)), &securityv1alpha1.IstioCertificateRequest{Csr: csr}, codes.Unauthenticated, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			response, err := tc.client.CreateCertificate(tc.ctx, tc.request)
			if err == nil {
				t.Fatalf("certificate for %v", leaf(t, response).URIs)
			}
			// A client certificate of another root is not even sent: the server names the roots it knows.
			if status.Code(err) != tc.code || !strings.Contains(err.Error(), tc.told) {
				t.Errorf("error %v, want %s with %q", err, tc.code, tc.told)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	for _, tc := range []struct {
		name     string
		ttl, max time.Duration
		asked    int64
		want     time.Duration
	}{
		{"default", 0, 0, 0, 24 * time.Hour},
		{"shorter", 0, 0, 600, 10 * time.Minute},
		{"more than the default", 0, 0, 90 * 24 * 3600, 24 * time.Hour},
		{"absurd", 0, 0, 1 << 62, 24 * time.Hour},
		{"configured", time.Minute, 0, 0, time.Minute},
		{"Istio's agents always ask for a day", time.Minute, 0, 24 * 3600, time.Minute},
		{"a longer maximum", time.Minute, time.Hour, 1800, 30 * time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := New(Options{CA: noCA{}, TTL: tc.ttl, MaxTTL: tc.max})
			if got, err := s.lifetime(tc.asked); err != nil || got != tc.want {
				t.Errorf("lifetime(%d) = %s, %v; want %s", tc.asked, got, err, tc.want)
			}
		})
	}
}

type noCA struct{ Signer }

func (noCA) Expires() time.Time { return time.Time{} }

func (noCA) Sign([]byte, identity.ID, time.Duration) ([]string, error) {
	return nil, errors.New("key at /secret/place is gone")
}

func TestImpersonation(t *testing.T) {
	node := identity.ID{TrustDomain: "cluster.local", Namespace: "istio-system", ServiceAccount: "ztunnel"}
	pod := identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}
	o := Options{CA: noCA{}, Impersonate: func(_ context.Context, caller identity.ID, _ identity.Pod, wanted identity.ID) error {
		if caller != node {
			return errors.New("only nodes may")
		}
		return nil
	}}
	wanted, err := structpb.NewStruct(map[string]any{impersonated: pod.String()})
	if err != nil {
		t.Fatal(err)
	}
	r := &securityv1alpha1.IstioCertificateRequest{Metadata: wanted}
	if id, err := New(o).subject(t.Context(), node, identity.Pod{}, r); err != nil || id != pod {
		t.Errorf("subject = %s, %v", id, err)
	}
	if id, err := New(o).subject(t.Context(), identity.ID{Namespace: "x"}, identity.Pod{}, r); status.Code(err) != codes.PermissionDenied {
		t.Errorf("subject = %s, %v", id, err)
	}
	if id, err := New(o).subject(t.Context(), pod, identity.Pod{}, r); err != nil || id != pod {
		t.Errorf("its own: subject = %s, %v", id, err)
	}
}

// What goes wrong inside is logged, not told, and counted.
func TestInternalErrorsStayInside(t *testing.T) {
	caller := identity.ID{TrustDomain: "cluster.local", Namespace: "a", ServiceAccount: "b"}
	s := New(Options{CA: noCA{}, Tokens: knows(caller), Metrics: prometheus.NewRegistry()})
	ctx := identity.NewContext(t.Context(), caller)
	_, err := s.CreateCertificate(ctx, &securityv1alpha1.IstioCertificateRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "/secret/place") {
		t.Errorf("error %v", err)
	}
	if _, err := s.CreateCertificate(t.Context(), nil); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a guard: %v", err)
	}
	var failed dto.Metric
	if err := s.metrics.failures.WithLabelValues("Internal").Write(&failed); err != nil || failed.GetCounter().GetValue() != 1 {
		t.Errorf("failures counted %v, want 1", &failed)
	}
}

// knows is an Authenticator to whom everybody is the same.
type knows identity.ID

func (k knows) Authenticate(context.Context) (identity.ID, error) { return identity.ID(k), nil }
