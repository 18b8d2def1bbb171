package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestNotForRent holds that no object makes a gateway present its own certificate, read its files or connect into its
// own network, and that credentials which rules name are shown, exchanged, and kept from everybody else.
func TestNotForRent(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	r := &rent{ctx: ctx, scene: s}
	r.serve(t)
	inOrder(t, []part{
		{"a secret that is missing", r.missing},
		{"a secret that comes", r.comes},
		{"a secret that is exchanged", r.exchanged},
		{"a broken secret changes nothing", r.broken},
		{"by a sidecar", r.bySidecar},
		{"the gateway's own files", r.ownFiles},
		{"a certificate of the mesh", r.meshCertificate},
		{"a rule that is refused", r.refusedRule},
		{"addresses that are not for strangers", r.insideAddresses},
		{"keys stay where they belong", r.keysStay},
		{"without the controller", r.alone},
	})
}

type rent struct {
	ctx   context.Context
	scene *story.Scene

	mu   sync.Mutex
	came map[string]string // path → the common name of the client's certificate, "" for none
	seen int               // connections
}

const (
	rentPort     = 9443 // of the server that wants clients' certificates
	rentHost     = "partner.test"
	rentStraight = "straight.test" // leaves straight from the pod
)

var rentHosts = []string{rentHost, rentStraight, "files.test", "mesh.test"}

// serve is a server outside that wants a certificate and takes any.
func (r *rent) serve(t *testing.T) {
	t.Helper()
	s := r.scene
	r.came = map[string]string{}
	addr := world.OutsideAddrs[0]
	l, err := s.World.Outside.Listen(netip.AddrPortFrom(addr, rentPort).String())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			r.mu.Lock()
			defer r.mu.Unlock()
			name := ""
			if certs := req.TLS.PeerCertificates; len(certs) > 0 {
				if name = certs[0].Subject.CommonName; name == "" {
					name = fmt.Sprint(certs[0].URIs)
				}
			}
			r.came[req.URL.Path] = name
			w.Header().Set("Connection", "close") // each request shows which certificate is used now
		}),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				r.mu.Lock()
				defer r.mu.Unlock()
				r.seen++
			}
		},
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return s.Outside.CA.Issue(h.ServerName)
	}}
	go func() { _ = server.Serve(tls.NewListener(l, config)) }()
	t.Cleanup(func() { _ = server.Close() })
	objects := ""
	for _, host := range rentHosts {
		s.Outside.Set(host, time.Minute, addr)
		annotations := ""
		if host == rentStraight {
			annotations = ", annotations: {egress.sallyport.io/gateway: direct}"
		}
		objects += fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %q, namespace: default%s}
spec:
  hosts: [%q]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: %d, name: http, protocol: HTTP}]
