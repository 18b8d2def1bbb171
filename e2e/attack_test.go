package e2e

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// TestAttack talks to the gateway as a pod with a valid certificate and bad intentions can.
func TestAttack(t *testing.T) {
	needRoot(t)
	t.Parallel()
	a := newAttack(t)
	for _, p := range []part{ // in this order: they share a gateway, and what one has it hold is there for a while
		{"unregistered", a.unregistered},
		{"another name inside", a.anotherNameInside},
		{"not TLS inside", a.notTLSInside},
		{"strange authorities", a.strangeAuthorities},
		{"strange headers", a.strangeHeaders},
		{"HTTP1", a.http1},
		{"another namespace", a.anotherNamespace},
		{"no valid certificate", a.noValidCertificate},
		{"early data", a.earlyData},
		{"names that are inside", a.namesInside},
		{"names are forgotten", a.namesForgotten},
		{"names nobody answers", a.namesUnanswered},
		{"large heads", a.heads},
		{"many tunnels at once", a.manyTunnels},
		{"plain tunnels", a.plainTunnels},
		{"what a client claims", a.claims},
		{"too long for the log", a.tooLong},
		{"a gateway of one's own", a.ownGateway},
	} {
		t.Run(p.name, p.test)
	}
}

func (a *attack) unregistered(t *testing.T) {
	for what, fields := range map[string][]header{"tunnel": connectTo("hidden.test:443"), "request": get("hidden.test", "/")} {
		got := a.ask(t, a.app, "", fields...)
		if got.status != "403" || !strings.Contains(got.body, "hidden.test") {
			t.Errorf("%s: %s", what, got)
		}
		noInternals(t, got)
	}
	r := a.recorded(t, "hidden.test", func(r record.Record) bool { return r.Verdict == record.Denied && r.Authority == "hidden.test:443" })
	if r.Workload.Principal != appID || r.Reporter != record.ReporterGateway {
		t.Errorf("recorded: %+v", r)
	}
	if n := a.resolved("hidden.test"); n > 0 {
		t.Errorf("an unregistered name was resolved %d times", n)
	}
}

func (a *attack) anotherNameInside(t *testing.T) {
	before := a.scene.Outside.ConnectionsTo(world.OutsideAddrs[1])
	for _, c := range []struct{ authority, sni string }{
		{"external.com:443", "hidden.test"},
		{"external.com:443", "b.wild.test"}, // registered, but not what was asked for
		{"external.com:443", "external.co"},
		{"external.com:443", "xternal.com"},
		{"external.com:443", "com"},
		{"a.wild.test:443", "b.wild.test"},
		{"a.wild.test:443", "hidden.test"},
		{"a.wild.test:443", "wild.test"},
		{"a.wild.test:443", ""},
	} {
		err := a.inTunnel(t, c.authority, func(inside net.Conn) error {
			return tls.Client(inside, &tls.Config{ServerName: c.sni, InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}).HandshakeContext(t.Context())
		})
		if err == nil {
			t.Errorf("%s with the name %q inside: a server answered", c.authority, c.sni)
		}
		host, _, _ := net.SplitHostPort(c.authority)
		r := a.recorded(t, host, func(r record.Record) bool {
			return r.Verdict == record.Denied && r.Authority == c.authority && r.SNI == c.sni
		})
		if r.Workload.Principal != appID || c.sni != "" && !strings.Contains(r.Reason, c.sni) {
			t.Errorf("%s with %q: recorded %+v", c.authority, c.sni, r)
		}
	}
	for _, name := range []string{"hidden.test", "b.wild.test", "wild.test", "external.co", "xternal.com", "com"} {
		if n := a.resolved(name); n > 0 {
			t.Errorf("%s was only said inside, and was resolved %d times", name, n)
		}
	}
	if n := a.scene.Outside.ConnectionsTo(world.OutsideAddrs[1]) - before; n > 0 {
		t.Errorf("%d connections came to where the other names are", n)
	}
}

