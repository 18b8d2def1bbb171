package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The ports of an app in a pod that takes one line, which says what it is to do.
const (
	tunnelApp   = 9691
	tunnelOther = 9692
)

// TestTunnelsIntoPods holds that a pod without a sidecar takes HBONE, as a client makes it by Istio's documents: HTTP/2 CONNECT over mutual TLS to port
// 15008, whose authority is the pod's address and port.
func TestTunnelsIntoPods(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	a := &ambientNode{ctx: ctx, scene: s}
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	a.alpha, a.beta = a.pod(t, "alpha", alphaAddr), a.pod(t, "beta", betaAddr)
	for _, p := range []*ambientPod{a.alpha, a.beta} {
		serveTold(t, p.host, p.addr, tunnelApp, tunnelOther)
	}
	h := &hboneTest{ambientNode: a, mesh: meshCA(t, s.DataDir())}
	inOrder(t, []part{
		{"to its app, seen as who it is", h.reaches},
		{"every byte, whoever ends first", h.whole},
		{"many at once", h.many},
		{"who may not", h.strangers},
		{"to elsewhere", h.elsewhere},
		{"a connection that rests is closed", h.rests},
		{"only mutual TLS", h.strict},
		{"by who they are", h.authorized},
	})
}

type hboneTest struct {
	*ambientNode
	mesh issuer
}

// serveTold runs the app.
func serveTold(t *testing.T, at *world.Host, addr netip.Addr, ports ...uint16) {
	t.Helper()
	for _, port := range ports {
		l, err := at.Listen(netip.AddrPortFrom(addr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		serveEach(t, l, func(c net.Conn) { doTold(c.(*net.TCPConn)) })
	}
}

func doTold(c *net.TCPConn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	var n int64
	switch what := strings.TrimSpace(line); {
	case strings.HasPrefix(what, "who"):
		peer, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		_, _ = fmt.Fprintln(c, peer)
	case what == "echo":
		_, _ = io.Copy(c, in)
	case what == "count": // until the client ends
		n, _ = io.Copy(io.Discard, in)
		_, _ = fmt.Fprintln(c, n)
	case strings.HasPrefix(what, "send"): // and end first
		_, _ = fmt.Sscanf(what, "send %d", &n)
		_, _ = io.CopyN(c, zeros{}, n)
	case strings.HasPrefix(what, "wait"): // send, and end when the client does
		_, _ = fmt.Sscanf(what, "wait %d", &n)
		_, _ = io.CopyN(c, zeros{}, n)
		_, _ = io.Copy(io.Discard, in)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// client is one that shows a certificate; its connections are its own.
func (h *hboneTest) client(t *testing.T, certificates ...tls.Certificate) *hboneClient {
	roots := x509.NewCertPool()
	roots.AddCert(h.mesh.cert)
	return h.clientTo(t, h.beta, roots, certificates...)
}

func (h *hboneTest) clientTo(t *testing.T, p *ambientPod, roots *x509.CertPool, certificates ...tls.Certificate) *hboneClient {
	t.Helper()
	config := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}, Certificates: certificates,
		InsecureSkipVerify: true, // by name; the identity is verified below
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf := s.PeerCertificates[0]
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil {
				return err
			}
			if len(leaf.URIs) != 1 || leaf.URIs[0].String() != p.id {
				return fmt.Errorf("it is %v, and not %s", leaf.URIs, p.id)
			}
			return nil
		},
	}
	return &hboneClient{dial: func(ctx context.Context) (*http.ClientConn, error) {
		conn, err := h.node.Host.DialContext(ctx, "tcp", netip.AddrPortFrom(p.addr, 15008).String())
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		t.Cleanup(func() { _ = conn.Close() })
		tr := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return secure, nil }}
		tr.Protocols.SetHTTP2(true)
		return tr.NewClientConn(ctx, "https", conn.RemoteAddr().String())
	}}
}

// hboneClient has one connection at a time.
type hboneClient struct {
	dial func(context.Context) (*http.ClientConn, error)
	mu   sync.Mutex
	conn *http.ClientConn
}

func (c *hboneClient) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	conn, err := c.conn, error(nil)
	if conn == nil || conn.Err() != nil {
		conn, err = c.dial(r.Context())
		c.conn = conn
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return conn.RoundTrip(r)
}

