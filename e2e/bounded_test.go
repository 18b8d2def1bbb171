package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// What is promised: docs/adr/0016-bounded.md.
const (
	stuckCount = 240
	stuckCost  = 120 << 20 // bytes that they may cost an Envoy
	stuckRest  = 64 << 20  // bytes that may be left of it when they have ended: what a heap holds without effort
	givenBack  = 30 * time.Second
	silentGone = 15 * time.Second

	slower      = 2                    // times a neighbour's p99 may be what it is alone
	leastSlower = 2 * time.Millisecond // and what nobody notices
	mostTries   = 6                    // where something else begins and ends all the time

	// fedEach is how much a client tries to send in each of them, in bytes.
	fedEach = 6 << 20
)

// busy is what a loaded machine may add to a promised time.
const busy = 45 * time.Second

// TestBounded: what is stuck costs little, at the gateway and in the pod that caused it, and is given back; a neighbour
// goes on meanwhile.
func TestBounded(t *testing.T) {
	needRoot(t)
	a := newAttack(t)
	s, ctx := a.scene, t.Context()
	hangUp := stuckServers(t, s)
	at := stuckAddr(ctx, t, s)
	other := &neighbour{client: a.requests(t, a.mesh.issue(t, rivalID, time.Hour))}

	post := []byte("POST / HTTP/1.1\r\nHost: stuck.test:9002\r\nContent-Length: 1000000000\r\n\r\n")
	get := []byte("GET / HTTP/1.1\r\nHost: stuck.test:9004\r\n\r\n")
	kinds := []stuckKind{
		{"TCP to a server that does not read", stuckTCP, nil, fedEach},
		{"TLS to a server that does not read", 443, clientHello(t, stuckHost), fedEach},
		{"uploads to a server that does not read", stuckHTTP, post, fedEach},
		{"TCP to a client that does not read", blastTCP, []byte("."), 1},
		{"downloads to a client that does not read", blastHTTP, get, len(get)},
	}
	pods := map[string]*story.Pod{"gateway": s.Gateway, "sidecar": s.App}
	// what an Envoy needs for a kind of traffic at all is not what this is about
	for _, k := range kinds {
		k.open(ctx, t, s.World.App, at, 2, stuckFor)()
	}
	hangUp()
	before := memoryOf(t, pods)
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { k.costs(t, s, at, other, hangUp) })
	}
	t.Run("given back", func(t *testing.T) { givenBackBy(t, pods, before) })
}

// stuckKind is one way to make a proxy hold what nobody takes.
type stuckKind struct {
	name  string
	port  uint16
	first []byte
	most  int // bytes to send
}