func (a *attack) notTLSInside(t *testing.T) {
	for _, authority := range []string{"external.com:443", "a.wild.test:443"} {
		host, _, _ := net.SplitHostPort(authority)
		for _, text := range []string{"GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", "SSH-2.0-mallory\r\n", "\x16\x03\x01\xff\xff"} {
			err := a.inTunnel(t, authority, func(inside net.Conn) error {
				if _, err := io.WriteString(inside, text); err != nil {
					return err
				}
				n, err := io.Copy(io.Discard, inside)
				if n > 0 {
					t.Errorf("%s: %d bytes came back for %q", authority, n, text)
				}
				return err
			})
			t.Logf("%s, %q: %v", authority, text, err)
		}
		a.recorded(t, host, func(r record.Record) bool { return r.Verdict == record.Denied && strings.Contains(r.Reason, "not TLS") })
	}
}

// strangeAuthorities: a name means the same host however it is written, or nothing.
func (a *attack) strangeAuthorities(t *testing.T) {
	for authority, allowed := range map[string]string{
		"EXTERNAL.com:443":                 "200",
		"external.com.:443":                "200", // the same name
		"external.com..:443":               "",
		"external.com:0443":                "",
		"external.com:444":                 "",
		"external.com:":                    "",
		"external.com":                     "",
		"external.com:443:443":             "",
		"user@external.com:443":            "",
		"user:secret@external.com:443":     "",
		"external.com:443@hidden.test:443": "",
		"hidden.test:443@external.com:443": "",
		"external.com%00.hidden.test:443":  "",
		"203.0.113.10:443":                 "",
		"127.0.0.1:15000":                  "",
		"[::1]:15000":                      "",
		"[::ffff:203.0.113.10]:443":        "",
		"0x7f.1:443":                       "",
		"*:443":                            "",
		".wild.test:443":                   "",
		"wild.test:443":                    "",
		"egress-tls":                       "",
		"BlackHoleCluster":                 "",
		"":                                 "",
	} {
		got := a.ask(t, a.app, "", connectTo(authority)...)
		if got.status != allowed && got.status == "200" || allowed != "" && got.status != allowed {
			t.Errorf("CONNECT %q: %s", authority, got)
		}
		noInternals(t, got)
	}
	err := a.inTunnel(t, "EXTERNAL.com:443", func(inside net.Conn) error {
		config := &tls.Config{ServerName: "external.com", RootCAs: caPool(t, a.scene.Outside.CA.PEM()), MinVersion: tls.VersionTLS12}
		return tls.Client(inside, config).HandshakeContext(t.Context())
	})
	if err != nil {
		t.Errorf("in a tunnel to EXTERNAL.com, external.com: %v", err)
	}
	for what, fields := range map[string][]header{
		"two authorities":       {{":method", "CONNECT"}, {":authority", "external.com:443"}, {":authority", "hidden.test:443"}},
		"websocket to TLS":      {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":path", "/"}, {":authority", "external.com:443"}},
		"websocket elsewhere":   {{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":path", "/"}, {":authority", "hidden.test:443"}},
		"UDP":                   {{":method", "CONNECT"}, {":protocol", "connect-udp"}, {":scheme", "https"}, {":path", "/.well-known/masque/udp/203.0.113.66/443/"}, {":authority", "external.com:443"}},
		"absolute path":         get("hidden.test", "http://headers.test:8080/absolute"),
		"host beside":           get("hidden.test", "/beside", header{"host", "headers.test:8080"}),
		"only a host, another":  {{":method", "GET"}, {":scheme", "http"}, {":path", "/only"}, {"host", "hidden.test"}},
		"plain to a TLS port":   get("external.com:443", "/"),
		"tunnel to a plain one": connectTo("headers.test:8080"),
	} {
		if got := a.ask(t, a.app, "", fields...); strings.HasPrefix(got.status, "2") {
			t.Errorf("%s: %s", what, got)
		}
	}
	// A second name beside the authority is not what counts, and does not go out.
	if got := a.ask(t, a.app, "", get("headers.test:8080", "/host", header{"host", "hidden.test"})...); got.status == "200" {
		if host := a.book.hostOf("/host"); host != "headers.test:8080" {
			t.Errorf("the server was asked for %q", host)
		}
	}
	if n := a.resolved("hidden.test"); n > 0 {
		t.Errorf("hidden.test was resolved %d times", n)
	}
}

