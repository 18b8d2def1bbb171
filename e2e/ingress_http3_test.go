package e2e

import (
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
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	http3Advertised = `h3=":443"; ma=86400`
	http3Bytes      = 8 << 20
)

// TestHTTP3: where the mesh says so, and the gateway's Service has the port for UDP, what is asked for by HTTPS can be asked for by HTTP/3.
func TestHTTP3(t *testing.T) {
	needRoot(t)
	t.Parallel()
	byTCP := "  - {name: https, port: 443, targetPort: 8443}\n"
	in := newIngressOf(t, strings.Replace(ingressObjects, byTCP, byTCP+"  - {name: http3, port: 443, targetPort: 8443, protocol: UDP}\n", 1), "istio=ingressgateway", "pod-template-hash=abc")
	in.isShown(t, "shop.test", nil)
	if resp, _, err := in.get(t.Context(), "https://shop.test/", in.trusting()); err != nil || resp.Header.Get("Alt-Svc") != "" {
		t.Errorf("before the mesh says so: %v (%v)", resp, err)
	}
	back := in.settings(t, "  ingress: {http3: true}\n")
	in.speaksHTTP3(t)
	inOrder(t, []part{
		{"requests", in.http3Requests},
		{"names of others", in.http3Names},
		{"bodies arrive whole", in.http3Bodies},
		{"a client that goes", in.http3Cancelled},
		{"no early data", in.http3EarlyData},
		{"policies", in.http3Policies},
		{"a certificate is exchanged", in.http3Exchanged},
		{"the log", in.http3Log},
		{"clients stay where they are", in.http3Moves},
		{"another Envoy", in.http3Replaced},
	})
	back()
	t.Run("not any more", in.http3Off)
}

// http3Client asks by connections of its own, from outside.
func (in *ingressScene) http3Client(t *testing.T, c *tls.Config) *http3.Transport {
	t.Helper()
	socket, err := in.client.ListenPacket("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	from := &quic.Transport{Conn: socket}
	client := &http3.Transport{
		TLSClientConfig: c,
		Dial: func(ctx context.Context, _ string, c *tls.Config, q *quic.Config) (*quic.Conn, error) {
			return from.DialEarly(ctx, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ingressAddr, 8443)), c, q)
		},
	}
	t.Cleanup(func() { _ = errors.Join(client.Close(), from.Close(), socket.Close()) })
	return client
}

func (in *ingressScene) getByHTTP3(t *testing.T, url, host string) (*http.Response, string, error) {
	t.Helper()
	return fetchBy(t.Context(), in.http3Client(t, in.trusting()), url, host)
}