// open opens so many, and waits until nothing moves in them. The result closes them.
func (k stuckKind) open(ctx context.Context, t *testing.T, from *world.Host, at netip.Addr, count int, settle time.Duration) (end func()) {
	t.Helper()
	conns := make([]net.Conn, count)
	var feeding sync.WaitGroup
	for i := range conns {
		c, err := from.DialContext(ctx, "tcp", netip.AddrPortFrom(at, k.port).String())
		if err != nil {
			t.Fatalf("connection %d of %d: %v", i, count, err)
		}
		_ = c.(*net.TCPConn).SetReadBuffer(4096)
		conns[i] = c
		feeding.Go(func() {
			if sent, err := feed(c, k.first, k.most); err != nil {
				t.Errorf("connection %d ended after %d bytes: %v", i, sent, err)
			}
		})
	}
	feeding.Wait()
	select {
	case <-time.After(settle):
	case <-ctx.Done():
	}
	return func() {
		for _, c := range conns {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}
}

// costs holds what they cost to what is promised.
func (k stuckKind) costs(t *testing.T, s *story.Scene, at netip.Addr, other *neighbour, hangUp func()) {
	ctx := t.Context()
	pods := map[string]*story.Pod{"gateway": s.Gateway, "sidecar": s.App}
	before, most := memoryOf(t, pods), map[string]func() int64{}
	for name, pod := range pods {
		most[name] = peak(ctx, pod)
	}
	end := k.disturbs(ctx, t, s.World.App, at, other, hangUp)
	for name := range pods {
		cost := most[name]() - before[name]
		t.Logf("%s: %d MiB, and %d MiB for %d", name, before[name]>>20, cost>>20, stuckCount)
		if cost > stuckCost {
			t.Errorf("%d cost the %s %d MiB, at most %d are promised", stuckCount, name, cost>>20, stuckCost>>20)
		}
	}
	end()
	hangUp()
}

// disturbs opens them, and holds what the neighbour notices of those that are open to what is promised. What a machine has to do
// beside is in both measurements, and is no less in the one that is taken first; who fails has more tries, since something
// else may begin in between. The result closes the last ones.
func (k stuckKind) disturbs(ctx context.Context, t *testing.T, from *world.Host, at netip.Addr, other *neighbour, hangUp func()) (end func()) {
	t.Helper()
	for try := range mostTries {
		if try > 0 {
			end()
			hangUp()
		}
		alone, err := other.usual(ctx)
		if err != nil {
			t.Fatal(err)
		}
		end = k.open(ctx, t, from, at, stuckCount, stuckFor)
		beside, err := other.usual(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("the neighbour's p99: %v alone, %v beside them", alone, beside)
		if beside <= slower*alone+leastSlower {
			return end
		}
	}
	t.Errorf("the neighbour's p99 is more than %d times what it is alone, %d times in a row", slower, mostTries)
	return end
}

// memoryOf is what the pods' Envoys hold, in bytes.
func memoryOf(t *testing.T, pods map[string]*story.Pod) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	for name, pod := range pods {
		var err error
		if out[name], err = pod.EnvoyMemory(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// givenBackBy waits until all of it has gone back to the machine, but for what an Envoy may keep.
func givenBackBy(t *testing.T, pods map[string]*story.Pod, before map[string]int64) {
	ctx, began := t.Context(), time.Now()
	for name, pod := range pods {
		err := world.Within(ctx, max(time.Until(began.Add(givenBack+busy)), time.Second), func() error {
			now, err := pod.EnvoyMemory()
			if err == nil && now > before[name]+stuckRest {
				err = fmt.Errorf("%d MiB before, %d MiB after they have ended", before[name]>>20, now>>20)
			}
			return err
		})
		if err != nil {
			memory, _ := pod.Admin(ctx, "/memory")
			t.Errorf("%s: %v\n%s", name, err, memory)
			continue
		}
		t.Logf("%s: given back after %v", name, time.Since(began).Round(time.Second))
	}
}

// TestSilentConnections: who says nothing is not kept, before the handshake, in it and after it; who is quiet in the
// middle of something is.
func TestSilentConnections(t *testing.T) {
	needRoot(t)
	t.Parallel()
	a := newAttack(t)
	count := 50
	if longRun() {
		count = 3000 / len(silences)
	}
	kept := a.quietOnes(t)
	hello := clientHello(t, "istio-egressgateway.istio-system.svc.cluster.local")
	began := time.Now()
	var waiting sync.WaitGroup
	for name, silence := range silences {
		for range count {
			c, err := silence(t.Context(), a, hello)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			waiting.Go(func() {
				defer func() { _ = c.Close() }()
				_ = c.SetReadDeadline(began.Add(silentGone + busy))
				if _, err := io.Copy(io.Discard, c); isTimeout(err) {
					t.Errorf("%s: still open after %v", name, time.Since(began).Round(time.Second))
				}
			})
		}
	}
	waiting.Wait()
	t.Logf("%d silent connections were gone after %v", count*len(silences), time.Since(began).Round(time.Second))
	for name, goesOn := range kept {
		if err := goesOn(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// silences are ways to open a connection to the gateway and to say no more.
var silences = map[string]func(ctx context.Context, a *attack, hello []byte) (net.Conn, error){
	"nothing": func(ctx context.Context, a *attack, _ []byte) (net.Conn, error) {
		return a.scene.World.Control.DialContext(ctx, "tcp", gatewayAddr)
	},
	"half a ClientHello": func(ctx context.Context, a *attack, hello []byte) (net.Conn, error) {
		return said(ctx, a, hello[:len(hello)/2])
	},
	"a ClientHello": func(ctx context.Context, a *attack, hello []byte) (net.Conn, error) { return said(ctx, a, hello) },
	"a handshake": func(ctx context.Context, a *attack, _ []byte) (net.Conn, error) {
		return a.shaken(ctx, "h2")
	},
	"a handshake for HTTP/1.1": func(ctx context.Context, a *attack, _ []byte) (net.Conn, error) {
		return a.shaken(ctx, "http/1.1")
	},
	"HTTP/2's beginning": func(ctx context.Context, a *attack, _ []byte) (net.Conn, error) {
		c, err := a.shaken(ctx, "h2")
		if err != nil {
			return nil, err
		}
		if _, err = io.WriteString(c, http2.ClientPreface); err == nil {
			err = http2.NewFramer(c, c).WriteSettings()
		}
		return c, err
	},
}

func said(ctx context.Context, a *attack, text []byte) (net.Conn, error) {
	c, err := a.scene.World.Control.DialContext(ctx, "tcp", gatewayAddr)
	if err == nil {
		_, err = c.Write(text)
	}
	return c, err
}

// shaken is a connection to the gateway after the handshake. Where the gateway does not speak the protocol, it is one
// that failed, which is as good.
func (a *attack) shaken(ctx context.Context, protocol string) (net.Conn, error) {
	raw, err := a.scene.World.Control.DialContext(ctx, "tcp", gatewayAddr)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.app},
	})
	if err := c.HandshakeContext(ctx); err != nil {
		return raw, nil
	}
	return c, nil
}

// quietOnes are connections that have carried something and rest. Each result goes on where it was.
func (a *attack) quietOnes(t *testing.T) map[string]func() error {
	t.Helper()
	ctx := t.Context()
	app := appOf(a.scene)
	dial := func(host string, port uint16) net.Conn {
		addr, err := app.answered(ctx, host) // before that it is let through, around the gateway
		if err != nil {
			t.Fatal(err)
		}
		c, err := app.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		return c
	}
	plain := dial("headers.test", 8080)
	secure := tls.Client(dial("external.com", 443), &tls.Config{ServerName: "external.com", RootCAs: app.roots.RootCAs, MinVersion: tls.VersionTLS12})
	kept := map[string]func() error{
		"a kept connection for requests": func() error { return oneRequest(plain, "headers.test:8080") },
		"a kept connection in a tunnel":  func() error { return oneRequest(secure, "external.com") },
	}
	for name, ask := range kept {
		if err := ask(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return kept
}

// oneRequest sends a request and leaves the connection as it was.
func oneRequest(c net.Conn, host string) error {
	if _, err := fmt.Fprintf(c, "GET /kept HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
