package e2e

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// transportEdits is how often a host's requests come to be wrapped in TLS, and not to be.
const transportEdits = 12

// TestEditsOfTransportDoNotMix holds that requests for a host with an address of its own, which an edit has wrapped in TLS at another port, or no longer, get to the one port in plain
// text or to the other in TLS, at all times: never in plain text to where TLS is spoken, nor the reverse.
func TestEditsOfTransportDoNotMix(t *testing.T) {
	ctx, s := setScene(t, story.OnLoopback)
	const host = "transport.test"
	certificate, err := s.Outside.CA.Issue(host)
	if err != nil {
		t.Fatal(err)
	}
	var mixed atomic.Int64
	plain := transportServer(t, nil, "plain", &mixed)
	wrapped := transportServer(t, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}}, "wrapped", &mixed)
	entry := fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: transport, namespace: default}
spec:
  hosts: [%s]
  location: MESH_EXTERNAL
  resolution: STATIC
  endpoints: [{address: 127.0.0.1}]
  ports:
  - {number: %d, name: http, protocol: HTTP}
`, host, plain)
	both := entry + fmt.Sprintf("  - {number: %d, name: https, protocol: HTTPS}\n", wrapped)

	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: s.ProxyAddr()})}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	ask := func() (status int, body string, err error) {
		resp, err := client.Get(fmt.Sprintf("http://%s:%d/", host, plain))
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(text), err
	}
	begun := false
	for edit := range transportEdits {
		objects, want := entry, "plain"
		if edit%2 == 1 {
			objects, want = both, "wrapped"
		}
		if err := s.Config.Write("transport.yaml", objects); err != nil {
			t.Fatal(err)
		}
		if err := world.Within(ctx, 2*time.Minute, func() error {
			status, body, err := ask()
			switch {
			case err == nil && status == http.StatusOK && body == want:
				begun = true
				return nil
			case begun && (err != nil || status != http.StatusOK):
				t.Errorf("edit %d, to %s: a request between is answered %d %q, %v", edit, want, status, body, err)
			}
			return errors.Join(fmt.Errorf("%d %q", status, body), err)
		}); err != nil {
			t.Fatalf("edit %d: requests are not %s: %v", edit, want, err)
		}
	}
	if n := mixed.Load(); n > 0 {
		t.Errorf("%d connections spoke TLS where plain text is spoken, or the reverse", n)
	}
}

// transportServer answers requests with a word, over TLS where that is given, and counts connections that speak the other way. It gives its port.
func transportServer(t *testing.T, secure *tls.Config, word string, mixed *atomic.Int64) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(c net.Conn) {
		in := bufio.NewReader(c)
		const handshake = 0x16
		first, err := in.Peek(1)
		if err != nil {
			return
		}
		if (first[0] == handshake) != (secure != nil) {
			mixed.Add(1)
			return
		}
		if secure != nil {
			c = tls.Server(readAhead{c, in}, secure)
			in = bufio.NewReader(c)
		}
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if _, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(word), word); err != nil {
				return
			}
		}
	})
	return netip.MustParseAddrPort(l.Addr().String()).Port()
}

// readAhead is a connection of which the beginning was read.
type readAhead struct {
	net.Conn
	in *bufio.Reader
}

func (c readAhead) Read(p []byte) (int, error) { return c.in.Read(p) }
