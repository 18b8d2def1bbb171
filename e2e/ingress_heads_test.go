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
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// smallAddr is where an ingress gateway is that has little memory.
var smallAddr = netip.MustParseAddr("10.77.0.66")

// The requests whose heads are large, and whose bodies never come: more than the gateway has memory for.
const (
	largeHead   = 80 << 10 // bytes, of 96 that are taken
	headsOfEach = 100      // a connection's
	headSenders = 12
)

// heads: a stranger sends requests with large heads, which no window holds back, and nothing more. The gateway gets rid of them, and others are
// served again soon.
func (in *ingressScene) heads(t *testing.T) {
	host, err := in.scene.World.AddPod("ingress-small", smallAddr)
	if err != nil {
		t.Fatal(err)
	}
	small, err := in.scene.AddPlaced(t.Context(), story.Placed{
		Host: host, Address: smallAddr, Role: "router", Name: "ingress-small", Namespace: "istio-ingress", Account: "istio-ingressgateway-service-account",
		Labels: []string{"istio=ingressgateway"}, Flags: []string{"--memory-limit", "128Mi"},
	})
	if err != nil {
		t.Fatal(err)
	}
	served := in.servesPlain(t, smallAddr)
	if err := world.Within(t.Context(), time.Minute, served); err != nil {
		t.Fatal(err)
	}
	for range headSenders {
		in.sendHeads(t, netip.AddrPortFrom(smallAddr, 8443))
	}
	othersAreServed(t, small, served)
	in.crowd(t, netip.AddrPortFrom(smallAddr, 8443))
	othersAreServed(t, small, served)
}

// crowdSize is how many connections somebody opens who says nothing behind his handshakes (docs/adr/0143-what-is-closed-as-it-comes-is-counted.md).
const crowdSize = 3000

// crowd opens them from one address. Those that the gateway has no memory for any more it refuses, which is as good.
func (in *ingressScene) crowd(t *testing.T, at netip.AddrPort) {
	t.Helper()
	config := in.trusting()
	config.ServerName = "shop.test"
	var shaken atomic.Int64
	var group errgroup.Group
	group.SetLimit(64)
	for range crowdSize {
		group.Go(func() error {
			raw, err := in.client.DialContext(t.Context(), "tcp", at.String())
			if err != nil {
				return nil
			}
			t.Cleanup(func() { _ = raw.Close() })
			_ = raw.SetDeadline(time.Now().Add(time.Minute))
			if tls.Client(raw, config).HandshakeContext(t.Context()) == nil {
				shaken.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait()
	t.Logf("%d of %d connections have shaken hands, and say nothing", shaken.Load(), crowdSize)
}

// othersAreServed waits until others are served 50 times in a row by a pod whose memory somebody fills.
func othersAreServed(t *testing.T, by *story.Pod, served func() error) {
	t.Helper()
	most, inARow, began := "", 0, time.Now()
	if err := world.Within(t.Context(), 3*time.Minute, func() error {
		if stats, err := by.Admin(t.Context(), "/stats?filter=fixed_heap.pressure"); err == nil {
			most = max(most, fmt.Sprintf("%3s", strings.TrimSpace(string(stats[bytes.LastIndexByte(stats, ':')+1:]))))
		}
		if err := served(); err != nil {
			inARow = 0
			return fmt.Errorf("with %s%% of the heap: %w", most, err)
		}
		if inARow++; inARow < 50 {
			return errors.New("go on")
		}
		return nil
	}); err != nil {
		t.Errorf("others are not served: %v", err)
	}
	t.Logf("the heap was full to %s%%; others were served 50 times in a row after %v", most, time.Since(began).Round(time.Second))
}

// sendHeads opens a connection, and sends as many requests as it may have.
func (in *ingressScene) sendHeads(t *testing.T, at netip.AddrPort) {
	t.Helper()
	raw, err := in.client.DialContext(t.Context(), "tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() })
	config := in.trusting()
	config.ServerName, config.NextProtos = "shop.test", []string{"h2"}
	c := tls.Client(raw, config)
	if err := c.HandshakeContext(t.Context()); err != nil {
		return // it has no memory any more: that is as good
	}
	writeHeads(c, "shop.test", headsOfEach)
}

// writeHeads sends so many requests with large heads, without their bodies, and reads nothing of what comes.
func writeHeads(c net.Conn, authority string, count int) {
	go func() { _, _ = io.Copy(io.Discard, c) }()
	_ = c.SetWriteDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, http2.ClientPreface)
	framer := http2.NewFramer(c, nil)
	_ = framer.WriteSettings()
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range append(get(authority, "/heads"), header{"x-large", strings.Repeat("~", largeHead/2)}, header{"x-larger", strings.Repeat("~", largeHead/2)}) {
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: f.value, Sensitive: true}) // in no table
	}
	for i := range uint32(count) {
		id, rest := 2*i+1, block.Bytes()
		n := min(len(rest), 16<<10)
		if framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: rest[:n], EndHeaders: n == len(rest)}) != nil {
			return
		}
		for rest = rest[n:]; len(rest) > 0; rest = rest[n:] {
			n = min(len(rest), 16<<10)
			if framer.WriteContinuation(id, n == len(rest), rest[:n]) != nil {
				return
			}
		}
	}
}

// servesPlain asks an ingress gateway for a page, on a connection of its own.
func (in *ingressScene) servesPlain(t *testing.T, gateway netip.Addr) func() error {
	return func() error {
		transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return in.client.DialContext(ctx, network, netip.AddrPortFrom(gateway, 8080).String())
		}}
		resp, body, err := fetchBy(t.Context(), transport, "http://plain.test/", "")
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", resp.Status, body)
		}
		return err
	}
}
