package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

var (
	tightAddr   = netip.MustParseAddr("10.77.0.84")
	strangeAddr = netip.MustParseAddr("10.77.0.85")
	politeAddr  = netip.MustParseAddr("10.77.0.86")
)

// tightPort is where the app of the pod listens whose proxy takes few connections.
const tightPort = 9000

const tightObjects = `apiVersion: v1
kind: Service
metadata: {name: tight, namespace: default}
spec:
  clusterIP: 10.96.0.84
  selector: {app: tight}
  ports:
  - {name: tcp, port: 9000, targetPort: 9000}
---
apiVersion: v1
kind: Pod
metadata: {name: tight-1, namespace: default, labels: {app: tight}}
spec: {serviceAccountName: tight, containers: []}
status: {podIP: 10.77.0.84, phase: Running}
`

// TestPodsLeaveEachOtherPlaces: somebody takes all connections that a pod's proxy takes, by TCP, and again when they are ended; somebody else is served soon. So it is at a node where one pod takes all that the
// node's proxy has: another pod's leave soon.
func TestPodsLeaveEachOtherPlaces(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	t.Run("what comes to a pod", func(t *testing.T) { placesOfAPod(t, s) })
	t.Run("what a node's pods have", func(t *testing.T) { placesOfANode(ctx, t, s) })
}

func placesOfAPod(t *testing.T, s *story.Scene) {
	if err := s.Config.Write("tight.yaml", tightObjects); err != nil {
		t.Fatal(err)
	}
	hosts := map[string]*world.Host{}
	for name, at := range map[string]netip.Addr{"tight": tightAddr, "strange": strangeAddr, "polite": politeAddr} {
		host, err := s.World.AddPod(name, at)
		if err != nil {
			t.Fatal(err)
		}
		hosts[name] = host
	}
	if _, err := s.AddPlaced(t.Context(), story.Placed{
		Host: hosts["tight"], Address: tightAddr, Role: "sidecar", Name: "tight-1", Namespace: "default", Account: "tight",
		Labels: []string{"app=tight"}, Flags: []string{"--max-connections", fmt.Sprint(fewPlaces)},
	}); err != nil {
		t.Fatal(err)
	}
	app, err := hosts["tight"].Listen(netip.AddrPortFrom(tightAddr, tightPort).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = app.Close() })
	go func() {
		for {
			c, err := app.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	leaveRoom(t, func(ctx context.Context, name string) (net.Conn, error) {
		return echoed(ctx, hosts[name], netip.AddrPortFrom(tightAddr, tightPort))
	})
}

func placesOfANode(ctx context.Context, t *testing.T, s *story.Scene) {
	a := &ambientNode{ctx: ctx, scene: s}
	a.serve(t)
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr, "--max-connections", fmt.Sprint(fewPlaces)); err != nil {
		t.Fatal(err)
	}
	pods := map[string]*ambientPod{"strange": a.pod(t, "alpha", alphaAddr), "polite": a.pod(t, "beta", betaAddr)}
	const host = "straight.ambient.test"
	at := netip.AddrPort{}
	if err := world.Within(ctx, time.Minute, func() error {
		addr, err := pods["polite"].resolve(ctx, host)
		at = netip.AddrPortFrom(addr, ambientEcho)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	leaveRoom(t, func(ctx context.Context, name string) (net.Conn, error) { return echoed(ctx, pods[name].host, at) })
}

// leaveRoom has "strange" take all places, and "polite" be served all the same, and keep what he has.
func leaveRoom(t *testing.T, open func(ctx context.Context, name string) (net.Conn, error)) {
	t.Helper()
	if err := world.Within(t.Context(), time.Minute, func() error { return hangUp(open(t.Context(), "polite")) }); err != nil {
		t.Fatal(err)
	}
	takeAll(t, fewPlaces, func(ctx context.Context) (net.Conn, error) { return open(ctx, "strange") })
	began := time.Now()
	var kept net.Conn
	if err := world.Within(t.Context(), 3*time.Minute, func() (err error) {
		kept, err = open(t.Context(), "polite")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("served after %v", time.Since(began).Round(100*time.Millisecond))
	if err := errors.Join(echoes(kept), hangUp(kept, nil)); err != nil {
		t.Errorf("he does not keep what he has: %v", err)
	}
}

// echoed opens a connection to somebody who says again what he is told, and tries it.
func echoed(ctx context.Context, from *world.Host, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attackTimeout)
	defer cancel()
	c, err := from.DialContext(ctx, "tcp", to.String())
	if err != nil {
		return nil, err
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	if err := echoes(c); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}