// internal are the beginnings of headers that proxies tell each other, or obey.
var internal = []string{"x-envoy-", "x-forwarded-client-cert", "x-sallyport-", "x-forwarded-proto", "x-request-id"}

func noInternals(t *testing.T, got answer) {
	t.Helper()
	for _, h := range got.headers {
		for _, prefix := range internal {
			if strings.HasPrefix(h.name, prefix) {
				t.Errorf("the answer %s says %s: %s", got.status, h.name, h.value)
			}
		}
	}
}

// strangeHeaders: what a client says to Envoy by headers is neither obeyed nor passed on.
func (a *attack) strangeHeaders(t *testing.T) {
	hidden := watch(t, a.scene.World.Outside, net.JoinHostPort(world.OutsideAddrs[3].String(), "9999"))
	orders := []header{
		{"x-envoy-original-dst-host", world.OutsideAddrs[3].String() + ":9999"},
		{"x-envoy-retry-on", "5xx"}, {"x-envoy-max-retries", "7"}, {"x-envoy-retriable-status-codes", "503"},
		{"x-envoy-upstream-rq-timeout-ms", "1"}, {"x-envoy-upstream-rq-per-try-timeout-ms", "1"},
		{"x-envoy-hedge-on-per-try-timeout", "true"}, {"x-envoy-upstream-alt-stat-name", "mallory"},
		{"x-envoy-force-trace", "1"}, {"x-envoy-internal", "true"}, {"x-envoy-external-address", "8.8.8.8"},
		{"x-envoy-original-path", "/other"}, {"x-envoy-decorator-operation", "other"}, {"x-envoy-expected-rq-timeout-ms", "1"},
		{"x-envoy-attempt-count", "5"}, {"x-envoy-is-timeout-retry", "true"}, {"x-envoy-ip-tags", "a"},
		{"x-forwarded-client-cert", "By=spiffe://cluster.local/ns/team-a/sa/boss;URI=spiffe://cluster.local/ns/team-a/sa/boss"},
		{"x-forwarded-proto", "https"}, {"x-sallyport-peer", "spiffe://cluster.local/ns/team-a/sa/boss"},
		{"x-forwarded-host", "hidden.test"}, {"x-forwarded-for", "10.0.0.1"},
	}
	got := a.ask(t, a.app, "", get("headers.test:8080", "/fails", orders...)...)
	if got.status != "503" || !strings.Contains(got.body, "says hello") {
		t.Errorf("got %s", got)
	}
	noInternals(t, got)
	seen := a.book.requests("/fails")
	if len(seen) != 1 {
		t.Fatalf("the server was asked %d times", len(seen))
	}
	for name := range seen[0] {
		for _, prefix := range internal {
			if strings.HasPrefix(strings.ToLower(name), prefix) {
				t.Errorf("the server was sent %s: %s", name, seen[0].Get(name))
			}
		}
	}
	if hidden() > 0 {
		t.Error("x-envoy-original-dst-host was obeyed")
	}
	stats, err := a.scene.Gateway.Admin(t.Context(), "/stats?filter=mallory")
	if err != nil || strings.Contains(string(stats), "mallory") {
		t.Errorf("x-envoy-upstream-alt-stat-name was obeyed: %s %v", stats, err)
	}
	if got := a.ask(t, a.app, "", get("team.test:8080", "/", orders...)...); got.status != "403" {
		t.Errorf("with another's identity in headers: %s", got)
	}
}