// speaksHTTP3 waits until the gateway does, and says so to who comes by TCP.
func (in *ingressScene) speaksHTTP3(t *testing.T) {
	t.Helper()
	err := world.Within(t.Context(), time.Minute, func() error {
		resp, _, err := in.get(t.Context(), "https://shop.test/", in.trusting())
		if err != nil {
			return err
		}
		if said := resp.Header.Get("Alt-Svc"); said != http3Advertised {
			return fmt.Errorf("Alt-Svc: %q", said)
		}
		_, _, err = in.getByHTTP3(t, "https://shop.test/", "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (in *ingressScene) http3Requests(t *testing.T) {
	resp, body, err := in.getByHTTP3(t, "https://shop.test/a/../b", "")
	if want := "v1 shop.test /b " + in.clientAddr(t) + " https\n"; err != nil || resp.ProtoMajor != 3 || resp.StatusCode != http.StatusOK || body != want || resp.Header.Get("Alt-Svc") != http3Advertised {
		t.Errorf("%v %q (%v), want %q", resp, body, err, want)
	}
	if resp, _, err := in.get(t.Context(), "http://plain.test/", nil); err != nil || resp.Header.Get("Alt-Svc") != "" {
		t.Errorf("a name without TLS: %v (%v)", resp, err)
	}
	resp, body, err = in.getByHTTP3(t, "https://shop.test/moved", "")
	if err != nil || resp.StatusCode != http.StatusMovedPermanently || resp.Header.Get("Location") != "https://elsewhere.test/v1" {
		t.Errorf("a redirect: %v %q (%v)", resp, body, err)
	}
}

// http3Names: a name that asks for a client's certificate, one that is passed on, and nobody's, cannot be had by QUIC; nor by another name's connection.
func (in *ingressScene) http3Names(t *testing.T) {
	for _, name := range []string{"bank.test", "passed.test", "unknown.test"} {
		if resp, body, err := in.getByHTTP3(t, "https://"+name+"/", ""); err == nil {
			t.Errorf("%s: %v %q", name, resp, body)
		}
	}
	for name, want := range map[string]int{"bank.test": http.StatusMisdirectedRequest, "unknown.test": http.StatusNotFound, "plain.test": http.StatusNotFound} {
		if resp, body, err := in.getByHTTP3(t, "https://shop.test/", name); err != nil || resp.StatusCode != want {
			t.Errorf("%s by shop.test's connection: %v %q (%v), want %d", name, resp, body, err, want)
		}
	}
}

func (in *ingressScene) http3Bodies(t *testing.T) {
	client := in.http3Client(t, in.trusting())
	sent := bytes.Repeat([]byte("0123456789abcdef"), http3Bytes/16)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.test/echo", bytes.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		cancel()
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("%d bytes of %d came back (%v)", len(got), len(sent), err)
		}
		_ = resp.Body.Close()
	}
}

// http3Cancelled: a client that goes in the middle of an answer takes nothing with it.
func (in *ingressScene) http3Cancelled(t *testing.T) {
	client := in.http3Client(t, in.trusting())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://shop.test/slow", nil)
	if err != nil {
		t.Fatal(err)
	}
	gone, err := client.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp, body, err := fetchBy(t.Context(), client, "https://shop.test/beside", ""); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("beside an answer that waits: %v %q (%v)", resp, body, err)
	}
	cancel()
	if _, err := io.ReadAll(gone.Body); err == nil {
		t.Error("an answer that was given up ended well")
	}
	in.more <- struct{}{} // the app goes on
	if resp, body, err := fetchBy(t.Context(), client, "https://shop.test/after", ""); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("after it: %v %q (%v)", resp, body, err)
	}
}

// http3EarlyData: what a client says before the handshake is done could be sent again by anybody who saw it.
func (in *ingressScene) http3EarlyData(t *testing.T) {
	config := in.trusting()
	config.ClientSessionCache = tls.NewLRUClientSessionCache(4)
	config.NextProtos = []string{"h3"}
	config.ServerName = "shop.test"
	socket, err := in.client.ListenPacket("0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	from := &quic.Transport{Conn: socket}
	defer func() { _ = errors.Join(from.Close(), socket.Close()) }()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
		c, err := from.DialEarly(ctx, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ingressAddr, 8443)), config, nil)
		if err != nil {
			t.Fatal(err)
		}
		client := (&http3.Transport{}).NewClientConn(c)
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://shop.test/early", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		if c.ConnectionState().Used0RTT {
			t.Error("early data was taken")
		}
		_ = c.CloseWithError(0, "")
		cancel()
	}
}