`, host, annotations, host, rentPort)
	}
	r.write(t, "rent.yaml", objects)
	r.write(t, "rule.yaml", ruleFor(rentHost, "mode: MUTUAL, credentialName: partner"))
}

func ruleFor(host, settings string) string {
	return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: %q, namespace: default}\nspec: {host: %q, trafficPolicy: {tls: {%s}}}\n", host, host, settings)
}

func (r *rent) write(t *testing.T, file, text string) {
	t.Helper()
	if err := r.scene.Config.Write(file, text); err != nil {
		t.Fatal(err)
	}
}

// secret writes the Secret with a certificate of that name, and gives the key's text.
func (r *rent) secret(t *testing.T, name string) string {
	t.Helper()
	pair, err := r.scene.Outside.CA.Issue(name)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	text := "apiVersion: v1\nkind: Secret\nmetadata: {name: partner, namespace: default}\ntype: kubernetes.io/tls\ndata:\n"
	for field, value := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), "tls.key": key, "ca.crt": r.scene.Outside.CA.PEM(),
	} {
		text += "  " + field + ": " + base64.StdEncoding.EncodeToString(value) + "\n"
	}
	r.write(t, "secret.yaml", text)
	return string(key)
}

// ask sends a request from the app's pod, and gives the answer's status and text.
func (r *rent) ask(host string, port uint16, path string) (int, string, error) {
	return appOf(r.scene).get(r.ctx, 20*time.Second, host, port, path, nil)
}

// until asks, each time by another path, until the answer is as wanted.
func (r *rent) until(t *testing.T, what, host string, port uint16, good func(status int, body, shown string) bool) {
	t.Helper()
	n := 0
	err := world.Within(r.ctx, time.Minute, func() error {
		n++
		path := fmt.Sprintf("/%s/%d", strings.ReplaceAll(what, " ", "-"), n)
		status, body, err := r.ask(host, port, path)
		if err != nil {
			return err
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !good(status, body, r.came[path]) {
			return fmt.Errorf("%s: %d %q, shown %q", what, status, body, r.came[path])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// denied waits for the record that names the object.
func (r *rent) denied(t *testing.T, host, kind, reason string) {
	t.Helper()
	err := world.Within(r.ctx, time.Minute, func() error {
		all, err := r.scene.AuditRecords(r.ctx)
		if err != nil {
			return err
		}
		for _, rec := range all {
			if rec.Host == host && rec.Verdict == record.Denied && rec.DecidedBy.Kind == kind && strings.Contains(rec.Reason, reason) {
				return nil
			}
		}
		return fmt.Errorf("no record says that %s was denied by a %s for %q", host, kind, reason)
	})
	if err != nil {
		t.Error(err)
	}
	out, _ := r.scene.Call(r.ctx, "explain", "--config-dir", r.scene.Config.Path, "--mesh-config", r.scene.MeshConfig(),
		"--from", "default/app-1?app=app", "-o", "json", fmt.Sprintf("http://%s:%d", host, rentPort))
	if !bytes.Contains(out, []byte(`"deny"`)) || !bytes.Contains(out, []byte(reason)) {
		t.Errorf("explain %s: %s", host, out)
	}
}

func (r *rent) missing(t *testing.T) {
	r.until(t, "missing", rentHost, rentPort, func(status int, body, _ string) bool {
		return status == 503 && strings.Contains(body, "there is no Secret default/partner") && strings.Contains(body, "DestinationRule default/"+rentHost)
	})
	r.denied(t, rentHost, "DestinationRule", "there is no Secret default/partner")
}

func (r *rent) comes(t *testing.T) {
	r.secret(t, "first-client")
	r.until(t, "comes", rentHost, rentPort, func(status int, _, shown string) bool { return status == 200 && shown == "first-client" })
}

func (r *rent) exchanged(t *testing.T) {
	r.secret(t, "second-client")
	r.until(t, "exchanged", rentHost, rentPort, func(status int, _, shown string) bool { return status == 200 && shown == "second-client" })
}

func (r *rent) broken(t *testing.T) {
	r.write(t, "secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: partner, namespace: default}\nstringData: {tls.crt: nonsense, tls.key: nonsense}\n")
	r.write(t, "marker.yaml", ruleFor("files.test", "mode: ISTIO_MUTUAL")) // when this is seen, the other was read
	r.until(t, "marker", "files.test", rentPort, func(status int, body, _ string) bool { return status == 503 && strings.Contains(body, "ISTIO_MUTUAL") })
	r.until(t, "broken", rentHost, rentPort, func(status int, _, shown string) bool { return status == 200 && shown == "second-client" })
	if err := r.scene.Config.Remove("marker.yaml"); err != nil {
		t.Fatal(err)
	}
	r.secret(t, "second-client")
}

func (r *rent) bySidecar(t *testing.T) {
	r.write(t, "straight.yaml", ruleFor(rentStraight, "mode: MUTUAL, credentialName: partner"))
	r.until(t, "straight", rentStraight, rentPort, func(status int, _, shown string) bool { return status == 200 && shown == "second-client" })
}

// ownFiles names the gateway's own certificate, which is there, in its own file system.
func (r *rent) ownFiles(t *testing.T) {
	folder := filepath.Join(r.scene.Gateway.RunDir(), "state", "identity")
	if _, err := os.Stat(filepath.Join(folder, "key.pem")); err != nil {
		t.Fatal(err)
	}
	r.write(t, "files.yaml", ruleFor("files.test", fmt.Sprintf("mode: MUTUAL, clientCertificate: %[1]s/cert-chain.pem, privateKey: %[1]s/key.pem, caCertificates: %[1]s/root-cert.pem", folder)))
	r.until(t, "files", "files.test", rentPort, func(status int, body, _ string) bool {
		return status == 503 && strings.Contains(body, "names the file")
	})
	before := r.connections()
	if _, _, err := r.ask("files.test", rentPort, "/again"); err != nil {
		t.Error(err)
	}
	if n := r.connections() - before; n > 0 {
		t.Errorf("%d connections came to the server", n)
	}
	r.denied(t, "files.test", "DestinationRule", "names the file")
}

func (r *rent) meshCertificate(t *testing.T) {
	r.write(t, "mesh-rule.yaml", ruleFor("mesh.test", "mode: ISTIO_MUTUAL"))
	r.until(t, "mesh", "mesh.test", rentPort, func(status int, body, _ string) bool { return status == 503 && strings.Contains(body, "ISTIO_MUTUAL") })
	before := r.connections()
	if _, _, err := r.ask("mesh.test", rentPort, "/again"); err != nil {
		t.Error(err)
	}
	if n := r.connections() - before; n > 0 {
		t.Errorf("%d connections came to the server", n)
	}
	r.denied(t, "mesh.test", "DestinationRule", "ISTIO_MUTUAL")
}

// refusedRule asks for TLS in a way that is refused: without the rule, its host would be spoken to in plain text.
func (r *rent) refusedRule(t *testing.T) {
	if err := r.scene.Config.Remove("files.yaml"); err != nil {
		t.Fatal(err)
	}
	r.write(t, "refused.yaml", ruleFor("files.test", "mode: MUTUAL, credentialName: partner, insecureSkipVerify: true, subjectAltNames: [a.test]"))
	r.until(t, "refused", "files.test", rentPort, func(status int, body, _ string) bool {
		return status == 503 && strings.Contains(body, "is refused") && strings.Contains(body, "subjectAltNames")
	})
	r.denied(t, "files.test", "DestinationRule", "is refused")
}

func (r *rent) connections() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen
}

// insideAddresses writes down where the gateway's administration, the gateway, the control plane and a neighbour are.
func (r *rent) insideAddresses(t *testing.T) {
	objects := ""
	for i, address := range []string{"127.0.0.1", "::ffff:127.0.0.1", world.GatewayAddr.String(), world.ControlAddr.String(), world.AppAddr.String(), "169.254.169.254", "64:ff9b::a4d:a"} {
		for _, resolution := range []string{"STATIC", "DNS"} {
			objects += fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: "in-%d-%s", namespace: default}
spec:
  hosts: ["in-%d-%s.test"]
  location: MESH_EXTERNAL
  resolution: %s
  endpoints: [{address: %q, ports: {http: 15000}}]
  ports: [{number: %d, name: http, protocol: HTTP}]
`, i, strings.ToLower(resolution), i, strings.ToLower(resolution), resolution, address, rentPort)
		}
	}
	r.write(t, "in.yaml", objects)
	for i := range 7 {
		for _, resolution := range []string{"static", "dns"} {
			host := fmt.Sprintf("in-%d-%s.test", i, resolution)
			r.until(t, host, host, rentPort, func(status int, body, _ string) bool { return status == 503 && strings.Contains(body, "endpoints: ") })
		}
	}
	r.denied(t, "in-2-static.test", "ServiceEntry", "gateway of the mesh")
	r.denied(t, "in-4-dns.test", "ServiceEntry", "is not a public address")
}

