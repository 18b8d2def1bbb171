package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/outside"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// The ports of the meshed pod's servers.
const (
	meshedHTTP   = 8080 // and HTTP/2 without TLS
	meshedGRPC   = 8081
	meshedTLS    = 8443
	meshedGreets = 9000 // the server speaks first
	meshedEcho   = 9001 // answers when the client has ended
	meshedLive   = 9002 // answers at once
	meshedOther  = 7070 // does so, too, and no Service names it
	meshedBulk   = 3 << 20
)

const meshedHost = "meshed.default.svc.cluster.local"

var (
	meshedAddr    = netip.MustParseAddr("10.77.0.60")
	meshedService = netip.MustParseAddr("10.96.0.60")
	bystanderAddr = netip.MustParseAddr("10.77.0.61")
)

const meshedObjects = `apiVersion: v1
kind: Service
metadata: {name: meshed, namespace: default}
spec:
  clusterIP: 10.96.0.60
  selector: {app: meshed}
  ports:
  - {name: http, port: 8080, targetPort: 8080}
  - {name: grpc, port: 8081, targetPort: 8081}
  - {name: https, port: 8443, targetPort: 8443}
  - {name: tcp-greets, port: 9000, targetPort: 9000}
  - {name: tcp-echo, port: 9001, targetPort: 9001}
  - {name: tcp-live, port: 9002, targetPort: 9002}
---
apiVersion: v1
kind: Service
metadata: {name: meshed-pods, namespace: default}
spec: {clusterIP: None, selector: {app: meshed}, ports: [{name: http, port: 8080, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: meshed-1, namespace: default, labels: {app: meshed, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: meshed, containers: []}
status: {podIP: 10.77.0.60, phase: Running}
`

// meshed is a scene with a second pod that has a proxy, and a bystander without one.
type meshed struct {
	scene     *story.Scene
	pod       *story.Pod
	bystander *world.Host
}