func (in *ingressScene) http3Policies(t *testing.T) {
	in.write(t, "by-http3", `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: by-http3, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules: [{from: [{source: {ipBlocks: ["`+in.clientAddr(t)+`"]}}], to: [{operation: {hosts: [shop.test], paths: [/secret]}}]}]
`)
	err := world.Within(t.Context(), time.Minute, func() error {
		resp, _, err := in.getByHTTP3(t, "https://shop.test/secret", "")
		if err == nil && resp.StatusCode != http.StatusForbidden {
			err = errors.New(resp.Status)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if resp, _, err := in.getByHTTP3(t, "https://shop.test/beside", ""); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("beside it: %v (%v)", resp, err)
	}
}

// http3Exchanged: a new certificate is shown to who comes after it, and who is there stays.
func (in *ingressScene) http3Exchanged(t *testing.T) {
	client := in.http3Client(t, in.trusting())
	ask := func(by http.RoundTripper) ([]byte, error) {
		resp, _, err := fetchBy(t.Context(), by, "https://shop.test/", "")
		if err != nil {
			return nil, err
		}
		return resp.TLS.PeerCertificates[0].Raw, nil
	}
	was, err := ask(client)
	if err != nil {
		t.Fatal(err)
	}
	in.writeCertificate(t, "shop-cert", "shop.test", nil)
	err = world.Within(t.Context(), time.Minute, func() error {
		if _, err := ask(client); err != nil { // so that it does not end for resting
			return err
		}
		is, err := ask(in.http3Client(t, in.trusting()))
		if err == nil && bytes.Equal(is, was) {
			err = errors.New("the certificate is still the old one")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if is, err := ask(client); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the connection of before was not kept: %v", err)
	}
}

func (in *ingressScene) http3Log(t *testing.T) {
	client := in.clientAddr(t)
	for path, verdict := range map[string]record.Verdict{"/b": record.Allowed, "/secret": record.Denied} {
		err := world.Within(t.Context(), time.Minute, func() error {
			records, err := in.scene.AuditRecords(t.Context(), "--host", "shop.test")
			if err != nil {
				return err
			}
			for _, r := range records {
				if r.URLPath == path && r.Direction == record.Inbound && r.Verdict == verdict && strings.HasPrefix(r.Source, client+":") && r.Protocol == "http" {
					return nil
				}
			}
			return fmt.Errorf("%s is not among %d records: %+v", path, len(records), records)
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func (in *ingressScene) http3Off(t *testing.T) {
	err := world.Within(t.Context(), time.Minute, func() error {
		resp, _, err := in.get(t.Context(), "https://shop.test/", in.trusting())
		if err != nil {
			return err
		}
		if said := resp.Header.Get("Alt-Svc"); said != "" {
			return fmt.Errorf("Alt-Svc: %q", said)
		}
		if resp, _, err := in.getByHTTP3(t, "https://shop.test/", ""); err == nil {
			return fmt.Errorf("it still answers: %s", resp.Status)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// http3Moves: clients are told to keep the address by which they came. Envoy would go by that one as long as the connection lasts, in policies and in what apps are told.
func (in *ingressScene) http3Moves(t *testing.T) {
	transports := make([]*quic.Transport, 2)
	for i := range transports {
		socket, err := in.client.ListenPacket("0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		transports[i] = &quic.Transport{Conn: socket}
		t.Cleanup(func() { _ = errors.Join(transports[i].Close(), socket.Close()) })
	}
	config := in.trusting()
	config.NextProtos, config.ServerName = []string{"h3"}, "shop.test"
	ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
	defer cancel()
	c, err := transports[0].Dial(ctx, net.UDPAddrFromAddrPort(netip.AddrPortFrom(ingressAddr, 8443)), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseWithError(0, "") }()
	if _, err := c.AddPath(transports[1]); err == nil || !strings.Contains(err.Error(), "disabled connection migration") {
		t.Errorf("a client is not told to stay: %v", err)
	}
}

// http3Replaced: with its Envoy a gateway loses the connections by QUIC that it had. A client hears of it, or asks in vain for a while, and connects anew.
func (in *ingressScene) http3Replaced(t *testing.T) {
	client := in.http3Client(t, in.trusting())
	ask := func() error {
		resp, body, err := fetchBy(t.Context(), client, "https://shop.test/replaced", "")
		if err == nil && (resp.StatusCode != http.StatusOK || !strings.HasPrefix(body, "v1 shop.test")) {
			err = fmt.Errorf("%s %q", resp.Status, body)
		}
		return err
	}
	turns(t, ask)
	if err := in.gateway.Restart(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := world.Within(t.Context(), 5*time.Minute, ask); err != nil {
		t.Error(err)
	}
	t.Logf("the client that was there is answered again after %s", time.Since(began).Round(time.Millisecond))
}
