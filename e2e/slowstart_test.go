package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// At port 8480 somebody else has a server that speaks first.
const slowEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: slow, namespace: default}
spec:
  hosts: [slow.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 80, targetPort: 9690, name: http, protocol: HTTP}
  - {number: 443, targetPort: 9691, name: tls, protocol: TLS}
  - {number: 8480, targetPort: 9690, name: http-other, protocol: HTTP}
  - {number: 8443, targetPort: 9691, name: tls-other, protocol: TLS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: straight, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}
spec:
  hosts: [straight.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 8480, targetPort: 9690, name: http, protocol: HTTP}
  - {number: 8443, targetPort: 9691, name: tls, protocol: TLS}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: first, namespace: default}
spec:
  hosts: [first.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 8480, targetPort: 9692, name: tcp, protocol: TCP}]
`

// A slowClient is slow to begin.
type slowClient struct {
	caller
	scheme, name string
	port         uint16
	version      string // of HTTP
}

// TestSlowClientsAreWaitedFor holds that a program may take its time between its connection and its first bytes, where clients speak first: one that is
// slow to begin (its first handshake on a busy machine) is no client of another protocol. A server at the same port that speaks first is heard.
func TestSlowClientsAreWaitedFor(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	polyglot{s.Outside.CA}.serve(t, s.World.Outside, world.OutsideAddrs[0], []uint16{9690, 9691}, 9692)
	for _, host := range []string{"slow.test", "straight.test", "first.test"} {
		s.Outside.Set(host, time.Minute, world.OutsideAddrs[0])
	}
	if err := s.Config.Write("slow.yaml", slowEntry); err != nil {
		t.Fatal(err)
	}
	a := &ambientNode{ctx: ctx, scene: s}
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	a.alpha = a.pod(t, "alpha", alphaAddr)
	sidecar, pod := appOf(s), a.alpha.caller
	for name, c := range map[string]slowClient{
		"sidecar, http":                 {sidecar, "http", "slow.test", 80, "1.1"},
		"sidecar, http at another port": {sidecar, "http", "straight.test", 8480, "1.1"},
		"sidecar, an end there":         {sidecar, "http", "straight.test", 8480, "1.0"},
		"sidecar, tls":                  {sidecar, "tls", "slow.test", 443, "1.1"},
		"sidecar, tls at another port":  {sidecar, "tls", "straight.test", 8443, "1.1"},
		"sidecar, http by a gateway":    {sidecar, "http", "slow.test", 8480, "1.1"},
		"sidecar, tls by a gateway":     {sidecar, "tls", "slow.test", 8443, "1.1"},
		"node, http":                    {pod, "http", "slow.test", 80, "1.1"},
		"node, a response's end":        {pod, "http", "slow.test", 80, "1.0"},
		"node, http at another port":    {pod, "http", "straight.test", 8480, "1.1"},
		"node, an end there":            {pod, "http", "straight.test", 8480, "1.0"},
		"node, tls":                     {pod, "tls", "slow.test", 443, "1.1"},
		"node, tls at another port":     {pod, "tls", "straight.test", 8443, "1.1"},
	} {
		if err := world.Within(ctx, time.Minute, func() error { _, err := c.try(ctx, c.scheme, c.name, c.port, "/"); return err }); err != nil {
			t.Fatal(name, err)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := c.beginLate(ctx); err != nil {
				t.Fatal(err)
			}
			if c.scheme == "http" && c.name == "straight.test" { // no gateway has a record of it
				a.recorded(t, "request", c.name, func(r record.Record) bool {
					if strings.HasPrefix(name, "sidecar") {
						return r.URLPath == c.path() && r.Workload.Principal == appID && r.Verdict == record.Allowed
					}
					return r.URLPath == c.path() && r.Workload.Principal == a.alpha.id && r.Verdict == record.Allowed && strings.HasPrefix(r.Source, a.alpha.addr.String()+":")
				})
			}
		})
	}
	for name, c := range map[string]caller{"sidecar": sidecar, "node": pod} {
		t.Run(name+", a server that speaks first", func(t *testing.T) {
			t.Parallel()
			if err := c.hears(ctx, "first.test", 8480); err != nil {
				t.Error(err)
			}
		})
	}
}

// rests is how long the client says nothing: more than other ports wait.
const rests = 3 * time.Second

// path is what it asks for.
func (s slowClient) path() string { return "/slow-" + s.version }

// beginLate connects, rests, and asks.
func (s slowClient) beginLate(ctx context.Context) error {
	c, err := s.connect(ctx, s.name, s.port)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(rests):
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if s.scheme == "tls" {
		c = tls.Client(c, &tls.Config{ServerName: s.name, InsecureSkipVerify: true})
	}
	if _, err := fmt.Fprintf(c, "GET %s HTTP/%s\r\nHost: %s\r\n\r\n", s.path(), s.version, s.name); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	_, err = heard(resp.Body)
	return err
}

// connect connects to a host by the address that the pod's DNS says.
func (c caller) connect(ctx context.Context, host string, port uint16) (net.Conn, error) {
	addr, err := c.resolve(ctx, host)
	if err != nil {
		return nil, err
	}
	return c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
}

// hears connects, and reads what the server says by itself.
func (c caller) hears(ctx context.Context, host string, port uint16) error {
	return world.Within(ctx, time.Minute, func() error {
		conn, err := c.connect(ctx, host, port)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
		_, err = heard(conn)
		return err
	})
}
