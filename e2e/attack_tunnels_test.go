package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

const (
	tunnelsEach = 200 // of each client to each host
	atOnce      = 40  // of each client
	rivalID     = "spiffe://cluster.local/ns/team-a/sa/rival"
)

// manyTunnels: two clients open tunnels to two hosts through each other, over one connection each. Every tunnel leads
// to its own host and is recorded as its own client's, whatever the gateway shares between them.
func (a *attack) manyTunnels(t *testing.T) {
	roots := caPool(t, a.scene.Outside.CA.PEM())
	servers := map[string]netip.Addr{"external.com": world.OutsideAddrs[0], "second.com": world.OutsideAddrs[2]}
	sources := map[string]netip.AddrPort{}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a.reach(ctx, t, roots, servers)
	group, ctx := errgroup.WithContext(ctx)
	for id, certificate := range map[string]tls.Certificate{appID: a.app, rivalID: a.mesh.issue(t, rivalID, time.Hour)} {
		client, source, err := a.multiplexed(ctx, certificate)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = client.Close() }()
		sources[id] = source
		group.Go(func() error {
			own, ctx := errgroup.WithContext(ctx)
			own.SetLimit(atOnce)
			for i := range tunnelsEach * len(servers) {
				host := [...]string{"external.com", "second.com"}[i%2]
				own.Go(func() error {
					if err := hello(ctx, client, roots, host, servers[host]); err != nil {
						return fmt.Errorf("tunnel %d of %s to %s: %w", i, id, host, err)
					}
					return nil
				})
			}
			return own.Wait()
		})
	}
	if err := group.Wait(); err != nil {
		for host := range servers {
			a.logClosed(t, host)
		}
		t.Fatal(err)
	}
	for id, source := range sources {
		for host, server := range servers {
			a.recordedAll(t, id, source, host, server)
		}
	}
}

// hello speaks TLS to the host inside a tunnel and checks who answers.
func hello(ctx context.Context, client *http.ClientConn, roots *x509.CertPool, host string, server netip.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	inside, err := openTunnel(ctx, client, host+":443")
	if err != nil {
		return err
	}
	defer func() { _ = inside.Close() }()
	c := tls.Client(inside, &tls.Config{ServerName: host, RootCAs: roots, MinVersion: tls.VersionTLS12})
	if err := c.HandshakeContext(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c, "GET /tunnel HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host); err != nil {
		return err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && !strings.HasPrefix(string(body), host+" at "+server.String()+" ") {
		err = fmt.Errorf("the answer is %q", body)
	}
	return err
}

// reach waits until a tunnel leads to each host, by a connection of its own. One that nobody used before is resolved first, and for a minute after others have asked for names
// that nobody answers there may be no room for that.
func (a *attack) reach(ctx context.Context, t *testing.T, roots *x509.CertPool, servers map[string]netip.Addr) {
	t.Helper()
	client, _, err := a.multiplexed(ctx, a.app)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	for host, server := range servers {
		if err := world.Within(ctx, 3*time.Minute, func() error { return hello(ctx, client, roots, host, server) }); err != nil {
			a.logClosed(t, host)
			t.Fatalf("%s: %v", host, err)
		}
	}
}

// logClosed says what the log has of a host's connections that did not come to a good end.
func (a *attack) logClosed(t *testing.T, host string) {
	t.Helper()
	records, err := a.scene.AuditRecords(t.Context(), "--host", host)
	if err != nil {
		t.Log(err)
	}
	for _, r := range records {
		if r.Verdict != record.Allowed || len(r.Flags) > 0 {
			t.Logf("%+v", r)
		}
	}
}

// recordedAll waits until there is a record of each of a client's tunnels to a host, and not one that mixes them up.
func (a *attack) recordedAll(t *testing.T, id string, source netip.AddrPort, host string, server netip.Addr) {
	t.Helper()
	err := world.Within(t.Context(), 2*time.Minute, func() error {
		records, err := a.scene.AuditRecords(t.Context(), "--host", host)
		if err != nil {
			return err
		}
		found := 0
		for _, r := range records {
			if r.Source != source.String() {
				continue
			}
			found++
			if r.Workload.Principal != id || r.SNI != host || r.Authority != host+":443" || r.Verdict != record.Allowed ||
				!strings.HasPrefix(r.Destination, server.String()+":") || !strings.HasSuffix(r.Cluster, "|"+host) {
				t.Errorf("a tunnel of %s to %s is recorded as %+v", id, host, r)
				return nil
			}
		}
		if found != tunnelsEach {
			return fmt.Errorf("%d records of %s's tunnels to %s, want %d", found, id, host, tunnelsEach)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
