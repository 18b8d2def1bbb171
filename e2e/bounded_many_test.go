package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/bounds"
)

// manyTunnels is how many tunnels one gateway is promised to serve at a time, where it may open enough files.
const manyTunnels = 10_000

// TestManyTunnelsAtOnce: so many are open together, and each carries something when all of them are there. With
// SALLYPORT_LONG=1 as many as are promised.
func TestManyTunnelsAtOnce(t *testing.T) {
	needRoot(t)
	for name, open := range map[string]func(*attack, context.Context) (net.Conn, error){
		"as sidecars open them": (*attack).echoPlain, "by CONNECT": (*attack).echoTunnel,
	} {
		t.Run(name, func(t *testing.T) { // each at a gateway of its own, which has room for no more
			a := newAttack(t)
			stuckServers(t, a.scene)
			a.manyAtOnce(t, func(ctx context.Context) (net.Conn, error) { return open(a, ctx) })
		})
	}
}

// opener opens a tunnel to the echo, and tries it.
type opener func(context.Context) (net.Conn, error)

func (a *attack) manyAtOnce(t *testing.T, open opener) {
	count := 500
	if longRun() {
		count = manyTunnels
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(bounds.Connections(limit.Max, bounds.Sessions(limit.Max, math.MaxUint64))) - 100; count > most {
		t.Logf("%d tunnels need more than the %d files that this machine lets a process open: %d are tried", count, limit.Max, most)
		count = most
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	before, err := a.scene.Gateway.EnvoyMemory()
	if err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, time.Minute, func() error {
		c, err := open(ctx)
		if err == nil {
			err = c.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	conns := openMany(ctx, t, count, open)
	opened, err := a.scene.Gateway.EnvoyMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d tunnels are open after %v and cost the gateway %d KiB each", count, time.Since(began).Round(time.Second), (opened-before)>>10/int64(count))
	var echoing errgroup.Group
	echoing.SetLimit(100)
	for _, c := range conns {
		echoing.Go(func() error { return echoes(c) })
	}
	if err := echoing.Wait(); err != nil {
		t.Error(err)
	}
}

// openMany opens tunnels to the echo, each over a connection of its own.
func openMany(ctx context.Context, t *testing.T, count int, open opener) []net.Conn {
	t.Helper()
	conns := make([]net.Conn, count)
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close()
			}
		}
	})
	opening, ctx := errgroup.WithContext(ctx)
	opening.SetLimit(50)
	for i := range conns {
		opening.Go(func() (err error) {
			if conns[i], err = open(ctx); err != nil {
				err = fmt.Errorf("tunnel %d: %w", i, err)
			}
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		t.Fatal(err)
	}
	return conns
}

// echoPlain opens one as a sidecar does: the name of its TLS connection says whereto, and what is inside is nobody's business.
func (a *attack) echoPlain(ctx context.Context) (net.Conn, error) {
	raw, err := a.scene.World.Control.DialContext(ctx, "tcp", gatewayAddr)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, &tls.Config{
		InsecureSkipVerify: true, NextProtos: []string{"sallyport-tcp"}, ServerName: "outbound_.9005_._." + stuckHost,
		MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{a.app}, // sidecars speak 1.2
	})
	if err := errors.Join(c.SetDeadline(time.Now().Add(time.Minute)), c.HandshakeContext(ctx), echoes(c)); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// echoTunnel opens one by CONNECT, and tries it.
func (a *attack) echoTunnel(ctx context.Context) (net.Conn, error) {
	c, err := a.shaken(ctx, "http/1.1")
	if err != nil {
		return nil, err
	}
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, err = io.WriteString(c, "CONNECT stuck.test:9005 HTTP/1.1\r\nHost: stuck.test:9005\r\n\r\n")
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(bufio.NewReaderSize(oneByOne{c}, 16), &http.Request{Method: http.MethodConnect}); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
	}
	if err == nil {
		err = echoes(c)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// oneByOne reads no byte ahead.
type oneByOne struct{ io.Reader }

func (r oneByOne) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(len(p), 1)]) }

// echoes says something in a tunnel and waits for it to come back.
func echoes(c net.Conn) error {
	const text = "are you there?"
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, text); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, len(text)))
	return err
}
