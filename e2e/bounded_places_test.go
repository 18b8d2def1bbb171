package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// The egress gateway that takes few connections, and its clients.
var (
	fewAddr     = netip.MustParseAddr("10.77.0.69")
	loudAddr    = netip.MustParseAddr("10.77.0.81")
	siblingAddr = netip.MustParseAddr("10.77.0.82")
	otherAtAddr = netip.MustParseAddr("10.77.0.83")
)

// fewPlaces is how many connections a proxy takes where somebody tries to take them all.
const fewPlaces = 200

// client is somebody with a host and an identity of his own.
type client struct {
	host *world.Host
	who  tls.Certificate
}

// TestClientsLeaveEachOtherPlaces: one account opens all connections that an egress gateway takes, and again when they are ended, first with tunnels, then with requests that go on, and then with tunnels by which it says no more and whose server never ends, each on a connection
// of its own. Another account of its namespace is served soon, and one of another namespace, and they keep what they have; what was ended for them was reset, and its record says why.
func TestClientsLeaveEachOtherPlaces(t *testing.T) {
	needRoot(t)
	t.Parallel()
	a := newAttack(t)
	stuckServers(t, a.scene)
	few, err := a.scene.World.AddPod("egress-few", fewAddr)
	if err == nil {
		err = few.Etc("ssl/certs/ca-certificates.crt", a.scene.Outside.CA.PEM())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.scene.AddPlaced(t.Context(), story.Placed{
		Host: few, Address: fewAddr, Role: "router", Name: "egress-few", Namespace: "istio-system", Account: "istio-egressgateway-service-account",
		Labels: []string{"istio=egressgateway", "app=istio-egressgateway"}, Flags: []string{"--max-connections", fmt.Sprint(fewPlaces)},
	}); err != nil {
		t.Fatal(err)
	}
	at := func(name string, addr netip.Addr, principal string) client {
		host, err := a.scene.World.AddPod(name, addr)
		if err != nil {
			t.Fatal(err)
		}
		return client{host, a.mesh.issue(t, principal, time.Hour)}
	}
	const loudID = "spiffe://cluster.local/ns/team-l/sa/loud"
	loud := at("loud", loudAddr, loudID)
	others := map[string]client{
		"another account of the namespace": at("sibling", siblingAddr, "spiffe://cluster.local/ns/team-l/sa/sibling"),
		"another namespace":                at("other", otherAtAddr, "spiffe://cluster.local/ns/team-z/sa/z"),
	}
	for _, kind := range []struct {
		name  string
		hogs  func(context.Context, client) (net.Conn, error)
		opens func(context.Context, client) (net.Conn, error)
		asks  func(net.Conn) error
		long  bool
	}{
		{"tunnels", echoTunnelOf, echoTunnelOf, echoes, false},
		{"requests", goesOn, echoTunnelOf, echoes, false},
		{"half-closed tunnels", halfTunnelOf, echoTunnelOf, echoes, true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if kind.long && !longRun() {
				t.Skip("it takes two minutes until they end (SALLYPORT_LONG)")
			}
			for _, c := range others {
				if err := world.Within(t.Context(), time.Minute, func() error { return hangUp(kind.opens(t.Context(), c)) }); err != nil {
					t.Fatal(err)
				}
			}
			takeAll(t, fewPlaces, func(ctx context.Context) (net.Conn, error) { return kind.hogs(ctx, loud) })
			for name, c := range others {
				began := time.Now()
				var kept net.Conn
				if err := world.Within(t.Context(), 5*time.Minute, func() (err error) {
					kept, err = kind.opens(t.Context(), c)
					return err
				}); err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				defer func() {
					if err := errors.Join(kind.asks(kept), hangUp(kept, nil)); err != nil {
						t.Errorf("%s does not keep what it has: %v", name, err)
					}
				}()
				t.Logf("%s was served after %v", name, time.Since(began).Round(100*time.Millisecond))
			}
		})
	}
	if err := world.Within(t.Context(), 2*time.Minute, func() error {
		records, err := a.scene.AuditRecords(t.Context(), "--host", stuckHost)
		if err != nil {
			return err
		}
		said := map[string]bool{}
		for _, r := range records {
			if strings.Contains(r.Reason, "its client has most of them") {
				if r.Workload.Principal != loudID {
					t.Errorf("ended: %+v", r)
				}
				said[r.Protocol] = true
			}
		}
		if !said["tcp"] || !said["http"] {
			return fmt.Errorf("of %d records these say that room was made: %v", len(records), said)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// hangUp ends a connection at once, without a word: of one whose client says good-bye an exit waits for the server.
func hangUp(c net.Conn, err error) error {
	if err != nil {
		return err
	}
	if secure, is := c.(*tls.Conn); is {
		c = secure.NetConn()
	}
	return c.Close()
}

// takeAll has somebody open as many connections as there are places, and more, for as long as the test runs; one that has ended is opened again. It returns when most places are taken.
func takeAll(t *testing.T, places int, open func(context.Context) (net.Conn, error)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	t.Cleanup(func() { stop(); group.Wait() })
	var held atomic.Int64
	for range places + places/4 {
		group.Go(func() {
			for ctx.Err() == nil {
				c, err := open(ctx)
				if err == nil {
					held.Add(1)
					closed := context.AfterFunc(ctx, func() { _ = hangUp(c, nil) })
					_ = c.SetDeadline(time.Time{})
					_, _ = io.Copy(io.Discard, c)
					closed()
					_ = hangUp(c, nil)
					held.Add(-1)
				}
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
	}
	if err := world.Within(ctx, 4*time.Minute, func() error {
		if n := held.Load(); n < int64(places)*17/20 {
			return fmt.Errorf("%d connections are open", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// shakes opens a connection with the gateway as its sidecar would.
func (c client) shakes(ctx context.Context, protocol, name string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	raw, err := c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(fewAddr, 8443).String())
	if err != nil {
		return nil, err
	}
	_ = raw.(*net.TCPConn).SetLinger(0)
	conn := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{protocol}, ServerName: name,
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{c.who},
	})
	if err := errors.Join(conn.SetDeadline(time.Now().Add(attackTimeout)), conn.HandshakeContext(ctx)); err != nil {
		return nil, errors.Join(err, raw.Close())
	}
	return conn, nil
}

func echoTunnelOf(ctx context.Context, c client) (net.Conn, error) {
	conn, err := c.shakes(ctx, "sallyport-tcp", "outbound_.9005_._."+stuckHost)
	if err != nil {
		return nil, err
	}
	if err := echoes(conn); err != nil {
		return nil, errors.Join(err, hangUp(conn, nil))
	}
	return conn, nil
}

// halfTunnelOf opens a tunnel to a server that never ends, and says that it sends no more.
func halfTunnelOf(ctx context.Context, c client) (net.Conn, error) {
	conn, err := c.shakes(ctx, "sallyport-tcp", fmt.Sprintf("outbound_.%d_._.%s", stuckTCP, stuckHost))
	if err != nil {
		return nil, err
	}
	secure := conn.(*tls.Conn)
	if err := errors.Join(secure.CloseWrite(), secure.NetConn().(*net.TCPConn).CloseWrite()); err != nil {
		return nil, errors.Join(err, hangUp(conn, nil))
	}
	return conn, nil
}

// trickle is how often a request that goes on has one byte more.
const trickle = 2 * time.Second

// goesOn opens a connection with a request that comes byte by byte, and is never over.
func goesOn(ctx context.Context, c client) (net.Conn, error) {
	conn, err := c.shakes(ctx, "h2", "")
	if err != nil {
		return nil, err
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	for _, f := range []header{{":method", "POST"}, {":scheme", "http"}, {":authority", fmt.Sprint(stuckHost, ":", stuckHTTP)}, {":path", "/"}} {
		if err := enc.WriteField(hpack.HeaderField{Name: f.name, Value: f.value}); err != nil {
			return nil, err
		}
	}
	framer := http2.NewFramer(conn, conn)
	_, err = io.WriteString(conn, http2.ClientPreface)
	if err = errors.Join(err, framer.WriteSettings(), framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})); err == nil {
		_, err = framer.ReadFrame() // its settings; of a connection that is refused there are none
	}
	if err == nil {
		err = framer.WriteSettingsAck()
	}
	if err != nil {
		return nil, errors.Join(err, hangUp(conn, nil))
	}
	var more func()
	more = func() {
		if framer.WriteData(1, false, []byte{'x'}) == nil {
			time.AfterFunc(trickle, more)
		}
	}
	more()
	return conn, nil
}
