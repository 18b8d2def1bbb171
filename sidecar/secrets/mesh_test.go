package secrets

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	securityv1alpha1 "istio.io/api/security/v1alpha1"

	"github.com/sallyport/sallyport/xds/identity"
	"github.com/sallyport/sallyport/xds/identity/ca"
	"github.com/sallyport/sallyport/xds/identity/istioca"
	"github.com/sallyport/sallyport/xds/identity/servertls"
	"github.com/sallyport/sallyport/xds/identity/token"
)

var checkout = identity.ID{TrustDomain: "cluster.local", Namespace: "shop", ServiceAccount: "checkout"}

// mesh is a controller's data folder with its CA, and a place for agents.
type mesh struct {
	t    testing.TB
	data string
	ca   *ca.CA
}

func newMesh(t testing.TB) *mesh {
	t.Helper()
	m := &mesh{t: t, data: t.TempDir()}
	authority, err := ca.Open(ca.Options{DataDir: m.data})
	if err != nil {
		t.Fatal(err)
	}
	m.ca = authority
	return m
}

func (m *mesh) rootFile() string { return filepath.Join(m.data, ca.BundleFile) }

// trust makes these the CA's additional roots.
func (m *mesh) trust(roots ...*x509.Certificate) {
	m.t.Helper()
	folder := filepath.Join(m.data, "ca", "roots")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(folder, "more.pem")
	if len(roots) == 0 {
		if err := os.Remove(path); err != nil {
			m.t.Fatal(err)
		}
	} else if err := os.WriteFile(path, encodeCertificates(roots), 0o644); err != nil {
		m.t.Fatal(err)
	}
	m.reload()
}

// signWith takes over the root of another mesh.
func (m *mesh) signWith(next *mesh) {
	m.t.Helper()
	for _, name := range []string{"ca-key.pem", "ca-cert.pem"} {
		content, err := os.ReadFile(filepath.Join(next.data, "ca", name))
		if err != nil {
			m.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(m.data, "ca", name), content, 0o600); err != nil {
			m.t.Fatal(err)
		}
	}
	m.reload()
}

func (m *mesh) reload() {
	m.t.Helper()
	if changed, err := m.ca.Reload(); err != nil || !changed {
		m.t.Fatalf("Reload = %v, %v", changed, err)
	}
}

// tokenFile writes a token of the service account.
func (m *mesh) tokenFile(account string) string {
	m.t.Helper()
	key, err := token.OpenKey(m.data)
	if err != nil {
		m.t.Fatal(err)
	}
	raw, _, err := key.Issue("shop", account, time.Now(), time.Hour)
	if err != nil {
		m.t.Fatal(err)
	}
	path := filepath.Join(m.t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(raw+"\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// controller is the secure port on a real socket; seen tells how each call proved itself.
type controller struct {
	address string
	stop    func()
	mutex   sync.Mutex
	seen    []string
}

func (m *mesh) serve(ttl time.Duration) *controller {
	t := m.t
	t.Helper()
	key, err := token.OpenKey(m.data)
	if err != nil {
		t.Fatal(err)
	}
	config, err := servertls.New(servertls.Options{CA: m.ca, Hosts: servertls.Hosts()})
	if err != nil {
		t.Fatal(err)
	}
	c := &controller{}
	tokens := token.NewVerifier(key, m.ca.TrustDomain(), nil)
	guard := identity.NewGuard(identity.FirstOf(
		c.note("certificate", identity.Certificate{TrustDomain: m.ca.TrustDomain()}), c.note("token", tokens),
	), slog.New(slog.DiscardHandler), nil)
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(config)), grpc.UnaryInterceptor(guard.Unary))
	istioca.New(istioca.Options{CA: m.ca, Tokens: tokens, TTL: ttl}).Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	c.address = listener.Addr().String()
	c.stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(c.stop)
	return c
}

// noting is an Authenticator that leaves a trace of what it accepted.
type noting struct {
	identity.Authenticator
	kind string
	c    *controller
}

func (c *controller) note(kind string, a identity.Authenticator) identity.Authenticator {
	return noting{a, kind, c}
}

func (n noting) Authenticate(ctx context.Context) (identity.ID, error) {
	id, err := n.Authenticator.Authenticate(ctx)
	if err == nil {
		n.c.mutex.Lock()
		defer n.c.mutex.Unlock()
		n.c.seen = append(n.c.seen, n.kind)
	}
	return id, err
}

func (c *controller) proofs() []string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return append([]string(nil), c.seen...)
}

// run starts the workload's renewal and returns what ends it.
func run(t testing.TB, w *Workload, conn grpc.ClientConnInterface) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, conn)
	}()
	stop = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(stop)
	return stop
}

func dial(t testing.TB, w *Workload, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(address, w.DialOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func newWorkload(t testing.TB, o Options) *Workload {
	t.Helper()
	w, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// await waits for something that happens outside of the test's own goroutines' control.
func await(t testing.TB, what string, ready <-chan struct{}) {
	t.Helper()
	select {
	case <-ready:
	case <-time.After(time.Minute):
		t.Fatalf("waited in vain for %s", what)
	}
}

// direct is a connection without a network: calls go straight to the CA.
type direct struct {
	mutex sync.Mutex
	ca    *ca.CA
	ttl   time.Duration
	id    identity.ID
	down  error
	calls int
}

func (d *direct) Invoke(_ context.Context, _ string, in, out any, _ ...grpc.CallOption) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.calls++
	if d.down != nil {
		return d.down
	}
	chain, err := d.ca.Sign([]byte(in.(*securityv1alpha1.IstioCertificateRequest).GetCsr()), d.id, d.ttl)
	out.(*securityv1alpha1.IstioCertificateResponse).CertChain = chain
	return err
}

func (d *direct) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "no streams here")
}

func (d *direct) set(down error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.down = down
}

func (d *direct) count() int {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.calls
}

// serial names the certificate that is held now.
func serial(w *Workload) string {
	m := w.board.read()
	if m.certificate == nil {
		return ""
	}
	return m.certificate.leaf.SerialNumber.String()
}