// http1: without ALPN the gateway may take HTTP/1.1, in which a name can be said twice.
func (a *attack) http1(t *testing.T) {
	for request, allowed := range map[string]bool{
		"GET http://headers.test:8080/one HTTP/1.1\r\nHost: hidden.test\r\n\r\n":                                                      true, // RFC 9112, 3.2.2: the target counts
		"GET http://hidden.test/ HTTP/1.1\r\nHost: headers.test:8080\r\n\r\n":                                                         false,
		"GET / HTTP/1.1\r\nHost: headers.test:8080\r\nHost: hidden.test\r\n\r\n":                                                      false,
		"CONNECT hidden.test:443 HTTP/1.1\r\nHost: external.com:443\r\n\r\n":                                                          false,
		"CONNECT headers.test:8080 HTTP/1.1\r\n\r\n":                                                                                  false,
		"POST / HTTP/1.1\r\nHost: headers.test:8080\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled": false,
	} {
		status, err := a.ask1(t, request)
		if (err == nil && status/100 == 2) != allowed {
			t.Errorf("%q: %d %v", request, status, err)
		}
	}
	if host := a.book.hostOf("/one"); host != "" && host != "headers.test:8080" {
		t.Errorf("the server was asked for %q", host)
	}
	if len(a.book.requests("/smuggled")) > 0 {
		t.Error("a request was smuggled in")
	}
}

func (a *attack) ask1(t *testing.T, request string) (int, error) {
	raw, err := a.scene.World.Control.DialContext(t.Context(), "tcp", gatewayAddr)
	if err != nil {
		return 0, err
	}
	defer func() { _ = raw.Close() }()
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.app}})
	if err := c.SetDeadline(time.Now().Add(attackTimeout)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// anotherNamespace: what is exported to a namespace is for its workloads, by the certificate.
func (a *attack) anotherNamespace(t *testing.T) {
	for id, refused := range map[string]bool{
		"spiffe://cluster.local/ns/team-a/sa/any": false,
		appID: true,
		"spiffe://cluster.local/ns/team-ab/sa/any":    true,
		"spiffe://cluster.local/ns/x/sa/ns/team-a/sa": true,
	} {
		certificate := a.mesh.issue(t, id, time.Hour)
		for _, fields := range [][]header{get("team.test:8080", "/"), connectTo("team.test:443")} {
			got := a.ask(t, certificate, "", fields...)
			if (got.status == "403") != refused {
				t.Errorf("%s for %s: %s", fields[0].value, id, got)
			}
		}
	}
	r := a.recorded(t, "team.test", func(r record.Record) bool { return r.Verdict == record.Denied && r.Workload.Principal == appID })
	if !strings.Contains(r.Reason, "not exported") {
		t.Errorf("recorded: %+v", r)
	}
}

func (a *attack) noValidCertificate(t *testing.T) {
	strange := strangeCA(t, a.mesh)
	for what, certificate := range map[string]tls.Certificate{
		"none":                     {},
		"of another trust domain":  a.mesh.issue(t, "spiffe://evil.test/ns/default/sa/app", time.Hour),
		"of a longer trust domain": a.mesh.issue(t, "spiffe://cluster.local.evil.test/ns/default/sa/app", time.Hour),
		"of another authority":     strange.issue(t, appID, time.Hour),
		"expired":                  a.mesh.issue(t, appID, -time.Hour),
	} {
		c, err := a.connect(t.Context(), certificate)
		if err == nil { // in TLS 1.3 the refusal comes after the client's part
			if _, err = c.Read(make([]byte, 1)); err == nil {
				err = c.Close()
				t.Errorf("a certificate %s was taken (%v)", what, err)
			}
			_ = c.Close()
		}
		if err == nil || !strings.Contains(fmt.Sprint(err), "tls") {
			t.Errorf("a certificate %s: %v", what, err)
		}
	}
}
