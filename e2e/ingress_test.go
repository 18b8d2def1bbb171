package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// ingressScene is a scene with an ingress gateway, two pods behind it, and clients outside.
type ingressScene struct {
	scene       *story.Scene
	gateway     *story.Pod
	ca, clients *outside.CA
	client      *world.Host
	pod, beside *world.Host   // those that are led to: the first has a proxy
	more        chan struct{} // lets a response of /slow go on
}

// TestIngress: what comes into the mesh by an ingress gateway goes where Gateways and VirtualServices say, and nowhere else.
func TestIngress(t *testing.T) {
	needRoot(t)
	t.Parallel()
	in := newIngress(t)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"requests", in.requests},
		{"shares", in.shares},
		{"TLS ends here", in.endsTLS},
		{"client certificates", in.clientCertificates},
		{"another name's connection", in.misdirected},
		{"TLS passes", in.passesTLS},
		{"bytes", in.bytes},
		{"requests arrive whole", in.whole},
		{"silent clients", in.silent},
		{"large heads", in.heads},
		{"all places taken", in.allPlaces},
		{"mutual TLS", in.mutualTLS},
		{"not for rent", in.notForRent},
		{"a neighbour takes nothing", in.neighbour},
		{"a neighbour takes no port of the gateway's own", in.ownPorts},
		{"live", in.live},
		{"explain", in.explainIstio},
		{"tokens", in.tokens},
		{"authorization", in.authorization},
		{"an authorizer", in.custom},
		{"the log", in.log},
	} {
		t.Run(part.name, part.test)
	}
}

func newIngress(t *testing.T) *ingressScene {
	t.Helper()
	return newIngressOf(t, ingressObjects, "istio=ingressgateway", "pod-template-hash=abc")
}

