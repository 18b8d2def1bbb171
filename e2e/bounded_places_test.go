package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// fewAddr is where an egress gateway is that takes few connections.
var fewAddr = netip.MustParseAddr("10.77.0.69")

// fewPlaces is how many it takes.
const fewPlaces = 200

// TestOneNamespaceLeavesRoom: the clients of one namespace open more tunnels than a gateway has places for, and rest. Another namespace's client gets one soon, whatever
// tunnels may rest for, and keeps it; what was ended for it was reset, and its record says why.
func TestOneNamespaceLeavesRoom(t *testing.T) {
	needRoot(t)
	t.Parallel()
	a := newAttack(t)
	stuckServers(t, a.scene)
	host, err := a.scene.World.AddPod("egress-few", fewAddr)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Etc("ssl/certs/ca-certificates.crt", a.scene.Outside.CA.PEM()); err != nil {
		t.Fatal(err)
	}
	if _, err := a.scene.AddPlaced(t.Context(), story.Placed{
		Host: host, Address: fewAddr, Role: "router", Name: "egress-few", Namespace: "istio-system", Account: "istio-egressgateway-service-account",
		Labels: []string{"istio=egressgateway", "app=istio-egressgateway"}, Flags: []string{"--max-connections", fmt.Sprint(fewPlaces)},
	}); err != nil {
		t.Fatal(err)
	}
	other := a.mesh.issue(t, "spiffe://cluster.local/ns/team-z/sa/z", time.Hour)
	tunnel := func(ctx context.Context, who tls.Certificate) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, attackTimeout)
		defer cancel()
		raw, err := a.scene.World.Control.DialContext(ctx, "tcp", netip.AddrPortFrom(fewAddr, 8443).String())
		if err != nil {
			return nil, err
		}
		c := tls.Client(raw, &tls.Config{
			InsecureSkipVerify: true, NextProtos: []string{"sallyport-tcp"}, ServerName: "outbound_.9005_._." + stuckHost,
			MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12, Certificates: []tls.Certificate{who},
		})
		if err := errors.Join(c.SetDeadline(time.Now().Add(attackTimeout)), c.HandshakeContext(ctx), echoes(c)); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return c, nil
	}
	if err := world.Within(t.Context(), time.Minute, func() error {
		c, err := tunnel(t.Context(), other)
		if err == nil {
			err = c.Close()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int64
	var opening errgroup.Group
	opening.SetLimit(20)
	for range fewPlaces + 50 {
		opening.Go(func() error {
			if c, err := tunnel(t.Context(), a.app); err == nil {
				t.Cleanup(func() { _ = c.Close() })
				opened.Add(1)
			}
			return nil
		})
	}
	_ = opening.Wait()
	if opened.Load() < fewPlaces*9/10 {
		t.Fatalf("%d tunnels were opened", opened.Load())
	}
	began := time.Now()
	var kept net.Conn
	if err := world.Within(t.Context(), time.Minute, func() (err error) {
		kept, err = tunnel(t.Context(), other)
		return err
	}); err != nil {
		t.Fatalf("with %d tunnels of somebody else's: %v", opened.Load(), err)
	}
	t.Logf("%d tunnels of one namespace; another's was served after %v", opened.Load(), time.Since(began).Round(time.Second))
	defer func() { _ = kept.Close() }()
	if err := world.Within(t.Context(), time.Minute, func() error {
		records, err := a.scene.AuditRecords(t.Context(), "--host", stuckHost)
		if err != nil {
			return err
		}
		for _, r := range records {
			if strings.Contains(r.Reason, "more than half of those") {
				if r.Workload.Principal != appID {
					t.Errorf("ended: %+v", r)
				}
				return nil
			}
		}
		return fmt.Errorf("none of %d records says that it made room", len(records))
	}); err != nil {
		t.Error(err)
	}
	_ = kept.SetDeadline(time.Now().Add(time.Minute))
	if err := echoes(kept); err != nil {
		t.Errorf("the other namespace's tunnel: %v", err)
	}
}
