package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// endingHost is one outside that has a waypoint, and says something for as long as anybody likes, at endingPort.
const (
	endingHost = "ending.waypoint.test"
	endingPort = 9690
)

// ends holds that a request which is under way by the waypoint ends when an edit denies it to who asks, whom no node asks about it, and no other one does.
func (w *waypointTest) ends(t *testing.T) {
	l, err := w.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], endingPort).String())
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(c net.Conn) { _ = upgraded(c) })
	w.scene.Outside.Set(endingHost, time.Minute, world.OutsideAddrs[0])
	w.write(t, "ending.yaml", fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: ending, namespace: delta}\n"+
		"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}]}\n", endingHost, endingPort))
	allow := func(ns, paths string) {
		w.write(t, "ending-"+ns+".yaml", fmt.Sprintf("apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: ending, namespace: %s}\n"+
			"spec: {rules: [{name: paths, hosts: [%s], paths: [%s], action: Allow}]}\n", ns, endingHost, paths))
	}
	allow("far", "/goes, /stays")
	o := &openEnds{policed: policed{ctx: w.ctx, scene: w.scene}, callers: nil}
	gone, stay := w.under(t, "one", "/goes"), w.under(t, "one", "/stays")
	since := time.Now()
	allow("far", "/stays")
	o.end(t, since, []*talk{gone}, []*talk{stay})
	o.onwards(t, []*talk{stay})
	if err := w.scene.Config.Remove("ending-far.yaml"); err != nil {
		t.Fatal(err)
	}
}

// under is a request of an account of namespace far that is under way, by HBONE.
func (w *waypointTest) under(t *testing.T, account, path string) *talk {
	t.Helper()
	k := &talk{what: account + " asks " + path + " by the waypoint"}
	if err := world.Within(w.ctx, time.Minute, func() error {
		c, err := through(w.ctx, w.hboneClient(t, account), fmt.Sprintf("%s:%d", endingHost, endingPort))
		if err != nil {
			return err
		}
		k.conn = &tunnelled{hbone: c}
		k.in = bufio.NewReader(c)
		if err := k.ask(endingHost, path[1:], false); err != nil {
			_ = c.Close()
			return err
		}
		return k.say()
	}); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// tunnelled is a tunnel as a connection that somebody talks on.
type tunnelled struct {
	net.Conn
	*hbone
}

func (c *tunnelled) Read(b []byte) (int, error)  { return c.hbone.Read(b) }
func (c *tunnelled) Write(b []byte) (int, error) { return c.hbone.Write(b) }
func (c *tunnelled) Close() error                { return c.hbone.Close() }
func (c *tunnelled) SetDeadline(time.Time) error { return nil }