// keysStay looks for the key in what people print: dumps, logs, and files that others may read.
func (r *rent) keysStay(t *testing.T) {
	key := r.secret(t, "second-client")
	secret := strings.Split(key, "\n")[1] // the first line of its body
	for _, p := range []*story.Pod{r.scene.Gateway, r.scene.App} {
		dump, err := p.Admin(r.ctx, "/config_dump?include_eds")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(dump, []byte(secret)) || bytes.Contains(dump, []byte(base64.StdEncoding.EncodeToString([]byte(key))[:64])) {
			t.Error("Envoy's dump has the key")
		}
		found := false
		err = filepath.WalkDir(p.RunDir(), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // sockets, and files that went meanwhile
			}
			content, err := os.ReadFile(path)
			if err != nil || !bytes.Contains(content, []byte(secret)) {
				return nil
			}
			found = true
			if info, err := d.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has the key, and mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil || !found {
			t.Errorf("the agent keeps no key, or it cannot be looked for: %v", err)
		}
	}
	proxies, err := r.scene.Call(r.ctx, "proxies")
	if err != nil {
		t.Fatalf("%s: %v", proxies, err)
	}
	for line := range strings.Lines(string(proxies)) {
		id, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if !strings.Contains(id, "~") {
			continue
		}
		config, err := r.scene.Call(r.ctx, "config", id)
		if err != nil {
			t.Errorf("config %s: %v", id, err)
		}
		if bytes.Contains(config, []byte(secret)) || bytes.Contains(config, []byte("PRIVATE KEY")) {
			t.Errorf("the control plane shows the key of %s", id)
		}
	}
	err = filepath.WalkDir(r.scene.Run.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".log") {
			return nil
		}
		if content, err := os.ReadFile(path); err == nil && !strings.Contains(path, "state") && bytes.Contains(content, []byte(secret)) {
			t.Errorf("%s has the key", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func (r *rent) alone(t *testing.T) {
	if err := r.scene.AloneFromDisk(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.until(t, "alone", rentHost, rentPort, func(status int, _, shown string) bool { return status == 200 && shown == "second-client" })
	r.until(t, "alone closed", "mesh.test", rentPort, func(status int, _, _ string) bool { return status == 503 })
}

// TestForwardProxyKeepsToItself holds that `up` neither hands on what is for a proxy, nor lets a request go round.
func TestForwardProxyKeepsToItself(t *testing.T) {
	t.Parallel()
	ctx, s := setScene(t, story.OnLoopback)
	headers := make(chan http.Header, 100)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		got := req.Header.Clone()
		got.Set("Host", req.Host)
		headers <- got
		w.Header().Set("Proxy-Authenticate", `Basic realm="phishing"`)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	_, open, _ := net.SplitHostPort(l.Addr().String())
	_, own, _ := net.SplitHostPort(s.ProxyAddr())
	for _, host := range []string{"headers.test", "loop.test"} {
		s.Outside.Set(host, time.Minute, netip.MustParseAddr("127.0.0.1"))
	}
	if err := s.Config.Write("rent.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: rent, namespace: default}
spec:
  hosts: [headers.test, loop.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: %s, name: http, protocol: HTTP}, {number: %s, name: own, protocol: HTTP}]
`, open, own)); err != nil {
		t.Fatal(err)
	}
	send := func(url string) (*http.Response, error) {
		conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", s.ProxyAddr())
		if err != nil {
			return nil, err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		host := strings.SplitN(strings.TrimPrefix(url, "http://"), "/", 2)[0]
		if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, x-hop\r\nKeep-Alive: timeout=5\r\nX-Own: kept\r\n\r\n", url, host); err != nil {
			return nil, err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_ = resp.Body.Close()
		}
		return resp, err
	}
	var resp *http.Response
	if err := world.Within(ctx, time.Minute, func() error {
		if resp, err = send("http://headers.test:" + open + "/"); err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %s", resp.Status)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	got := <-headers
	for _, name := range []string{"Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate"} {
		if got.Get(name) != "" {
			t.Errorf("the server got %s: %q", name, got.Get(name))
		}
	}
	if got.Get("X-Own") != "kept" {
		t.Errorf("the server got %v", got)
	}
	if v := resp.Header.Get("Proxy-Authenticate"); v != "" {
		t.Errorf("a server outside asks for the proxy's password: %q", v)
	}
	for len(headers) > 0 { // of tries whose answer was late
		<-headers
	}
	if resp, err = send("http://headers.test.:" + open + "/"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("with the root's dot: %v, %v", resp, err)
	} else if host := (<-headers).Get("Host"); host != "headers.test:"+open {
		t.Errorf("with the root's dot, the server is asked for %q", host)
	}
	resp, err = send("http://loop.test:" + own + "/")
	if err != nil || resp.StatusCode != http.StatusLoopDetected {
		t.Fatalf("a request to the proxy itself: %v, %v", resp, err)
	}
	if err := world.Within(ctx, time.Minute, func() error {
		all, err := s.AuditRecords(ctx)
		if err != nil {
			return err
		}
		rounds, denied := 0, 0
		for _, r := range all {
			if r.Host == "loop.test" {
				rounds++
				if r.Verdict == record.Denied && strings.Contains(r.Reason, "came back") {
					denied++
				}
			}
		}
		if denied != 1 || rounds > 4 {
			return fmt.Errorf("%d rounds are recorded, %d ended for coming back", rounds, denied)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}
