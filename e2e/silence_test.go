package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// halfHead is the beginning of a request that does not come to its end.
const halfHead = "GET / HTTP/1.1\r\nHost: plain.test\r\nX-Half: "

// silence is a way to connect somewhere, to say something, and no more.
type silence struct {
	what string
	from *world.Host
	at   netip.AddrPort
	tls  *tls.Config // nil: none
	says string
}

func (s silence) open(ctx context.Context) (net.Conn, error) {
	c, err := s.from.DialContext(ctx, "tcp", s.at.String())
	if err != nil {
		return nil, err
	}
	if s.tls != nil {
		secure := tls.Client(c, s.tls)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		c = secure
	}
	_, err = io.WriteString(c, s.says)
	return c, err
}

// areGone holds that none of them is kept for longer than is promised (docs/adr/0016-bounded.md).
func areGone(t *testing.T, all []silence) {
	t.Helper()
	var waiting sync.WaitGroup
	for _, s := range all {
		began := time.Now()
		c, err := s.open(t.Context())
		if err != nil {
			t.Errorf("%s: %v", s.what, err)
			continue
		}
		waiting.Go(func() {
			defer func() { _ = c.Close() }()
			_ = c.SetReadDeadline(began.Add(silentGone + busy))
			if _, err := io.Copy(io.Discard, c); isTimeout(err) {
				t.Errorf("%s: still open after %v", s.what, time.Since(began).Round(time.Second))
			}
		})
	}
	waiting.Wait()
}

// silent: who says nothing to the gateway, or stops in the middle of a ClientHello or a request's head, is not kept, nor is who does so with a pod.
func (in *ingressScene) silent(t *testing.T) {
	plain, secure, pod := netip.AddrPortFrom(ingressAddr, 8080), netip.AddrPortFrom(ingressAddr, 8443), netip.AddrPortFrom(web1Addr, 8080)
	hello := string(clientHello(t, "shop.test"))
	shop := in.trusting()
	shop.ServerName, shop.NextProtos = "shop.test", []string{"http/1.1"}
	mesh := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, NextProtos: []string{"istio-http/1.1"}, Certificates: []tls.Certificate{identityOf(t, in.scene.App.RunDir())}}
	twice := shop.Clone()
	twice.NextProtos = []string{"h2"}
	passed := in.trusting()
	passed.ServerName = "passed.test"
	stays := func(s silence) net.Conn {
		c, err := s.open(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", s.what, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		return c
	}
	rest := map[string]net.Conn{
		"plain.test":  stays(silence{"plain text", in.client, plain, nil, ""}),
		"shop.test":   stays(silence{"TLS", in.client, secure, shop, ""}),
		"passed.test": stays(silence{"TLS that passes", in.client, secure, passed, ""}), // and says nothing yet
	}
	for _, name := range []string{"plain.test", "shop.test"} {
		if err := oneRequest(rest[name], name); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	waits := bufio.NewReader(stays(silence{"a request that waits", in.client, secure, shop, "GET /slow HTTP/1.1\r\nHost: shop.test\r\n\r\n"}))
	answer, err := http.ReadResponse(waits, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	areGone(t, []silence{
		{"nothing", in.client, plain, nil, ""},
		{"a byte", in.client, plain, nil, "G"},
		{"half a head", in.client, plain, nil, halfHead},
		{"half a ClientHello where none belongs", in.client, plain, nil, hello[:len(hello)/2]},
		{"nothing, where TLS ends", in.client, secure, nil, ""},
		{"half a ClientHello", in.client, secure, nil, hello[:len(hello)/2]},
		{"a ClientHello", in.client, secure, nil, hello},
		{"half a head in TLS", in.client, secure, shop, halfHead},
		{"a handshake", in.client, secure, shop, ""},
		{"HTTP/2's preface", in.client, secure, twice, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"},
		{"half a head, to a pod", in.client, pod, nil, halfHead},
		{"half a head in mutual TLS, to a pod", in.client, pod, mesh, halfHead},
	})
	for name, c := range rest {
		if err := oneRequest(c, name); err != nil {
			t.Errorf("a connection that has carried something, and rested, to %s: %v", name, err)
		}
	}
	in.more <- struct{}{}
	if body, err := io.ReadAll(answer.Body); err != nil || !strings.HasSuffix(string(body), "the rest\n") {
		t.Errorf("a request that waited: %q, %v", body, err)
	}
}

// silent: the same at a waypoint, and at the node before its pods.
func (w *waypointTest) silent(t *testing.T) {
	front := netip.AddrPortFrom(waypointAddr, 15008)
	hello := string(clientHello(t, "web.test"))
	mesh := func(name string, alpn ...string) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, ServerName: name, NextProtos: alpn, Certificates: []tls.Certificate{w.member(t, "one")}}
	}
	all := []silence{{"half a head, for a Service", w.node.Host, front, mesh(fmt.Sprintf("outbound_.%d_._.%s", frontedHTTP, frontedHost), "istio-http/1.1"), halfHead}}
	for _, at := range []netip.AddrPort{front, netip.AddrPortFrom(betaAddr, 15008)} {
		all = append(all, silence{"nothing", w.node.Host, at, nil, ""}, silence{"half a ClientHello", w.node.Host, at, nil, hello[:len(hello)/2]}, silence{"a handshake", w.node.Host, at, mesh("x", "h2"), ""})
	}
	areGone(t, all)
}