// member is a certificate of the mesh.
func (h *hboneTest) member(t *testing.T, account string) tls.Certificate {
	t.Helper()
	return h.mesh.issue(t, "spiffe://cluster.local/ns/far/sa/"+account, time.Hour)
}

type notTaken int

func (s notTaken) Error() string { return fmt.Sprintf("status %d", int(s)) }

// hbone is a tunnel whose client may end first.
type hbone struct {
	tunnel
	CloseWrite func() error
}

// through opens a tunnel.
func through(ctx context.Context, tr *hboneClient, authority string, headers ...string) (*hbone, error) {
	out, in := io.Pipe()
	r := (&http.Request{Method: http.MethodConnect, URL: &url.URL{Host: authority}, Host: authority, Header: http.Header{}, Body: out}).WithContext(ctx)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(notTaken(resp.StatusCode), in.Close(), resp.Body.Close())
	}
	return &hbone{tunnel{Reader: resp.Body, Writer: in, Closer: closers{in, resp.Body}}, in.Close}, nil
}

// tell says a line in a tunnel of its own, and reads all that comes.
func tell(ctx context.Context, tr *hboneClient, authority, line string, headers ...string) (string, error) {
	c, err := through(ctx, tr, authority, headers...)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintln(c, line); err != nil {
		return "", err
	}
	all, err := io.ReadAll(c)
	return strings.TrimSpace(string(all)), err
}

func (h *hboneTest) app(p *ambientPod) string { return netip.AddrPortFrom(p.addr, tunnelApp).String() }

func (h *hboneTest) reaches(t *testing.T) {
	tr := h.client(t, h.member(t, "one"))
	for _, headers := range [][]string{nil, {
		"baggage: k8s.cluster.name=c,k8s.namespace.name=far,k8s.deployment.name=d,service.name=s,service.version=v1",
		"forwarded: for=192.0.2.1;by=192.0.2.2;host=other.test", "x-forwarded-for: 192.0.2.1", "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	}, {"x-forwarded-for: 127.0.0.1"}} {
		peer, err := tell(h.ctx, tr, h.app(h.beta), "who", headers...)
		if err != nil || peer != nodeAddr.String() {
			t.Errorf("with %v the app was reached by %q (%v), want %v", headers, peer, err, nodeAddr)
		}
	}
}

// whole holds that every byte arrives, whoever ends first; what does not is broken off, and does not seem to be all.
func (h *hboneTest) whole(t *testing.T) {
	const size = 8 << 20
	tr := h.client(t, h.member(t, "one"))
	c, err := through(h.ctx, tr, h.app(h.beta))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintln(c, "count")
	if _, err := io.CopyN(c, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); err != nil || strings.TrimSpace(string(got)) != fmt.Sprint(size) {
		t.Errorf("of a client that ends first %s bytes came (%v), want %d", got, err, size)
	}
	if c, err = through(h.ctx, tr, h.app(h.beta)); err != nil {
		t.Fatal(err)
	}
	_, _ = fmt.Fprintf(c, "wait %d\n", size)
	if n, err := io.CopyN(io.Discard, takeSlowly(c), size); err != nil || n != size {
		t.Errorf("to a slow reader %d bytes came (%v)", n, err)
	}
	_ = c.Close()
	broken := 0
	for range 5 { // Envoy may break it off (its issue 28329)
		if c, err = through(h.ctx, tr, h.app(h.beta)); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "send %d\n", size)
		n, err := io.Copy(io.Discard, takeSlowly(c))
		if err == nil && n != size {
			t.Errorf("%d of %d bytes came of a server that ends first, and seemed to be all", n, size)
		}
		if err != nil {
			broken++
		}
		_ = c.Close()
	}
	t.Logf("broken off of a server that ends first, to a slow reader: %d of 5", broken)
}

// slowly takes some 30 MB a second, so that what comes has to wait.
type slowly struct {
	io.Reader
	pace *rate.Limiter
}

const slowBlock = 16 << 10

func takeSlowly(r io.Reader) slowly { return slowly{r, rate.NewLimiter(30<<20, slowBlock)} }

func (s slowly) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b[:min(len(b), slowBlock)])
	_ = s.pace.WaitN(context.Background(), n)
	return n, err
}

