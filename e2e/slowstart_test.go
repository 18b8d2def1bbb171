package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

const slowEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: slow, namespace: default}
spec:
  hosts: [slow.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 80, targetPort: 9690, name: http, protocol: HTTP}, {number: 443, targetPort: 9691, name: tls, protocol: TLS}]
`

// TestSlowClientsAreWaitedFor holds that a program may take its time between its connection and its first bytes, at the ports of the web: one that is
// slow to begin (its first handshake on a busy machine) is no client of another protocol.
func TestSlowClientsAreWaitedFor(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	polyglot{s.Outside.CA}.serve(t, s.World.Outside, world.OutsideAddrs[0], []uint16{9690, 9691})
	s.Outside.Set("slow.test", time.Minute, world.OutsideAddrs[0])
	if err := s.Config.Write("slow.yaml", slowEntry); err != nil {
		t.Fatal(err)
	}
	app := appOf(s)
	for scheme, port := range map[string]uint16{"http": 80, "tls": 443} {
		if err := world.Within(ctx, time.Minute, func() error { _, err := app.try(ctx, scheme, "slow.test", port, "/"); return err }); err != nil {
			t.Fatal(err)
		}
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			if err := beginLate(ctx, app, scheme, port); err != nil {
				t.Error(err)
			}
		})
	}
}

// rests is how long the client says nothing: more than other ports wait.
const rests = 3 * time.Second

// beginLate connects, rests, and asks.
func beginLate(ctx context.Context, app caller, scheme string, port uint16) error {
	addr, err := app.resolve(ctx, "slow.test")
	if err != nil {
		return err
	}
	var c net.Conn
	if c, err = app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String()); err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rests):
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if scheme == "tls" {
		c = tls.Client(c, &tls.Config{ServerName: "slow.test", InsecureSkipVerify: true})
	}
	if _, err := fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: slow.test\r\n\r\n"); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d (%w)", resp.StatusCode, err)
	}
	return nil
}
