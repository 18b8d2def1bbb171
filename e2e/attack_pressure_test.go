package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// forgottenEntry is a pattern of whose names many are asked for, once each.
const forgottenEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: once, namespace: team-a}
spec:
  hosts: ["*.once.test"]
  location: MESH_EXTERNAL
  resolution: DYNAMIC_DNS
  ports: [{number: 8080, name: http, protocol: HTTP}, {number: 443, name: https, protocol: HTTPS}]
`

// namesForgotten: names below a pattern that nobody uses any more give their place back soon, whatever TTL their owner chose.
func (a *attack) namesForgotten(t *testing.T) {
	const count = 50
	if err := a.scene.Config.Write("once.yaml", forgottenEntry); err != nil {
		t.Fatal(err)
	}
	rival := a.requests(t, a.mesh.issue(t, rivalID, time.Hour))
	held := func() (int, error) {
		stats, err := a.scene.Gateway.Admin(t.Context(), "/stats?filter=dns_cache.egress-60s.num_hosts")
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(string(stats[bytes.LastIndexByte(stats, ':')+1:])))
	}
	ask := func(i int) error {
		host := fmt.Sprintf("n%d.once.test", i)
		resp, err := rival.Get("https://" + host + ":8080/once")
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s (%w)", host, resp.Status, err)
		}
		return nil
	}
	for i := range count {
		a.scene.Outside.Set(fmt.Sprintf("n%d.once.test", i), 24*time.Hour, world.OutsideAddrs[3])
	}
	before := 0
	if err := world.Within(t.Context(), 4*time.Minute, func() (err error) { // beside each other, and again: the first may be forgotten before the last has come
		var asking errgroup.Group
		for i := range count {
			asking.Go(func() error { return ask(i) })
		}
		if err := asking.Wait(); err != nil {
			return err
		}
		if before, err = held(); err == nil && before < count {
			err = fmt.Errorf("%d names are held", before)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := world.Within(t.Context(), 6*time.Minute, func() error {
		if now, err := held(); err != nil || now > before-count {
			return fmt.Errorf("of %d names %d are held (%w)", before, now, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	t.Logf("after %v", time.Since(began).Round(time.Second))
}

// headsEntry is a host whose server takes connections and answers nothing.
const headsEntry = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: heads, namespace: team-a}
spec:
  hosts: [heads.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 8081, name: http, protocol: HTTP}]
`

// poorAddr is where an egress gateway is that has little memory.
var poorAddr = netip.MustParseAddr("10.77.0.67")

// heads: a pod sends requests with large heads, which no window holds back, and nothing more. The gateway gets rid of them, and others are served again soon.
func (a *attack) heads(t *testing.T) {
	a.scene.Outside.Set("heads.test", theTTL, world.OutsideAddrs[3])
	dumb, err := a.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[3], 8081).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dumb.Close() })
	if err := a.scene.Config.Write("heads.yaml", headsEntry); err != nil {
		t.Fatal(err)
	}
	host, err := a.scene.World.AddPod("egress-poor", poorAddr)
	if err != nil {
		t.Fatal(err)
	}
	if err := host.Etc("ssl/certs/ca-certificates.crt", a.scene.Outside.CA.PEM()); err != nil {
		t.Fatal(err)
	}
	poor, err := a.scene.AddPlaced(t.Context(), story.Placed{
		Host: host, Address: poorAddr, Role: "router", Name: "egress-poor", Namespace: "istio-system", Account: "istio-egressgateway-service-account",
		Labels: []string{"istio=egressgateway", "app=istio-egressgateway"}, Flags: []string{"--memory-limit", "128Mi"},
	})
	if err != nil {
		t.Fatal(err)
	}
	at, rival := netip.AddrPortFrom(poorAddr, 8443).String(), a.mesh.issue(t, rivalID, time.Hour)
	served := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), attackTimeout)
		defer cancel()
		c, err := a.connectTo(ctx, at, a.app)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if got := askByHTTP2(t, c, "", get("headers.test:8080", "/served")...); got.status != "200" {
			return errors.New(got.String())
		}
		return nil
	}
	if err := world.Within(t.Context(), 2*time.Minute, served); err != nil {
		t.Fatal(err)
	}
	var sending sync.WaitGroup
	for range 3 {
		c, err := a.connectTo(t.Context(), at, rival)
		if err != nil {
			continue // it has no memory any more: that is as good
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Time{})
		sending.Go(func() { writeHeads(c, "heads.test:8081", 10*headsOfEach) })
	}
	sending.Wait()
	othersAreServed(t, poor, served)
}