// many holds more tunnels at once than Envoy's usual limit.
func (h *hboneTest) many(t *testing.T) {
	const each, count = 600, 1200
	var clients []*hboneClient
	for range count / each {
		clients = append(clients, h.client(t, h.member(t, "one")))
	}
	open := make([]*hbone, count)
	var work sync.WaitGroup
	for i := range open {
		work.Go(func() {
			c, err := through(h.ctx, clients[i%len(clients)], h.app(h.beta))
			if err != nil {
				t.Errorf("tunnel %d: %v", i, err)
				return
			}
			open[i] = c
		})
	}
	work.Wait()
	for i, c := range open {
		if c == nil {
			continue
		}
		if _, err := fmt.Fprint(c, "echo\nyes\n"); err != nil {
			t.Fatalf("tunnel %d: %v", i, err)
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || line != "yes\n" {
			t.Fatalf("tunnel %d says %q (%v)", i, line, err)
		}
	}
	for _, c := range open {
		if c != nil {
			_ = c.Close()
		}
	}
}

func (h *hboneTest) strangers(t *testing.T) {
	for name, certificates := range map[string][]tls.Certificate{
		"nobody":                  nil,
		"of an unknown authority": {strangeCA(t, h.mesh).issue(t, "spiffe://cluster.local/ns/far/sa/one", time.Hour)},
		"of another trust domain": {h.mesh.issue(t, "spiffe://elsewhere/ns/far/sa/one", time.Hour)},
		"expired":                 {h.mesh.issue(t, "spiffe://cluster.local/ns/far/sa/one", -time.Hour)},
	} {
		if peer, err := tell(h.ctx, h.client(t, certificates...), h.app(h.beta), "who"); err == nil {
			t.Errorf("%s is taken, as %s", name, peer)
		}
	}
	conn, err := h.node.Host.DialContext(h.ctx, "tcp", netip.AddrPortFrom(h.beta.addr, 15008).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(conn, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\nwho\n", h.app(h.beta))
	if got, _ := io.ReadAll(conn); len(got) > 0 {
		t.Errorf("without TLS it answers %q", got)
	}
}

func (h *hboneTest) elsewhere(t *testing.T) {
	tr := h.client(t, h.member(t, "one"))
	for _, authority := range []string{
		h.app(h.alpha), world.OutsideAddrs[0].String() + ":80", "127.0.0.1:15000", fmt.Sprintf("%s:%d", h.beta.addr, 15001), fmt.Sprintf("%s:%d", h.beta.addr, 15006),
		fmt.Sprintf("%s:%d", h.beta.addr, 15008), fmt.Sprintf("%s:0%d", h.beta.addr, tunnelApp), h.beta.addr.String(), "beta.test:9691", h.app(h.alpha) + ":" + fmt.Sprint(tunnelApp),
	} {
		_, err := tell(h.ctx, tr, authority, "who")
		var status notTaken
		if !errors.As(err, &status) || status != http.StatusBadRequest {
			t.Errorf("to %s: %v, want status 400", authority, err)
		}
	}
	_, err := tell(h.ctx, tr, fmt.Sprintf("%s:%d", h.beta.addr, 1), "who")
	var status notTaken
	if !errors.As(err, &status) || status != http.StatusServiceUnavailable {
		t.Errorf("to a closed port: %v, want status 503", err)
	}
	h.recorded(t, "a tunnel to elsewhere", h.alpha.addr.String(), func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.DestinationWorkload.Principal == h.beta.id && r.Claim == "spiffe://cluster.local/ns/far/sa/one"
	})
}

// rests holds that a connection without tunnels does not keep a pod's network.
func (h *hboneTest) rests(t *testing.T) {
	c := h.client(t, h.member(t, "one"))
	if _, err := tell(h.ctx, c, h.app(h.beta), "who"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(h.ctx, 3*time.Minute, func() error {
		if c.conn.Err() == nil {
			return errors.New("it is open")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// plain asks the app without TLS.
func (h *hboneTest) plain(port uint16) (string, error) {
	conn, err := h.node.Host.DialContext(h.ctx, "tcp", netip.AddrPortFrom(h.beta.addr, port).String())
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(leastLimit))
	_, _ = fmt.Fprintln(conn, "who")
	peer, err := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(peer), err
}

func (h *hboneTest) eventually(t *testing.T, what string, holds func() error) {
	t.Helper()
	if err := world.Within(h.ctx, 2*time.Minute, func() error {
		for range nodeThreads {
			if err := holds(); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func open(want bool, err error) error {
	if (err == nil) != want {
		return fmt.Errorf("open: %t (%w), want %t", err == nil, err, want)
	}
	return nil
}

func (h *hboneTest) strict(t *testing.T) {
	h.eventually(t, "before", func() error { _, err := h.plain(tunnelApp); return open(true, err) })
	h.write(t, "strict.yaml", "apiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: strict, namespace: beta}\n"+
		fmt.Sprintf("spec: {selector: {matchLabels: {app: beta}}, mtls: {mode: STRICT}, portLevelMtls: {%d: {mode: PERMISSIVE}}}\n", tunnelOther))
	h.eventually(t, "closed", func() error { _, err := h.plain(tunnelApp); return open(false, err) })
	h.eventually(t, "a port of its own", func() error { _, err := h.plain(tunnelOther); return open(true, err) })
	if peer, err := tell(h.ctx, h.client(t, h.member(t, "one")), h.app(h.beta), "who"); err != nil || peer != nodeAddr.String() {
		t.Errorf("by a tunnel: %q (%v)", peer, err)
	}
	h.mutual(t)
	h.recordedOf(t, "refused for being plain", h.beta.addr.String(), func() { _, _ = h.plain(tunnelApp) }, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.DestinationWorkload.Principal == h.beta.id && r.DecidedBy.Kind == "PeerAuthentication" && r.DecidedBy.Name == "strict"
	})
	if err := h.scene.Config.Remove("strict.yaml"); err != nil {
		t.Fatal(err)
	}
	h.eventually(t, "after", func() error { _, err := h.plain(tunnelApp); return open(true, err) })
}

// mutual holds that TLS as sidecars speak it is taken too.
func (h *hboneTest) mutual(t *testing.T) {
	conn, err := h.node.Host.DialContext(h.ctx, "tcp", h.app(h.beta))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio"}, Certificates: []tls.Certificate{h.member(t, "one")}})
	_, _ = fmt.Fprintln(secure, "who")
	if peer, err := bufio.NewReader(secure).ReadString('\n'); err != nil || strings.TrimSpace(peer) != nodeAddr.String() {
		t.Errorf("by mutual TLS to the port itself: %q (%v)", peer, err)
	}
}

func (h *hboneTest) authorized(t *testing.T) {
	one, two := h.client(t, h.member(t, "one")), h.client(t, h.member(t, "two"))
	h.write(t, "allow.yaml", "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: one-alone, namespace: beta}\n"+
		fmt.Sprintf("spec: {rules: [{from: [{source: {principals: [cluster.local/ns/far/sa/one]}}], to: [{operation: {ports: ['%d']}}]}]}\n", tunnelApp))
	var status notTaken
	h.eventually(t, "two", func() error {
		_, err := tell(h.ctx, two, h.app(h.beta), "who")
		if !errors.As(err, &status) || status != http.StatusForbidden {
			return fmt.Errorf("%w, want status 403", err)
		}
		return nil
	})
	h.eventually(t, "plain", func() error { _, err := h.plain(tunnelApp); return open(false, err) })
	if _, err := tell(h.ctx, one, h.app(h.beta), "who"); err != nil {
		t.Errorf("one: %v", err)
	}
	h.eventually(t, "one, at another port", func() error {
		_, err := tell(h.ctx, h.client(t, h.member(t, "one")), fmt.Sprintf("%s:%d", h.beta.addr, tunnelOther), "who")
		return open(false, err)
	})
	if _, err := tell(h.ctx, h.clientTo(t, h.alpha, h.roots(), h.member(t, "two")), h.app(h.alpha), "who"); err != nil {
		t.Errorf("another namespace's pod: %v", err)
	}
	h.recordedOf(t, "denied by the policy", h.beta.addr.String(), func() { _, _ = tell(h.ctx, two, h.app(h.beta), "who") }, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.DestinationWorkload.Principal == h.beta.id && r.DestinationWorkload.Name == "beta-1" &&
			r.Claim == "spiffe://cluster.local/ns/far/sa/two" && slices.Contains([]string{record.AuthorizationPolicy, ""}, r.DecidedBy.Kind)
	})
}

func (h *hboneTest) roots() *x509.CertPool {
	roots := x509.NewCertPool()
	roots.AddCert(h.mesh.cert)
	return roots
}
