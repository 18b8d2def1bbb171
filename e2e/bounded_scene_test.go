package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// What the tests of bounds register: a host whose server reads nothing, writes without end, or echoes, by port.
const (
	stuckHost = "stuck.test"

	stuckTCP, stuckHTTP, blastTCP, blastHTTP, echoTCP = 9001, 9002, 9003, 9004, 9005
)

const stuckEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: stuck, namespace: default}
spec:
  hosts: [stuck.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports:
  - {number: 443, name: https, protocol: HTTPS}
  - {number: 9001, name: tcp, protocol: TCP}
  - {number: 9002, name: http, protocol: HTTP}
  - {number: 9003, name: tcp-blast, protocol: TCP}
  - {number: 9004, name: http-blast, protocol: HTTP}
  - {number: 9005, name: tcp-echo, protocol: TCP}
`

// longRun says whether the tests are to be as large as what they promise, which takes minutes.
func longRun() bool { return os.Getenv("SALLYPORT_LONG") != "" }

// stuckServers listen on all ports of stuckHost until the test ends. Their kernel takes little. What they give closes
// the connections that are open.
func stuckServers(t *testing.T, s *story.Scene) (hangUp func()) {
	t.Helper()
	addOther(t.Context(), t, s)
	s.Outside.Set(stuckHost, time.Minute, otherAddr)
	var all []func()
	for _, port := range []uint16{443, stuckTCP, stuckHTTP, blastTCP, blastHTTP, echoTCP} {
		l, err := s.World.Outside.Listen(netip.AddrPortFrom(otherAddr, port).String())
		if err != nil {
			t.Fatal(err)
		}
		serve := func(net.Conn) {}
		switch port {
		case blastTCP:
			serve = func(c net.Conn) { blast(c, "") }
		case echoTCP:
			serve = func(c net.Conn) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) } // by splice(2) it would take two more files
		case blastHTTP:
			serve = func(c net.Conn) { blast(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n") }
		}
		all = append(all, acceptAll(t, l, serve))
	}
	if err := s.Config.Write("stuck.yaml", stuckEntry); err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, hangUp := range all {
			hangUp()
		}
	}
}

// acceptAll takes all connections until the test ends; its result closes those that are open.
func acceptAll(t *testing.T, l net.Listener, serve func(net.Conn)) (hangUp func()) {
	var mu sync.Mutex
	var open []net.Conn
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*net.TCPConn).SetReadBuffer(4096)
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			running.Go(func() { serve(c) })
		}
	})
	hangUp = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
		open = nil
	}
	t.Cleanup(func() { _ = l.Close(); hangUp(); running.Wait() })
	return hangUp
}

// blast writes until nobody takes it any more.
func blast(c net.Conn, first string) {
	if first != "" {
		if _, err := c.Read(make([]byte, 1024)); err != nil {
			return
		}
	}
	chunk := make([]byte, 64<<10)
	for _, err := io.WriteString(c, first); err == nil; {
		_, err = c.Write(chunk)
	}
}

// stuckAddr is where the app's pod reaches stuckHost, by its own DNS: once it is registered, an address that was made up.
func stuckAddr(ctx context.Context, t *testing.T, s *story.Scene) netip.Addr {
	t.Helper()
	var addr netip.Addr
	err := world.Within(ctx, time.Minute, func() (err error) {
		if addr, err = appOf(s).resolve(ctx, stuckHost); err == nil && !host.MadeUp4.Contains(addr) {
			err = fmt.Errorf("%s is still at %s", stuckHost, addr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// clientHello is the first record of a TLS connection to a host.
func clientHello(t *testing.T, host string) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- tls.Client(ours, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).Handshake()
	}()
	buffer := make([]byte, 16<<10)
	n, err := theirs.Read(buffer)
	if err != nil {
		t.Fatal(err)
	}
	_ = errors.Join(ours.Close(), theirs.Close())
	<-done
	return buffer[:n]
}

// feed writes until the other side has taken nothing for a while, and at most so many bytes; it gives how many.
func feed(c net.Conn, first []byte, most int) (sent int, err error) {
	chunk := make([]byte, 64<<10)
	for data := first; sent < most; data = chunk {
		_ = c.SetWriteDeadline(time.Now().Add(stuckFor))
		n, err := c.Write(data)
		sent += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// stuckFor is how long nothing has moved when a connection counts as stuck.
const stuckFor = 3 * time.Second

// peak follows a pod's Envoy and gives the most memory that it held, in bytes, when it is told to end.
func peak(ctx context.Context, pod *story.Pod) (end func() int64) {
	ctx, cancel := context.WithCancel(ctx)
	var most int64
	var running sync.WaitGroup
	running.Go(func() {
		_ = world.Poll(ctx, 100*time.Millisecond, func() error {
			if now, err := pod.EnvoyMemory(); err == nil {
				most = max(most, now)
			}
			return errors.New("go on")
		})
	})
	return func() int64 { cancel(); running.Wait(); return most }
}

// neighbour is another workload that sends requests to the gateway, one after the other, until it is told to end.
type neighbour struct {
	client *http.Client
	took   []time.Duration
}

// requests is a client of the gateway's that connects as a sidecar does, and again when its connection has ended.
func (a *attack) requests(t *testing.T, certificate tls.Certificate) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols), DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := a.connect(ctx, certificate)
		if err != nil {
			return nil, err
		}
		return c, c.SetDeadline(time.Time{})
	}}
	transport.Protocols.SetHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: time.Minute}
}

func (n *neighbour) ask(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://headers.test:8080/neighbour", nil)
	if err != nil {
		return err
	}
	began := time.Now()
	resp, err := n.client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(resp.Status)
	}
	n.took = append(n.took, time.Since(began))
	return err
}

// A neighbour's p99 is the median of those of some windows of so many requests each: what comes over the machine for a moment is
// in one of them, and what a proxy does to everybody is in all.
const (
	windowCount = 9
	windowSize  = 200
)

// usual asks in windows and gives the median of their 99th percentiles.
func (n *neighbour) usual(ctx context.Context) (time.Duration, error) {
	var of []time.Duration
	for range windowCount {
		n.took = nil
		for range windowSize {
			if err := n.ask(ctx); err != nil {
				return 0, fmt.Errorf("request %d of the neighbour: %w", len(n.took), err)
			}
		}
		slices.Sort(n.took)
		of = append(of, n.took[windowSize*99/100])
	}
	slices.Sort(of)
	return of[windowCount/2], nil
}
