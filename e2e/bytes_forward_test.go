package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/whole"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestBytesArriveWholeByForwardProxy is TestBytesArriveWhole for programs that use `sallyport up`.
func TestBytesArriveWholeByForwardProxy(t *testing.T) {
	ctx, s := setScene(t, story.OnLoopback)
	f := newForwarded(t, s)
	kinds := []string{"tls", "tcp", "websocket", "http/1.0"}
	err := world.Within(ctx, 4*time.Minute, func() error {
		for _, kind := range kinds {
			if client, _ := f.exchange(ctx, kind, whole.Exchange{Shape: whole.Download, Size: 1}); client.Err != nil || client.Bytes != 1 {
				return fmt.Errorf("%s: %w", kind, client.Err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range kinds {
		for _, e := range exchangesOf(kind) {
			if e.Shape != whole.Download {
				continue // its client speaks HTTP to it, and CONNECT cannot do the others: docs/adr/0011-bytes-arrive-whole.md
			}
			t.Run(fmt.Sprintf("%s/%s/%d bytes, resting %v", strings.ReplaceAll(kind, "/", " "), e.Shape, e.Size, e.Rest), func(t *testing.T) {
				var group errgroup.Group
				for range times(e) {
					group.Go(func() error {
						client, server := f.exchange(ctx, kind, e)
						if text := judged(kind, e, client, server); text != "" {
							return errors.New(text)
						}
						return nil
					})
				}
				if err := group.Wait(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// forwarded moves bytes by a forward proxy.
type forwarded struct {
	mover
	proxy string
	roots *x509.CertPool
	ports map[string]uint16
}

func newForwarded(t *testing.T, s *story.Scene) *forwarded {
	t.Helper()
	f := &forwarded{mover: mover{server: whole.NewServer()}, proxy: s.ProxyAddr(), roots: caPool(t, s.Outside.CA.PEM()), ports: map[string]uint16{}}
	listen := func(serve func(net.Listener), kinds ...string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() { defer close(done); serve(l) }()
		t.Cleanup(func() { _ = l.Close(); <-done })
		for _, kind := range kinds {
			f.ports[kind] = netip.MustParseAddrPort(l.Addr().String()).Port()
		}
	}
	listen(f.server.ServeTCP, "tcp")
	listen(f.server.ServeHTTP1, "websocket", "http/1.0")
	listen(func(l net.Listener) {
		f.server.ServeTLS(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.Outside.CA.Issue(h.ServerName)
		}})
	}, "tls")
	for _, host := range []string{"bytes.up.test", "web.up.test"} {
		s.Outside.Set(host, time.Minute, netip.MustParseAddr("127.0.0.1"))
	}
	entries := fmt.Sprintf(bytesEntry, "bytes.up.test", "") +
		fmt.Sprintf("  - {number: %d, name: https, protocol: HTTPS}\n  - {number: %d, name: tcp, protocol: TCP}\n", f.ports["tls"], f.ports["tcp"]) +
		fmt.Sprintf(bytesEntry, "web.up.test", "") + fmt.Sprintf("  - {number: %d, name: http, protocol: HTTP}\n", f.ports["websocket"])
	if err := s.Config.Write("bytes.yaml", entries); err != nil {
		t.Fatal(err)
	}
	return f
}

// exchange does one by the proxy, and gives both ends' accounts.
func (f *forwarded) exchange(ctx context.Context, kind string, e whole.Exchange) (client, server whole.Account) {
	e.ID = f.name()
	account := f.server.Account(e.ID)
	host := hostOn("up", kind)
	authority := fmt.Sprintf("%s:%d", host, f.ports[kind])
	c, err := (&net.Dialer{Timeout: time.Minute}).DialContext(ctx, "tcp", f.proxy)
	if err != nil {
		return whole.Account{Err: err}, whole.Account{}
	}
	if err := c.SetDeadline(time.Now().Add(exchangeWithin)); err != nil {
		return whole.Account{Err: err}, whole.Account{}
	}
	switch kind {
	case "websocket":
		client = whole.Upgrade(c, "http://"+authority+"/", authority, e)
	case "http/1.0":
		client = whole.Get10(c, "http://"+authority+"/", authority, e)
	default:
		if err := connectBy(c, authority); err != nil {
			return whole.Account{Err: errors.Join(err, c.Close())}, whole.Account{}
		}
		inside := whole.Plain(c, nil)
		if kind == "tls" {
			inside = whole.Secure(tls.Client(c, &tls.Config{ServerName: host, RootCAs: f.roots, MinVersion: tls.VersionTLS12}), inside)
		}
		client = whole.Run(inside, e)
	}
	return client, ended(account)
}

// connectBy asks a proxy for a tunnel. Nothing is read beyond the answer: no server here speaks first.
func connectBy(c net.Conn, authority string) error {
	if _, err := fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", authority, authority); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReaderSize(c, 16), &http.Request{Method: http.MethodConnect})
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}
