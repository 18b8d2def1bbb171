package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestTCPPorts: at ports that sallyport.tcpPorts names, a client that sends a line and shuts its side at once is answered, and one that waits for its
// server's first words has them, whoever registered the host, or nobody. First bytes are waited for at other ports longer than this test waits for anything.
func TestTCPPorts(t *testing.T) {
	needRoot(t)
	ctx, s := setScene(t, story.InNamespaces)
	addOther(ctx, t, s)
	const registered, unregistered = 2181, 2182
	for _, port := range []uint16{registered, unregistered} {
		serveRUOK(t, s.World.Outside, netip.AddrPortFrom(otherAddr, port))
	}
	for name, gateway := range map[string]string{"by-gateway": "istio-system/istio-egressgateway", "straight": "direct"} {
		s.Outside.Set(name+".ports.test", time.Minute, otherAddr)
		if err := s.Config.Write(name+".yaml", fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
			"spec: {hosts: [%[1]s.ports.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %[3]d, name: tcp, protocol: TCP}]}\n", name, gateway, registered)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.SetTCPPorts(fmt.Sprintf("[%d, %d]", registered, unregistered), "10m"); err != nil {
		t.Fatal(err)
	}
	app := appOf(s)
	for name, port := range map[string]uint16{"by-gateway": registered, "straight": registered, "nobody": unregistered} {
		addr := otherAddr
		if name != "nobody" {
			var err error
			if addr, err = app.answered(ctx, name+".ports.test"); err != nil {
				t.Fatal(err)
			}
		}
		at := netip.AddrPortFrom(addr, port)
		// the settings are in force when the server's first words come
		if err := world.Within(ctx, 3*time.Minute, func() error { return greeted(ctx, app, at) }); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for range 20 {
			if err := ruok(ctx, app, at); err != nil {
				t.Errorf("%s: a client that shuts its side at once: %v", name, err)
			}
			if err := greeted(ctx, app, at); err != nil {
				t.Errorf("%s: a client that waits for its server: %v", name, err)
			}
		}
	}
}

// What the server says first, and answers when its client has ended.
const (
	firstWords = "hello\n"
	imok       = "imok"
)

// serveRUOK greets, reads until its client has shut its side, and answers.
func serveRUOK(t *testing.T, host *world.Host, at netip.AddrPort) {
	t.Helper()
	l, err := host.Listen(at.String())
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(c net.Conn) {
		_, _ = io.WriteString(c, firstWords)
		if asked, err := io.ReadAll(c); err == nil && string(asked) == "ruok" {
			_, _ = io.WriteString(c, imok)
		}
	})
}

// ruok says what it has to say and shuts its side at once, as "echo ruok | nc" does.
func ruok(ctx context.Context, app caller, at netip.AddrPort) error {
	c, err := dialTCP(ctx, app, at)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "ruok"); err != nil {
		return err
	}
	if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return err
	}
	if answer, err := io.ReadAll(c); err != nil || string(answer) != firstWords+imok {
		return fmt.Errorf("read %q: %w", answer, err)
	}
	return nil
}

// greeted waits for the server's first words.
func greeted(ctx context.Context, app caller, at netip.AddrPort) error {
	return spoken(ctx, app, at, "")
}

// spoken says something, or nothing, and waits for the server's first words.
func spoken(ctx context.Context, app caller, at netip.AddrPort, says string) error {
	c, err := dialTCP(ctx, app, at)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.WriteString(c, says); err != nil {
		return err
	}
	words := make([]byte, len(firstWords))
	if _, err := io.ReadFull(c, words); err != nil || string(words) != firstWords {
		return fmt.Errorf("read %q: %w", words, err)
	}
	return nil
}

func dialTCP(ctx context.Context, app caller, at netip.AddrPort) (net.Conn, error) {
	c, err := app.host.DialContext(ctx, "tcp", at.String())
	if err == nil {
		err = c.SetDeadline(time.Now().Add(30 * time.Second))
	}
	return c, err
}
