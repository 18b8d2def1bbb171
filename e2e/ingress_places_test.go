package e2e

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/sidecar/bounds"
)

// narrowAddr is where an ingress gateway is that takes few connections.
var narrowAddr = netip.MustParseAddr("10.77.0.68")

// narrowPlaces is how many it takes; with SALLYPORT_LONG=1 as many as the machine lets it have files for.
func narrowPlaces(t *testing.T) int {
	if !longRun() {
		return 100
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return int(bounds.Connections(limit.Max, bounds.Sessions(limit.Max, math.MaxUint64)))
}

// allPlaces: a stranger shakes hands on all connections that a gateway may have, with and without a request, and rests. Others are served again within seconds, and not
// when connections have rested for as long as they may, which is a quarter of an hour.
func (in *ingressScene) allPlaces(t *testing.T) {
	most := narrowPlaces(t)
	host, err := in.scene.World.AddPod("ingress-narrow", narrowAddr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.scene.AddPlaced(t.Context(), story.Placed{
		Host: host, Address: narrowAddr, Role: "router", Name: "ingress-narrow", Namespace: "istio-ingress", Account: "istio-ingressgateway-service-account",
		Labels: []string{"istio=ingressgateway"}, Flags: []string{"--max-connections", fmt.Sprint(most)},
	}); err != nil {
		t.Fatal(err)
	}
	served := in.servesPlain(t, narrowAddr)
	if err := world.Within(t.Context(), time.Minute, served); err != nil {
		t.Fatal(err)
	}
	alone := inTurns(served)
	var taken atomic.Int64
	var group errgroup.Group
	group.SetLimit(16)
	for i := range most + most/10 + 50 {
		group.Go(func() error {
			if in.rest(t, netip.AddrPortFrom(narrowAddr, 8443), i%2 == 0) {
				taken.Add(1)
			}
			return nil
		})
	}
	_ = group.Wait()
	if int(taken.Load()) < most*3/4 {
		t.Fatalf("%d connections were taken", taken.Load())
	}
	began, refused := time.Now(), 0
	inARow := 0
	if err := world.Within(t.Context(), 2*time.Minute, func() error {
		if err := served(); err != nil {
			inARow = 0
			refused++
			return err
		}
		if inARow++; inARow < 50 {
			return errors.New("go on")
		}
		return nil
	}); err != nil {
		t.Errorf("others are not served: %v", err)
	}
	t.Logf("%d times one of %d places was taken by somebody who rests; others were refused %d times, and served 50 times in a row after %v", taken.Load(), most, refused, time.Since(began).Round(time.Second))
	t.Logf("new connections of others, with a request: %s alone, %s beside them", alone, inTurns(served))
}

// inTurns is how long 300 requests take that are asked one after the other; those that fail count, too.
func inTurns(served func() error) string {
	took := make([]time.Duration, 300)
	for i := range took {
		began := time.Now()
		_ = served()
		took[i] = time.Since(began)
	}
	return quantiles(took)
}

// rest opens a connection that stays until the test ends, and says whether it was taken.
func (in *ingressScene) rest(t *testing.T, at netip.AddrPort, asks bool) bool {
	t.Helper()
	raw, err := in.client.DialContext(t.Context(), "tcp", at.String())
	if err != nil {
		return false
	}
	t.Cleanup(func() { _ = raw.Close() })
	_ = raw.SetDeadline(time.Now().Add(time.Minute))
	config := in.trusting()
	config.ServerName, config.NextProtos = "shop.test", []string{"http/1.1"}
	c := tls.Client(raw, config)
	return c.HandshakeContext(t.Context()) == nil && (!asks || oneRequest(c, "shop.test") == nil)
}