// newIngressOf is a scene with these objects, whose gateway's pod has these labels; plain.test leads to the first pod.
func newIngressOf(t *testing.T, objects string, labels ...string) *ingressScene {
	t.Helper()
	ctx, scene := setScene(t, story.InNamespaces)
	in := &ingressScene{scene: scene, client: scene.World.Outside, more: make(chan struct{})}
	var err error
	if in.ca, err = outside.NewCA(); err != nil {
		t.Fatal(err)
	}
	if in.clients, err = outside.NewCA(); err != nil {
		t.Fatal(err)
	}
	in.writeCertificate(t, "shop-cert", "shop.test", nil)
	in.writeCertificate(t, "bank-cert", "bank.test", in.clients.PEM())
	if err := scene.Config.Write("ingress.yaml", objects); err != nil {
		t.Fatal(err)
	}
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	web1, err := scene.AddSidecar(setting, "web-1", "shop", "web", web1Addr, "app=web", "version=v1")
	if err != nil {
		t.Fatal(err)
	}
	web2, err := scene.World.AddPod("web-2", web2Addr)
	if err != nil {
		t.Fatal(err)
	}
	in.pod, in.beside = web1.Host(), web2
	in.serve(t, in.pod, web1Addr, "v1")
	in.serve(t, web2, web2Addr, "v2")
	if in.gateway, err = scene.AddRouter(setting, "ingress-1", "istio-ingress", "istio-ingressgateway-service-account", ingressAddr, labels...); err != nil {
		t.Fatal(err)
	}
	err = world.Within(ctx, time.Minute, func() error {
		_, body, err := in.get(t.Context(), "http://plain.test/ready", nil)
		if err == nil && !strings.HasPrefix(body, "v1 ") {
			err = fmt.Errorf("%q", body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func (in *ingressScene) writeCertificate(t *testing.T, secret, name string, roots []byte) *tls.Certificate {
	t.Helper()
	c, err := in.ca.Renew(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.scene.Config.Write(secret+".yaml", secretOf(secret, c, roots)); err != nil {
		t.Fatal(err)
	}
	return c
}

// serve starts a pod's servers: HTTP, TLS, and one that speaks first and then gives back what it is sent.
func (in *ingressScene) serve(t *testing.T, at *world.Host, addr netip.Addr, version string) {
	t.Helper()
	listen := func(port string) net.Listener {
		l, err := at.Listen(net.JoinHostPort(addr.String(), port))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			if all, err := io.ReadAll(io.LimitReader(r.Body, 64<<20)); err == nil {
				_, _ = w.Write(all)
			}
			return
		}
		if strings.HasSuffix(r.URL.Path, "/certificate") {
			_, _ = io.WriteString(w, r.Header.Get("X-Forwarded-Client-Cert"))
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s %s %s %s\n", version, r.Host, r.URL.Path, r.Header.Get("X-Forwarded-For"), r.Header.Get("X-Forwarded-Proto"))
		if r.URL.Path == "/slow" {
			w.(http.Flusher).Flush()
			<-in.more
			_, _ = io.WriteString(w, "the rest\n")
		}
	})
	c, err := in.ca.Issue("passed.test")
	if err != nil {
		t.Fatal(err)
	}
	plain := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	secure := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{Certificates: []tls.Certificate{*c}, MinVersion: tls.VersionTLS12}}
	bytes := listen("9000")
	var done sync.WaitGroup
	done.Go(func() { _ = plain.Serve(listen("8080")) })
	done.Go(func() { _ = secure.ServeTLS(listen("8443"), "", "") })
	done.Go(func() {
		for {
			c, err := bytes.Accept()
			if err != nil {
				return
			}
			done.Go(func() {
				defer func() { _ = c.Close() }()
				_, _ = io.WriteString(c, "hello\n")
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() {
		_ = errors.Join(plain.Close(), secure.Close(), bytes.Close())
		done.Wait()
	})
}

// transport makes connections of its own to the gateway, whatever the name.
func (in *ingressScene) transport(c *tls.Config) *http.Transport {
	return &http.Transport{
		TLSClientConfig: c, ForceAttemptHTTP2: true,
		DialContext: func(ctx context.Context, network, to string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(to)
			if err != nil {
				return nil, err
			}
			return in.client.DialContext(ctx, network, net.JoinHostPort(ingressAddr.String(), map[string]string{"80": "8080", "443": "8443"}[port]))
		},
	}
}

func (in *ingressScene) get(ctx context.Context, url string, c *tls.Config) (*http.Response, string, error) {
	transport := in.transport(c)
	defer transport.CloseIdleConnections()
	return fetchBy(ctx, transport, url, "")
}

// fetchBy gets a page; host, where it is given, is the request's Host.
func fetchBy(ctx context.Context, transport http.RoundTripper, url, host string) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	req.Host = host
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return resp, string(body), err
}

// trusting is a client that trusts the servers' CA.
func (in *ingressScene) trusting(certificates ...tls.Certificate) *tls.Config {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(in.ca.PEM())
	return &tls.Config{RootCAs: pool, Certificates: certificates, MinVersion: tls.VersionTLS12}
}

func (in *ingressScene) requests(t *testing.T) {
	for url, want := range map[string]struct {
		status   int
		body     string
		location string
	}{
		"http://plain.test/a/../b": {200, "v1 plain.test /b " + in.clientAddr(t) + " http\n", ""},
		"http://unknown.test/":     {404, "", ""},
		"http://other.test/":       {404, "", ""},
		"http://shop.test/x":       {301, "", "https://shop.test/x"},
		"http://plain.test/moved":  {301, "", "http://elsewhere.test/v1"},
	} {
		resp, body, err := in.get(t.Context(), url, nil)
		if err != nil || resp.StatusCode != want.status || want.body != "" && body != want.body || resp.Header.Get("Location") != want.location {
			t.Errorf("%s: %v %q (%v), want %+v", url, resp, body, err, want)
		}
	}
}

// clientAddr is where the client's connections come from.
func (in *ingressScene) clientAddr(t *testing.T) string {
	t.Helper()
	c, err := in.client.DialContext(t.Context(), "tcp", net.JoinHostPort(ingressAddr.String(), "8080"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.LocalAddr().(*net.TCPAddr).IP.String()
}

func (in *ingressScene) shares(t *testing.T) {
	transport := in.transport(nil)
	defer transport.CloseIdleConnections()
	first := 0
	const all = 200
	for range all {
		_, body, err := fetchBy(t.Context(), transport, "http://plain.test/shares", "")
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(body, "v1 ") {
			first++
		}
	}
	if first < all/2 || first == all { // of 200, 150 are expected: fewer than 100 come once in 10^14 times
		t.Errorf("%d of %d went to v1, want about 150", first, all)
	}
}

func (in *ingressScene) endsTLS(t *testing.T) {
	resp, body, err := in.get(t.Context(), "https://shop.test/", in.trusting())
	if err != nil || resp.ProtoMajor != 2 || !strings.HasPrefix(body, "v1 shop.test / ") || !strings.HasSuffix(body, " https\n") {
		t.Errorf("SIMPLE: %v %q (%v)", resp, body, err)
	}
	if _, body, err := in.get(t.Context(), "https://unknown.test/", in.trusting()); err == nil {
		t.Errorf("a name that is nobody's was answered: %q", body)
	}
	was := in.shown(t, "shop.test")
	in.writeCertificate(t, "shop-cert", "shop.test", nil)
	err = world.Within(t.Context(), time.Minute, func() error {
		now, err := in.shows(t.Context(), "shop.test")
		if err == nil && bytes.Equal(now, was) {
			err = errors.New("the certificate is still the old one")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// shown is the certificate for a name.
func (in *ingressScene) shown(t *testing.T, name string) []byte {
	t.Helper()
	certificate, err := in.shows(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// shows is shown where it may fail: in what is tried again.
func (in *ingressScene) shows(ctx context.Context, name string) ([]byte, error) {
	raw, err := in.client.DialContext(ctx, "tcp", net.JoinHostPort(ingressAddr.String(), "8443"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = raw.Close() }()
	config := in.trusting()
	config.ServerName = name
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0].Raw, nil
}

// clerks are two certificates of one client: of those who vouch for clients, and of somebody else.
func (in *ingressScene) clerks(t *testing.T) (right, wrong *tls.Certificate) {
	t.Helper()
	right, err := in.clients.Issue("clerk.test")
	if err != nil {
		t.Fatal(err)
	}
	if wrong, err = in.ca.Issue("clerk.test"); err != nil {
		t.Fatal(err)
	}
	return right, wrong
}

func (in *ingressScene) clientCertificates(t *testing.T) {
	right, wrong := in.clerks(t)
	for what, c := range map[string]struct {
		shows []tls.Certificate
		ok    bool
	}{"none": {nil, false}, "another CA's": {[]tls.Certificate{*wrong}, false}, "the right one": {[]tls.Certificate{*right}, true}} {
		config := in.trusting()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { // whatever the server would take
			if len(c.shows) == 0 {
				return &tls.Certificate{}, nil
			}
			return &c.shows[0], nil
		}
		resp, body, err := in.get(t.Context(), "https://bank.test/", config)
		if (err == nil && resp.StatusCode == 200) != c.ok {
			t.Errorf("%s: %v %q (%v)", what, resp, body, err)
		}
	}
}

// misdirected: over a connection for one name nobody gets at another that asks for a client's certificate.
func (in *ingressScene) misdirected(t *testing.T) {
	transport := in.transport(in.trusting())
	defer transport.CloseIdleConnections()
	for host, want := range map[string]int{"shop.test": 200, "bank.test": 421, "passed.test": 421, "unknown.test": 404, "plain.test": 404} {
		if resp, body, err := fetchBy(t.Context(), transport, "https://shop.test/", host); err != nil || resp.StatusCode != want {
			t.Errorf("%s over the connection of shop.test: %v %q (%v), want %d", host, resp, body, err, want)
		}
	}
}

func (in *ingressScene) passesTLS(t *testing.T) {
	resp, body, err := in.get(t.Context(), "https://passed.test/x", in.trusting())
	if err != nil || resp.StatusCode != 200 || !strings.HasPrefix(body, "v2 passed.test /x ") {
		t.Errorf("PASSTHROUGH: %v %q (%v)", resp, body, err)
	}
}

// greeted is a connection to the pods' bytes, whose server has spoken.
func (in *ingressScene) greeted(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := in.client.DialContext(t.Context(), "tcp", net.JoinHostPort(ingressAddr.String(), "9000"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || line != "hello\n" {
		t.Fatalf("%q (%v)", line, err)
	}
	return c, r
}

// bytes: the server speaks first, and all that is sent comes back, after the client has ended its side too.
func (in *ingressScene) bytes(t *testing.T) {
	c, r := in.greeted(t)
	const size = 4 << 20
	sent := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	wrote := make(chan error, 1)
	go func() {
		_, err := c.Write(sent)
		wrote <- errors.Join(err, c.(*net.TCPConn).CloseWrite())
	}()
	got, err := io.ReadAll(r)
	if err := errors.Join(err, <-wrote); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back (%v)", len(got), size, err)
	}
}

// whole: what a pod answers arrives, by the mutual TLS that it takes, as a WebSocket, too.
func (in *ingressScene) whole(t *testing.T) {
	requestWay{serveWhole(t, in.pod, netip.AddrPortFrom(web1Addr, wholePort)), "plain.test", func(ctx context.Context) (net.Conn, error) {
		return in.client.DialContext(ctx, "tcp", net.JoinHostPort(ingressAddr.String(), "8080"))
	}}.holds(t)
}

// notForRent: no route leads to the gateway itself, the control plane, the proxy's own host, or outside.
// mutualTLS: the gateway shows pods that have a proxy who it is, so that they need not let in anybody else.
func (in *ingressScene) mutualTLS(t *testing.T) {
	const objects = `apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: strict, namespace: shop}
spec: {mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: by-the-gateway, namespace: shop}
spec:
  selector: {matchLabels: {version: v1}}
  rules: [{from: [{source: {principals: [cluster.local/ns/istio-ingress/sa/istio-ingressgateway-service-account]}}]}]
`
	if err := in.scene.Config.Write("strict.yaml", objects); err != nil {
		t.Fatal(err)
	}
	straight := func() error {
		_, err := getFrom(t.Context(), in.beside, netip.AddrPortFrom(web1Addr, 8080), "http://plain.test/")
		return err
	}
	if err := world.Within(t.Context(), time.Minute, func() error {
		if straight() == nil {
			return errors.New("plain text is let in")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if resp, body, err := in.get(t.Context(), "http://plain.test/strict", nil); err != nil || resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, "v1 plain.test /strict ") {
		t.Errorf("by the gateway: %v %q (%v)", resp, body, err)
	}
	in.passesTLS(t)
	in.bytes(t)
	if err := in.scene.Config.Write("strict.yaml", ""); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(t.Context(), time.Minute, straight); err != nil {
		t.Error(err)
	}
}

func (in *ingressScene) notForRent(t *testing.T) {
	for _, path := range []string{"/itself", "/door", "/outside"} {
		resp, body, err := in.get(t.Context(), "http://plain.test"+path, nil)
		if err != nil || resp.StatusCode != 503 {
			t.Errorf("%s: %v %q (%v), want 503", path, resp, body, err)
		}
	}
}

// neighbour: a younger Gateway and VirtualService of another namespace have what nobody else has, and nothing else.
func (in *ingressScene) neighbour(t *testing.T) {
	for name, want := range map[string]int{"theirs.test": 418, "plain.test": 200} {
		if resp, body, err := in.get(t.Context(), "http://"+name+"/", nil); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %v %q (%v), want %d", name, resp, body, err, want)
		}
	}
	if resp, body, err := in.get(t.Context(), "https://bank.test/", in.trusting()); err == nil {
		t.Errorf("bank.test without a certificate: %v %q", resp, body)
	}
}

// ownPorts: what a namespace's Gateway says of the ports that the gateway's proxy and agent have themselves opens nothing, and the pod stays ready.
func (in *ingressScene) ownPorts(t *testing.T) {
	const object = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: doors, namespace: neighbour, creationTimestamp: "2026-02-02T00:00:00Z"}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 15000, name: admin, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 15004, name: debug, protocol: TCP}, hosts: ["*"]}
  - {port: {number: 15020, name: health, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 15021, name: ready, protocol: HTTP}, hosts: ["*"]}
  - {port: {number: 15053, name: dns, protocol: TCP}, hosts: ["*"]}
  - {port: {number: 15054, name: dns-inside, protocol: TCP}, hosts: ["*"]}
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [doors.test]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: doors, namespace: neighbour, creationTimestamp: "2026-02-02T00:00:00Z"}
spec: {hosts: ["*"], gateways: [doors], http: [{directResponse: {status: 418}}], tcp: [{route: [{destination: {host: web.shop.svc.cluster.local}}]}]}
`
	if err := in.scene.Config.Write("doors.yaml", object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.scene.Config.Remove("doors.yaml") })
	if err := world.Within(t.Context(), time.Minute, func() error {
		resp, _, err := in.get(t.Context(), "http://doors.test/", nil)
		if err == nil && resp.StatusCode != 418 {
			err = errors.New(resp.Status)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	stats, err := in.gateway.Admin(t.Context(), "/stats?filter=listener_manager.lds.update_rejected|listener_manager.listener_create_failure")
	if text := string(stats); err != nil || strings.Count(text, ": 0") != 2 {
		t.Errorf("listeners that the gateway's Envoy refused: %q (%v)", text, err)
	}
	if body, err := getFrom(t.Context(), in.client, netip.AddrPortFrom(ingressAddr, 15021), "http://"+ingressAddr.String()+":15021/healthz/ready"); err != nil {
		t.Errorf("the gateway's readiness: %q (%v)", body, err)
	}
}

// live: a name comes and goes while another one's response and connection go on.
func (in *ingressScene) live(t *testing.T) {
	raw, bytes := in.greeted(t)
	transport := in.transport(in.trusting())
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://shop.test/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	slow := bufio.NewReader(resp.Body)
	if _, err := slow.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	becomes := func(status int) {
		t.Helper()
		err := world.Within(t.Context(), time.Minute, func() error {
			resp, body, err := in.get(t.Context(), "http://live.test/", nil)
			if err == nil && resp.StatusCode != status {
				err = fmt.Errorf("live.test: %s %q, want %d", resp.Status, body, status)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	becomes(404)
	if err := in.scene.Config.Write("live.yaml", liveName); err != nil {
		t.Fatal(err)
	}
	becomes(200)
	if err := in.scene.Config.Remove("live.yaml"); err != nil {
		t.Fatal(err)
	}
	becomes(404)
	close(in.more)
	if rest, err := io.ReadAll(slow); err != nil || string(rest) != "the rest\n" {
		t.Errorf("the response that went on: %q (%v)", rest, err)
	}
	if err := raw.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(raw, "still there\n"); err != nil {
		t.Error(err)
	}
	if line, err := bytes.ReadString('\n'); err != nil || line != "still there\n" {
		t.Errorf("the connection that went on: %q (%v)", line, err)
	}
}

// log: what came in is in the log, with who asked and what led it on.
func (in *ingressScene) log(t *testing.T) {
	client := in.clientAddr(t)
	if _, _, err := in.get(t.Context(), "http://plain.test/in-the-log", nil); err != nil {
		t.Fatal(err)
	}
	err := world.Within(t.Context(), time.Minute, func() error {
		records, err := in.scene.AuditRecords(t.Context(), "--host", "plain.test")
		if err != nil {
			return err
		}
		for _, r := range records {
			if r.URLPath != "/in-the-log" {
				continue
			}
			if r.Direction != record.Inbound || r.Verdict != record.Allowed || !strings.HasPrefix(r.Source, client+":") || r.DecidedBy.Kind != "VirtualService" || r.DecidedBy.Name != "web" {
				return fmt.Errorf("the record is %+v", r)
			}
			return nil
		}
		return fmt.Errorf("not among %d records", len(records))
	})
	if err != nil {
		t.Error(err)
	}
}
