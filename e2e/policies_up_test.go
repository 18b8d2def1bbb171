package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestTunnelsByHTTP2AreDeniedWithWords holds that a CONNECT, and a WebSocket in one, that a policy denies at `sallyport up` are answered by HTTP/2 as by HTTP/1.1: with the reason in
// headers and body; and that by HTTP/2 nothing gets through that would not otherwise. Nor does what is no tunnel and asks for https: it is told so.
func TestTunnelsByHTTP2AreDeniedWithWords(t *testing.T) {
	ctx, s := setScene(t, story.OnLoopback)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(c net.Conn) { _, _ = io.Copy(c, c) })
	port := netip.MustParseAddrPort(l.Addr().String()).Port()
	objects := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: default}\nspec: {rules: [{name: closed, hosts: [two.up.test], action: Deny, reason: not this one}, {name: open, hosts: [one.up.test, three.up.test], action: Allow}]}\n"
	for name, protocol := range map[string]string{"one": "TCP", "two": "TCP", "three": "HTTP"} {
		s.Outside.Set(name+".up.test", time.Minute, netip.MustParseAddr("127.0.0.1"))
		objects += fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default}\n"+
			"spec: {hosts: [%s.up.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: one, protocol: %s}]}\n", name, name, port, protocol)
	}
	if err := s.Config.Write("tunnels.yaml", objects); err != nil {
		t.Fatal(err)
	}
	one, two := fmt.Sprintf("one.up.test:%d", port), fmt.Sprintf("two.up.test:%d", port)
	dial := func() net.Conn {
		c, err := (&net.Dialer{Timeout: 20 * time.Second}).DialContext(ctx, "tcp", s.ProxyAddr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		return c
	}
	var want *http.Response
	var body string
	if err := world.Within(ctx, time.Minute, func() error { // as HTTP/1.1 has it
		if err := connectBy(dial(), one); err != nil {
			return err
		}
		c := dial()
		if _, err := fmt.Fprintf(c, "CONNECT %[1]s HTTP/1.1\r\nHost: %[1]s\r\n\r\n", two); err != nil {
			return err
		}
		if want, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			return err
		}
		text, err := io.ReadAll(want.Body)
		if body = string(text); err == nil && (want.StatusCode != http.StatusForbidden || !strings.Contains(body, "not this one")) {
			err = fmt.Errorf("%s %s", want.Status, body)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	const reason = "Sallyport-Denied"
	if want.Header.Get(reason) == "" {
		t.Fatalf("by HTTP/1.1 no header says why: %v", want.Header)
	}
	extended := func(authority, path string) []header {
		return []header{{":method", "CONNECT"}, {":protocol", "websocket"}, {":scheme", "http"}, {":path", path}, {":authority", authority}}
	}
	for what, fields := range map[string][]header{
		"CONNECT":                  connectTo(two),
		"in other letters":         connectTo(strings.ToUpper(two)),
		"with another Host":        append(connectTo(two), header{"host", one}),
		"with an address of a hop": append(connectTo(two), header{"x-forwarded-host", one}),
	} {
		got := askByHTTP2(t, dial(), "", fields...)
		said := slices.Contains(got.headers, header{strings.ToLower(reason), want.Header.Get(reason)})
		if got.status != "403" || !said || !strings.Contains(got.body, "not this one") {
			t.Errorf("%s: %s %v, want what HTTP/1.1 has: %s %s", what, got, got.headers, want.Header.Get(reason), body)
		}
	}
	for what, fields := range map[string][]header{
		"a WebSocket":                 extended(two, "/"),
		"two authorities":             append(connectTo(one), header{":authority", two}),
		"a path in a CONNECT":         append([]header{{":method", "CONNECT"}, {":scheme", "http"}, {":path", "/"}}, header{":authority", two}),
		"the host with its last dot":  connectTo(fmt.Sprintf("two.up.test.:%d", port)),
		"somebody's name before an @": connectTo("one.up.test@" + two),
	} {
		if got := askByHTTP2(t, dial(), "", fields...); got.status == "200" {
			t.Errorf("%s is let through: %s", what, got)
		}
	}
	if got := askByHTTP2(t, dial(), "", connectTo(one)...); got.status != "200" {
		t.Errorf("what is allowed: %s", got)
	}
	three := fmt.Sprintf("three.up.test:%d", port)
	for what, c := range map[string]struct{ head, says string }{
		"a request for an https:// URL":   {"GET https://" + three + "/", "would leave in plain text"},
		"one with the scheme in capitals": {"GET HTTPS://" + three + "/", "would leave in plain text"},
		"one without a path":              {"POST https://" + three, "would leave in plain text"},
	} {
		if err := world.Within(ctx, time.Minute, func() error {
			conn := dial()
			if _, err := fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: %s\r\n\r\n", c.head, three); err != nil {
				return err
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return err
			}
			text, err := io.ReadAll(answer.Body)
			if err == nil && (answer.StatusCode != http.StatusForbidden || !strings.Contains(string(text), c.says)) {
				err = fmt.Errorf("%s %s", answer.Status, text)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