// told writes a file of objects, and waits until the filters that the pod's proxy has of its own hold all of some texts.
func (m *meshed) told(t *testing.T, file, objects string, texts ...string) {
	t.Helper()
	if err := m.scene.Config.Write(file, objects); err != nil {
		t.Fatal(err)
	}
	err := world.Within(t.Context(), time.Minute, func() error {
		dump, err := m.pod.Admin(t.Context(), "/config_dump?resource=ecds_filters")
		for _, text := range texts {
			if err == nil && !strings.Contains(string(dump), text) {
				err = fmt.Errorf("no %s", text)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMutualTLS: pods with proxies speak mutual TLS to each other without anybody saying so, PeerAuthentications are kept, and every byte
// arrives.
func TestMutualTLS(t *testing.T) {
	needRoot(t)
	t.Parallel()
	m := newMeshed(t)
	inOrder(t, []part{
		{"permissive", m.permissive},
		{"on the wire", m.onTheWire},
		{"protocols", m.protocols},
		{"bytes", m.bytes},
		{"strict", m.strict},
		{"one port otherwise", m.port},
		{"live", m.live},
		{"disabled", m.disabled},
	})
}

func newMeshed(t *testing.T) *meshed {
	t.Helper()
	ctx, scene := setScene(t, story.InNamespaces)
	pod, bystander := withNeighbours(ctx, t, scene, meshedObjects, "meshed", meshedAddr, "bystander", bystanderAddr)
	m := &meshed{scene: scene, pod: pod, bystander: bystander}
	m.serve(t)
	for _, port := range []int{meshedHTTP, meshedGRPC, meshedTLS, meshedGreets, meshedEcho, meshedLive} {
		m.until(t, scene.App, "dynamic_active_clusters", fmt.Sprintf("outbound_.%d_._.%s", port, meshedHost))
	}
	m.until(t, pod, "dynamic_listeners", "0.0.0.0_9002-mtls")
	for what, answers := range map[string]func() error{ // a cluster and a listener are there before what leads to them
		"requests":                  func() error { return m.named(scene.World.App, meshedService, meshedHTTP, meshedHost) },
		"requests of HTTP/2's port": func() error { return m.named(scene.World.App, meshedService, meshedGRPC, meshedHost) },
		"requests to a pod": func() error {
			return m.named(scene.World.App, meshedAddr, meshedHTTP, "meshed-pods.default.svc.cluster.local")
		},
		"bytes": func() error {
			line, err := peerGreeting(t.Context(), scene.World.App, netip.AddrPortFrom(meshedService, meshedGreets))
			if err == nil && line != "meshed greets\n" {
				err = fmt.Errorf("%q", line)
			}
			return err
		},
		"TLS": func() error {
			return greetsByTLS(t.Context(), scene.World.App, netip.AddrPortFrom(meshedService, meshedTLS), meshedHost)
		},
	} {
		if err := world.Within(t.Context(), time.Minute, answers); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	return m
}

// named says whether a host's requests are answered, as those of the app.
func (m *meshed) named(from *world.Host, at netip.Addr, port uint16, host string) error {
	ctx, cancel := context.WithTimeout(context.Background(), attackTimeout)
	defer cancel()
	body, err := getFrom(ctx, from, netip.AddrPortFrom(at, port), fmt.Sprintf("http://%s:%d/there", host, port))
	if err == nil && !strings.Contains(body, "sa/app]") {
		err = fmt.Errorf("%q", body)
	}
	return err
}

// until waits for a word in a part of a proxy's configuration.
func (m *meshed) until(t *testing.T, pod *story.Pod, part, word string) {
	t.Helper()
	err := world.Within(t.Context(), time.Minute, func() error {
		if dump, err := pod.Admin(t.Context(), "/config_dump?resource="+part); err != nil || !strings.Contains(string(dump), word) {
			return fmt.Errorf("no %s in %s (%w)", word, part, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (m *meshed) serve(t *testing.T) {
	t.Helper()
	ca, err := outside.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := ca.Issue(meshedHost)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	listen := func(port int, serve func(net.Listener)) {
		l, err := m.pod.Host().Listen(netip.AddrPortFrom(meshedAddr, uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		running.Go(func() { serve(l) })
	}
	each := func(handle func(net.Conn)) func(net.Listener) {
		return func(l net.Listener) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				running.Go(func() {
					defer func() { _ = c.Close() }()
					_ = c.SetDeadline(time.Now().Add(attackTimeout))
					handle(c)
				})
			}
		}
	}
	web := func(l net.Listener) {
		server := &http.Server{Handler: http.HandlerFunc(meshedPage), ReadHeaderTimeout: attackTimeout, Protocols: new(http.Protocols)}
		server.Protocols.SetHTTP1(true)
		server.Protocols.SetUnencryptedHTTP2(true)
		t.Cleanup(func() { _ = server.Close() })
		_ = server.Serve(l)
	}
	listen(meshedHTTP, web)
	listen(meshedGRPC, web)
	listen(meshedTLS, each(func(c net.Conn) {
		_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{*certificate}, MinVersion: tls.VersionTLS12}).Handshake()
	}))
	listen(meshedGreets, each(func(c net.Conn) { _, _ = io.WriteString(c, "meshed greets\n") }))
	listen(meshedEcho, each(func(c net.Conn) {
		all, err := io.ReadAll(c)
		if err == nil {
			_, _ = c.Write(all)
		}
	}))
	for _, port := range []int{meshedLive, meshedOther} {
		listen(port, each(func(c net.Conn) {
			_ = c.SetDeadline(time.Now().Add(5 * attackTimeout)) // one is kept while much changes
			_, _ = io.Copy(c, c)
		}))
	}
}

// meshedPage says what the app sees of a request, and speaks WebSocket's beginning.
func meshedPage(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Upgrade") != "" {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("heard " + line)
		_ = rw.Flush()
		return
	}
	body, _ := io.ReadAll(r.Body)
	_, _ = fmt.Fprintf(w, "meshed %s token=[%s] group=[%s] payload=[%s] proto=%d peer=[%s] %s", r.URL.Path,
		r.Header.Get("Authorization"), r.Header.Get("X-Group"), r.Header.Get("X-Payload"), r.ProtoMajor, r.Header.Get("X-Forwarded-Client-Cert"), body)
}

// ask gets a page of the pod by its Service from the app, or at its own address from the bystander.
func (m *meshed) ask(ctx context.Context, from *world.Host, path string, header ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	to := netip.AddrPortFrom(meshedAddr, meshedHTTP)
	if from == m.scene.World.App {
		to = netip.AddrPortFrom(meshedService, meshedHTTP)
	}
	return getFrom(ctx, from, to, "http://"+meshedHost+":8080"+path, header...)
}

func getFrom(ctx context.Context, from *world.Host, to netip.AddrPort, url string, header ...string) (string, error) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return from.DialContext(ctx, network, to.String())
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return string(body), err
}

// permissive: who has a proxy is known to the app, who has none is not, whatever he says.
func (m *meshed) permissive(t *testing.T) {
	for _, url := range []string{"http://" + meshedHost + ":8080/named", "http://meshed-pods.default.svc.cluster.local:8080/headless"} {
		to := netip.AddrPortFrom(meshedService, meshedHTTP)
		if strings.Contains(url, "headless") {
			to = netip.AddrPortFrom(meshedAddr, meshedHTTP)
		}
		body, err := getFrom(t.Context(), m.scene.World.App, to, url, "X-Forwarded-Client-Cert", "URI=spiffe://cluster.local/ns/default/sa/forged")
		if err != nil || !strings.Contains(body, "URI=spiffe://cluster.local/ns/default/sa/app]") {
			t.Errorf("%s from the app: %q (%v), want its identity", url, body, err)
		}
	}
	body, err := m.ask(t.Context(), m.bystander, "/plain", "X-Forwarded-Client-Cert", "URI=spiffe://cluster.local/ns/default/sa/app")
	if err != nil || !strings.Contains(body, "peer=[]") {
		t.Errorf("the bystander: %q (%v), want to be nobody", body, err)
	}
	if err := greetsByTLS(t.Context(), m.bystander, netip.AddrPortFrom(meshedAddr, meshedTLS), meshedHost); err != nil {
		t.Errorf("TLS of the app's own: %v", err)
	}
}

// onTheWire: what is said between the two pods cannot be read between them.
func (m *meshed) onTheWire(t *testing.T) {
	for _, c := range []struct {
		from *world.Host
		to   netip.AddrPort
		read bool
	}{
		{m.scene.World.App, netip.AddrPortFrom(meshedService, meshedGreets), false},
		{m.bystander, netip.AddrPortFrom(meshedAddr, meshedGreets), true},
	} {
		capture, err := m.pod.Host().Capture("eth0")
		if err != nil {
			t.Fatal(err)
		}
		line, greeted := peerGreeting(t.Context(), c.from, c.to)
		wire, err := capture.Stop()
		if greeted != nil || line != "meshed greets\n" || err != nil {
			t.Fatalf("from %s: %q (%v, %v)", c.from.Name, line, greeted, err)
		}
		if seen := wire.Contains("meshed greets"); seen != c.read {
			t.Errorf("from %s: seen on the wire: %v", c.from.Name, seen)
		}
	}
}

// protocols: what apps speak arrives as it was.
func (m *meshed) protocols(t *testing.T) {
	app := m.scene.World.App
	grpc := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return app.DialContext(ctx, network, netip.AddrPortFrom(meshedService, meshedGRPC).String())
	}}
	grpc.Protocols.SetUnencryptedHTTP2(true)
	defer grpc.CloseIdleConnections()
	for _, host := range []string{meshedHost + ":8081"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+host+"/svc/Call", strings.NewReader("asked"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := grpc.RoundTrip(req)
		if err != nil {
			t.Fatalf("HTTP/2: %v", err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || !strings.Contains(string(body), "proto=2 peer=[") || !strings.HasSuffix(string(body), "sa/app] asked") {
			t.Errorf("HTTP/2: %s: %q (%v)", resp.Status, body, err)
		}
	}
	for _, c := range []struct{ what, say, want string }{
		{"HTTP/1.0", "GET /old HTTP/1.0\r\nHost: " + meshedHost + "\r\n\r\n", "meshed /old"},
		{"WebSocket", "GET /ws HTTP/1.1\r\nHost: " + meshedHost + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\nhello\n", "heard hello"},
	} {
		for from, to := range map[*world.Host]netip.Addr{app: meshedService, m.bystander: meshedAddr} {
			got, err := hears(t.Context(), from, netip.AddrPortFrom(to, meshedHTTP), c.say, c.want)
			if err != nil {
				t.Errorf("%s from %s: %q (%v)", c.what, from.Name, got, err)
			}
		}
	}
}

// hears says something and reads until a word comes.
func hears(ctx context.Context, from *world.Host, to netip.AddrPort, say, want string) (string, error) {
	c, err := from.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, say); err != nil {
		return "", err
	}
	var got bytes.Buffer
	for r := bufio.NewReader(c); !strings.Contains(got.String(), want); {
		b, err := r.ReadByte()
		if err != nil {
			return got.String(), err
		}
		got.WriteByte(b)
	}
	return got.String(), nil
}

// bytes: who ends first reads on, and all of it arrives.
func (m *meshed) bytes(t *testing.T) {
	// What an inspector could take for a request's method that does not end; see bootstrap's runtime.
	bulk := bytes.Repeat([]byte("0123456789abcdef"), meshedBulk/16)
	for from, to := range map[*world.Host]netip.Addr{m.scene.World.App: meshedService, m.bystander: meshedAddr} {
		c, err := from.DialContext(t.Context(), "tcp", netip.AddrPortFrom(to, meshedEcho).String())
		if err != nil {
			t.Fatal(err)
		}
		got, err := func() ([]byte, error) {
			defer func() { _ = c.Close() }()
			if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
				return nil, err
			}
			if _, err := c.Write(bulk); err != nil {
				return nil, err
			}
			if err := c.(*net.TCPConn).CloseWrite(); err != nil {
				return nil, err
			}
			return io.ReadAll(c)
		}()
		if err != nil || !bytes.Equal(got, bulk) {
			t.Errorf("from %s: %d of %d bytes came back (%v)", from.Name, len(got), len(bulk), err)
		}
	}
}

// authenticate writes PeerAuthentications, and waits until the pod's proxy closes, or does not close, its HTTP port to plain text.
func (m *meshed) authenticate(t *testing.T, closed bool, spec ...string) {
	t.Helper()
	var all strings.Builder
	for i, s := range spec {
		fmt.Fprintf(&all, "---\napiVersion: security.istio.io/v1\nkind: PeerAuthentication\nmetadata: {name: p%d, namespace: default}\nspec: %s\n", i, s)
	}
	if err := m.scene.Config.Write("peers.yaml", all.String()); err != nil {
		t.Fatal(err)
	}
	err := world.Within(t.Context(), time.Minute, func() error {
		if _, err := m.ask(t.Context(), m.bystander, "/turns"); (err != nil) != closed {
			return fmt.Errorf("plain text: %w", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// strict: only the mesh is let in, by a certificate of its own.
func (m *meshed) strict(t *testing.T) {
	m.authenticate(t, true, "{mtls: {mode: STRICT}}")
	if body, err := m.ask(t.Context(), m.scene.World.App, "/strict"); err != nil || !strings.Contains(body, "sa/app]") {
		t.Errorf("the app: %q (%v)", body, err)
	}
	if line, err := peerGreeting(t.Context(), m.scene.World.App, netip.AddrPortFrom(meshedService, meshedGreets)); err != nil || line != "meshed greets\n" {
		t.Errorf("the app, TCP: %q (%v)", line, err)
	}
	m.shut(t, "the bystander, TCP", func() error { // each port has a listener of its own
		_, err := peerGreeting(t.Context(), m.bystander, netip.AddrPortFrom(meshedAddr, meshedGreets))
		return err
	})
	m.shut(t, "the bystander, TLS of the app's own", func() error {
		return greetsByTLS(t.Context(), m.bystander, netip.AddrPortFrom(meshedAddr, meshedTLS), meshedHost)
	})
	if body, err := getFrom(t.Context(), m.bystander, netip.AddrPortFrom(meshedAddr, 15021), "http://"+meshedAddr.String()+":15021/healthz/ready"); err != nil {
		t.Errorf("the probe of the proxy: %q (%v)", body, err)
	}
	for what, certificate := range map[string]func() ([]tls.Certificate, error){
		"none":      func() ([]tls.Certificate, error) { return nil, nil },
		"a foreign": foreignCertificate,
	} {
		shown, err := certificate()
		if err != nil {
			t.Fatal(err)
		}
		for _, port := range []uint16{meshedHTTP, meshedGreets, meshedOther} {
			m.shut(t, fmt.Sprintf("with %s certificate at port %d", what, port), func() error {
				_, err := m.mutual(t.Context(), netip.AddrPortFrom(meshedAddr, port), shown)
				return err
			})
		}
	}
}

// shut waits until a try fails.
func (m *meshed) shut(t *testing.T, what string, try func() error) {
	t.Helper()
	turns(t, func() error {
		if try() == nil {
			return fmt.Errorf("%s: let in", what)
		}
		return nil
	})
}

func foreignCertificate() ([]tls.Certificate, error) {
	ca, err := outside.NewCA()
	if err != nil {
		return nil, err
	}
	c, err := ca.Issue("spiffe.test")
	if err != nil {
		return nil, err
	}
	return []tls.Certificate{*c}, nil
}

// mutual speaks the mesh's TLS as the bystander, and reads what comes after a request.
func (m *meshed) mutual(ctx context.Context, to netip.AddrPort, shown []tls.Certificate) (string, error) {
	raw, err := m.bystander.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return "", err
	}
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio"}, Certificates: shown, MinVersion: tls.VersionTLS12})
	defer func() { _ = c.Close() }()
	if err := errors.Join(c.SetDeadline(time.Now().Add(attackTimeout)), c.HandshakeContext(ctx)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+meshedHost+"\r\n\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(c).ReadString('\n')
}

// port: a workload's policy says it of one of its ports.
func (m *meshed) port(t *testing.T) {
	m.authenticate(t, false, "{mtls: {mode: STRICT}}", `{selector: {matchLabels: {app: meshed}}, portLevelMtls: {"8080": {mode: PERMISSIVE}}}`)
	m.shut(t, "another port", func() error {
		_, err := peerGreeting(t.Context(), m.bystander, netip.AddrPortFrom(meshedAddr, meshedGreets))
		return err
	})
}

// keeps opens a connection of the mesh's, which goes on as long as its result is no error.
func (m *meshed) keeps(t *testing.T) (goesOn func() error) {
	t.Helper()
	c, err := m.scene.World.App.DialContext(t.Context(), "tcp", netip.AddrPortFrom(meshedService, meshedLive).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func() error {
		_ = c.SetDeadline(time.Now().Add(attackTimeout))
		if _, err := io.WriteString(c, "still\n"); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, len("still\n")))
		return err
	}
}

// drained waits until nothing that a change has replaced is still there.
func (m *meshed) drained(t *testing.T) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, func() error {
		stats, err := m.pod.Admin(t.Context(), "/stats?filter=^listener_manager.total_(listeners|filter_chains)_draining$")
		if err == nil && strings.Count(string(stats), ": 0\n") != 2 {
			err = fmt.Errorf("%s", stats)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// live: while the mode changes, no request of the mesh is lost, and no connection that it has.
func (m *meshed) live(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var asked, lost atomic.Int64
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := m.ask(t.Context(), m.scene.World.App, "/live"); err != nil {
					lost.Add(1)
					t.Errorf("while the mode changes: %v", err)
					return
				}
				asked.Add(1)
			}
		})
	}
	m.authenticate(t, false, "{mtls: {mode: PERMISSIVE}}")
	goesOn := m.keeps(t)
	for range 2 {
		m.authenticate(t, true, "{mtls: {mode: STRICT}}")
		m.authenticate(t, false, "{mtls: {mode: PERMISSIVE}}")
	}
	m.drained(t)
	if err := goesOn(); err != nil {
		t.Errorf("a connection of the mesh's: %v", err)
	}
	stop()
	running.Wait()
	if asked.Load() < 20 {
		t.Errorf("%d requests were made, which says little", asked.Load())
	}
}

// disabled: nothing is encrypted, and TLS of whatever kind is the app's.
func (m *meshed) disabled(t *testing.T) {
	m.authenticate(t, false, "{mtls: {mode: DISABLE}}")
	err := world.Within(t.Context(), time.Minute, func() error {
		body, err := m.ask(t.Context(), m.scene.World.App, "/disabled")
		if err != nil || !strings.Contains(body, "peer=[]") {
			return fmt.Errorf("%q: %w", body, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	turns(t, func() error { // the client's side was told by itself
		raw, err := m.bystander.DialContext(t.Context(), "tcp", netip.AddrPortFrom(meshedAddr, meshedTLS).String())
		if err != nil {
			return err
		}
		c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"istio"}, MinVersion: tls.VersionTLS12})
		defer func() { _ = c.Close() }()
		if err := errors.Join(c.SetDeadline(time.Now().Add(attackTimeout)), c.HandshakeContext(t.Context())); err != nil {
			return fmt.Errorf("TLS for the app: %w", err)
		}
		return c.ConnectionState().PeerCertificates[0].VerifyHostname(meshedHost)
	})
}
