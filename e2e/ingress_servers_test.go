package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// serverKinds are servers of Istio's Gateways as its reference has them, which no other test has.
const serverKinds = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: kinds, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 443, name: optional, protocol: HTTPS}, hosts: [optional.test], tls: {mode: OPTIONAL_MUTUAL, credentialName: optional}}
  - {port: {number: 443, name: beside, protocol: HTTPS}, hosts: [beside.test], tls: {mode: MUTUAL, credentialName: beside}}
  - {port: {number: 443, name: two, protocol: HTTPS}, hosts: [two.test], tls: {mode: SIMPLE, credentialNames: [two-ecdsa, two-rsa]}}
  - {port: {number: 443, name: newest, protocol: HTTPS}, hosts: [newest.test], tls: {mode: SIMPLE, credentialName: kinds, minProtocolVersion: TLSV1_3}}
  - {port: {number: 443, name: oldest, protocol: HTTPS}, hosts: [oldest.test], tls: {mode: SIMPLE, credentialName: kinds, maxProtocolVersion: TLSV1_2, cipherSuites: [ECDHE-ECDSA-AES256-GCM-SHA384]}}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: merged, namespace: shop, creationTimestamp: "2026-03-02T00:00:00Z"}
spec:
  selector: {istio: ingressgateway, app: ingress}
  servers:
  - {port: {number: 443, name: merged, protocol: HTTPS}, hosts: [merged.test], tls: {mode: SIMPLE, credentialName: kinds}}
  - {port: {number: 80, name: held, protocol: HTTP}, hosts: [shop/held.test, ./own.test, "neighbour/theirs-alone.test", "*/open.test"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: kinds, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  hosts: [optional.test, beside.test, two.test, newest.test, oldest.test, merged.test, held.test, own.test, theirs-alone.test, open.test]
  gateways: [kinds, merged]
  http:
  - {match: [{uri: {prefix: /delegated}}], delegate: {name: part}}
  - {route: [{destination: {host: web, port: {number: 80}, subset: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: part, namespace: shop, creationTimestamp: "2026-03-01T00:00:00Z"}
spec:
  http:
  - {match: [{uri: {prefix: /delegated/two}}], rewrite: {uri: /rewritten}, route: [{destination: {host: web, port: {number: 80}, subset: v2}}]}
  - {match: [{uri: {prefix: /elsewhere}}], route: [{destination: {host: web, port: {number: 80}, subset: v2}}]}
  - {match: [{uri: {prefix: /delegated/one}}], route: [{destination: {host: web, port: {number: 80}, subset: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: kinds, namespace: neighbour, creationTimestamp: "2026-02-01T00:00:00Z"}
spec:
  hosts: [held.test, own.test, theirs-alone.test]
  gateways: [shop/merged]
  http: [{directResponse: {status: 418}}]
`

// TestIngressServers: what servers of Istio's Gateways may say of TLS, of whose routes count, and of each other; and what the mesh's settings say of who clients are.
func TestIngressServers(t *testing.T) {
	needRoot(t)
	t.Parallel()
	in := newIngressOf(t, ingressObjects, "istio=ingressgateway", "app=ingress")
	for _, name := range []string{"optional", "beside", "kinds"} {
		host := name + ".test"
		if name == "kinds" {
			host = "*.test"
		}
		in.writeCertificate(t, name, host, nil)
	}
	for _, name := range []string{"optional", "beside"} { // as Istio has the roots beside a certificate of kubernetes.io/tls
		in.write(t, name+"-cacert", "apiVersion: v1\nkind: Secret\nmetadata: {name: "+name+"-cacert, namespace: istio-ingress}\nstringData:\n  ca.crt: |\n    "+strings.ReplaceAll(strings.TrimSpace(string(in.clients.PEM())), "\n", "\n    ")+"\n")
	}
	in.writeCertificate(t, "two-ecdsa", "two.test", nil)
	in.write(t, "two-rsa", secretOf("two-rsa", rsaFor(t, "two.test"), nil))
	in.write(t, "server-kinds", serverKinds)
	in.isShown(t, "merged.test", nil)
	inOrder(t, []part{
		{"client certificates that are not asked of all", in.optional},
		{"two certificates", in.twoCertificates},
		{"versions and ciphers", in.versions},
		{"Gateways are merged", in.merged},
		{"hosts of namespaces", in.hostsOfNamespaces},
		{"delegates", in.delegates},
		{"hops of X-Forwarded-For", in.hops},
		{"the PROXY protocol", in.proxyProtocol},
	})
}

func (in *ingressScene) write(t *testing.T, name, text string) {
	t.Helper()
	if err := in.scene.Config.Write(name+".yaml", text); err != nil {
		t.Fatal(err)
	}
}

// rsaFor is a certificate with a key of RSA, which nobody vouches for.
func rsaFor(t *testing.T, name string) *tls.Certificate {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// shake is a handshake with a name, and a page after it: with TLS 1.3 a client hears of what the server thinks of its certificate then.
func (in *ingressScene) shake(t *testing.T, name string, config *tls.Config) (*tls.ConnectionState, error) {
	t.Helper()
	resp, body, err := in.get(t.Context(), "https://"+name+"/", config)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, "v1 "+name) {
		return nil, fmt.Errorf("%s: %s", resp.Status, body)
	}
	return resp.TLS, nil
}

func (in *ingressScene) optional(t *testing.T) {
	right, wrong := in.clerks(t)
	for _, c := range []struct {
		host  string
		shows *tls.Certificate
		ok    bool
	}{
		{"optional.test", nil, true}, {"optional.test", right, true}, {"optional.test", wrong, false},
		{"beside.test", nil, false}, {"beside.test", right, true}, {"beside.test", wrong, false},
	} {
		config := in.trusting()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if c.shows == nil {
				return &tls.Certificate{}, nil
			}
			return c.shows, nil
		}
		err := world.Within(t.Context(), time.Minute, func() error {
			if _, err := in.shake(t, c.host, config); (err == nil) != c.ok {
				return fmt.Errorf("%s: certificate %t of the right CA %t: %w", c.host, c.shows != nil, c.shows == right, errors.Join(err, errors.New("want otherwise")))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// twoCertificates: Envoy has both, and shows clients that can read it the one of ECDSA. (Go's clients say that they can whatever they are told: Envoy goes by the algorithms of
// their signatures.)
func (in *ingressScene) twoCertificates(t *testing.T) {
	state, err := in.shake(t, "two.test", in.trusting())
	if err != nil || state.PeerCertificates[0].PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("%+v, %v", state, err)
	}
	text, err := in.gateway.Admin(t.Context(), "/certs")
	if err != nil {
		t.Fatal(err)
	}
	var said struct {
		Certificates []struct {
			Chain []struct {
				Serial string                 `json:"serial_number"`
				Names  []struct{ DNS string } `json:"subject_alt_names"`
			} `json:"cert_chain"`
		}
	}
	if err := json.Unmarshal(text, &said); err != nil {
		t.Fatal(err)
	}
	serials := map[string]bool{}
	for _, c := range said.Certificates {
		for _, one := range c.Chain { // a server's are in one list
			if len(one.Names) > 0 && one.Names[0].DNS == "two.test" {
				serials[one.Serial] = true
			}
		}
	}
	if len(serials) != 2 {
		t.Errorf("certificates for the name: %v", serials)
	}
}

func (in *ingressScene) versions(t *testing.T) {
	for _, c := range []struct {
		host    string
		max     uint16
		suites  []uint16
		version uint16 // 0: it is refused
		chooses uint16
	}{
		{host: "newest.test", max: tls.VersionTLS13, version: tls.VersionTLS13},
		{host: "newest.test", max: tls.VersionTLS12},
		{host: "oldest.test", max: tls.VersionTLS13, version: tls.VersionTLS12, chooses: tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384},
		{host: "oldest.test", max: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}},
		{host: "merged.test", max: tls.VersionTLS12, suites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, version: tls.VersionTLS12, chooses: tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256},
	} {
		config := in.trusting()
		config.MaxVersion, config.CipherSuites = c.max, c.suites
		state, err := in.shake(t, c.host, config)
		switch {
		case c.version == 0 && err == nil:
			t.Errorf("%s takes a client of %x with %v", c.host, c.max, c.suites)
		case c.version != 0 && (err != nil || state.Version != c.version || c.chooses != 0 && state.CipherSuite != c.chooses):
			t.Errorf("%s with a client of %x: %+v, %v", c.host, c.max, state, err)
		}
	}
}

// merged: Gateways that select the same pods share their ports.
func (in *ingressScene) merged(t *testing.T) {
	for _, name := range []string{"merged.test", "newest.test"} {
		if _, err := in.shake(t, name, in.trusting()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"open.test", "plain.test"} {
		if resp, body, err := in.get(t.Context(), "http://"+name+"/", nil); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %s (%v)", name, resp, body, err)
		}
	}
}

// hostsOfNamespaces: whose VirtualServices may be bound to a server, its hosts say.
func (in *ingressScene) hostsOfNamespaces(t *testing.T) {
	for name, status := range map[string]int{"held.test": 200, "own.test": 200, "theirs-alone.test": 418, "open.test": 200} {
		if resp, body, err := in.get(t.Context(), "http://"+name+"/", nil); err != nil || resp.StatusCode != status {
			t.Errorf("%s: %v %s (%v), want %d", name, resp, body, err, status)
		}
	}
}

func (in *ingressScene) delegates(t *testing.T) {
	for path, want := range map[string]string{
		"/delegated/one/x": "v1 open.test /delegated/one/x", "/delegated/two": "v2 open.test /rewritten", "/delegated": "", "/elsewhere": "v1 open.test /elsewhere", "/": "v1 open.test /",
	} {
		resp, body, err := in.get(t.Context(), "http://open.test"+path, nil)
		if err != nil || want == "" && resp.StatusCode != http.StatusNotFound && !strings.HasPrefix(body, "v1 open.test /delegated ") || !strings.HasPrefix(body, want) {
			t.Errorf("%s: %v %q (%v), want %q", path, resp, body, err, want)
		}
	}
}

// settings adds to the mesh's.
func (in *ingressScene) settings(t *testing.T, more string) (back func()) {
	t.Helper()
	was, err := os.ReadFile(in.scene.MeshConfig())
	if err != nil {
		t.Fatal(err)
	}
	put := func(text []byte) {
		if err := in.scene.WriteMeshConfig(string(text)); err != nil {
			t.Error(err)
		}
	}
	put(append(append([]byte{}, was...), more...))
	return func() { put(was) }
}

// saying starts the gateway's pod anew with a ProxyConfig; "" for none.
func (in *ingressScene) saying(t *testing.T, config string) {
	t.Helper()
	in.gateway.StartBy()
	if config != "" {
		in.gateway.StartBy("env", "PROXY_CONFIG="+config)
	}
	if err := in.gateway.Restart(t.Context(), false); err != nil {
		t.Fatal(err)
	}
}

// hops: as many proxies as the settings, or the gateway's pod in their place, say are believed about who comes before them, by what apps are told and by policies.
func (in *ingressScene) hops(t *testing.T) {
	in.write(t, "hops", `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: hops, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules: [{from: [{source: {remoteIpBlocks: [198.18.0.0/24]}}], to: [{operation: {hosts: [open.test]}}]}]
`)
	asks := func(forwarded string) (int, error) {
		ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://open.test/", nil)
		if err != nil {
			return 0, err
		}
		r.Header.Set("X-Forwarded-For", forwarded)
		transport := in.transport(nil)
		defer transport.CloseIdleConnections()
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return 0, err
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, resp.Body.Close()
	}
	holds := func(what string, want map[string]int) {
		t.Helper()
		err := world.Within(t.Context(), time.Minute, func() (all error) {
			for forwarded, status := range want {
				if got, err := asks(forwarded); err != nil || got != status {
					all = errors.Join(all, err, fmt.Errorf("X-Forwarded-For: %s: %d, want %d", forwarded, got, status))
				}
			}
			return all
		})
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	holds("nobody is believed", map[string]int{"198.18.0.7": 200, "198.51.100.1, 198.18.0.7": 200})
	back := in.settings(t, "defaultConfig: {gatewayTopology: {numTrustedProxies: 1}}\n")
	holds("one is", map[string]int{"198.18.0.7": 403, "198.51.100.1, 198.18.0.7": 403, "198.18.0.7, 198.51.100.1": 200})
	back()
	back = in.settings(t, "defaultConfig: {gatewayTopology: {numTrustedProxies: 2}}\n")
	holds("two are", map[string]int{"198.18.0.7, 198.51.100.1": 403, "198.51.100.1, 198.18.0.7": 200, "198.18.0.7, 198.51.100.1, 198.51.100.2": 200})
	back()
	holds("nobody again", map[string]int{"198.18.0.7": 200})
	in.forwards(t, "")
	back = in.settings(t, "defaultConfig: {gatewayTopology: {numTrustedProxies: 2, forwardClientCertDetails: SANITIZE}}\n")
	in.saying(t, "{concurrency: 2, gatewayTopology: {numTrustedProxies: 1, forwardClientCertDetails: ALWAYS_FORWARD_ONLY}}")
	holds("one is, as the pod says", map[string]int{"198.18.0.7": 403, "198.51.100.1, 198.18.0.7": 403, "198.18.0.7, 198.51.100.1": 200})
	in.forwards(t, "Hash=before")
	in.saying(t, "")
	holds("two are, as the mesh says", map[string]int{"198.18.0.7, 198.51.100.1": 403, "198.51.100.1, 198.18.0.7": 200})
	in.forwards(t, "")
	back()
	if err := in.scene.Config.Remove("hops.yaml"); err != nil {
		t.Fatal(err)
	}
}

// forwards waits until an app is told this of what a client's proxy says of certificates.
func (in *ingressScene) forwards(t *testing.T, want string) {
	t.Helper()
	transport := in.transport(nil)
	defer transport.CloseIdleConnections()
	err := world.Within(t.Context(), time.Minute, func() error {
		ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://open.test/delegated/two/certificate", nil)
		if err != nil {
			return err
		}
		r.Header.Set("X-Forwarded-Client-Cert", "Hash=before")
		resp, err := transport.RoundTrip(r)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusOK || string(got) != want {
			return fmt.Errorf("%d: the app is told %q, want %q (%w)", resp.StatusCode, got, want, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// proxyProtocol: a connection says first who it is from; one that does not is ended. The settings say so, or the gateway's pod, which also says that they do not.
func (in *ingressScene) proxyProtocol(t *testing.T) {
	back := in.settings(t, "defaultConfig: {gatewayTopology: {proxyProtocol: {}}}\n")
	in.headed(t, true)
	in.saying(t, "gatewayTopology: {}")
	in.headed(t, false)
	back()
	in.saying(t, "gatewayTopology: {proxyProtocol: {}}")
	in.headed(t, true)
	in.saying(t, "")
	in.headed(t, false)
}

// headed waits until connections that begin with a header of the PROXY protocol are taken, and others are not, or the reverse.
func (in *ingressScene) headed(t *testing.T, with bool) {
	t.Helper()
	asks := func(first string) (string, error) {
		c, err := in.client.DialContext(t.Context(), "tcp", net.JoinHostPort(ingressAddr.String(), "8080"))
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }()
		if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
			return "", err
		}
		if _, err := io.WriteString(c, first+"GET / HTTP/1.1\r\nHost: open.test\r\nConnection: close\r\n\r\n"); err != nil {
			return "", err
		}
		all, err := io.ReadAll(c)
		return string(all), err
	}
	const header = "PROXY TCP4 203.0.113.9 192.0.2.1 4000 80\r\n"
	err := world.Within(t.Context(), time.Minute, func() error {
		says, silent, told := header, "", "203.0.113.9"
		if !with {
			says, silent, told = "", header, ""
		}
		if body, err := asks(says); err != nil || !strings.Contains(body, "v1 open.test / "+told) {
			return fmt.Errorf("%q: %q (%w)", says, body, err)
		}
		if body, err := asks(silent); err == nil && strings.Contains(body, "200 OK") {
			return fmt.Errorf("%q: %q", silent, body)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
