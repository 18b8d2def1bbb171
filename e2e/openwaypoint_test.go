package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
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
	o := &openEnds{policed: policed{ctx: w.ctx, scene: w.scene}, callers: nil}
	first := w.under(t, "one", "/closed") // what is under way when the first policy comes goes on, so that is waited for: by what is open without it
	_ = first.conn.Close()
	allow("far", "/goes, /stays")
	if err := world.Within(w.ctx, time.Minute, func() error {
		k, err := w.begins(t, "one", "/closed")
		if err == nil {
			return errors.Join(errors.New("what no rule allows is answered"), k.conn.Close())
		}
		if err.Error() != "403 Forbidden" {
			return err
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	gone, stay := w.under(t, "one", "/goes"), w.under(t, "one", "/stays")
	since := time.Now()
	allow("far", "/stays")
	o.end(t, since, []*talk{gone}, []*talk{stay})
	o.onwards(t, []*talk{stay})
	w.endsBytes(t, o)
	w.endsByTime(t, o)
	if err := w.scene.Config.Remove("ending-far.yaml"); err != nil {
		t.Fatal(err)
	}
}

// endsBytes holds that TLS and TCP by the waypoint end when an edit denies them to the pod that began them.
func (w *waypointTest) endsBytes(t *testing.T, o *openEnds) {
	t.Helper()
	for port, wrap := range map[int]func(net.Listener) net.Listener{echoesTCP: func(l net.Listener) net.Listener { return l }, echoesTLS: o.overTLS} {
		l, err := w.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], uint16(port)).String())
		if err != nil {
			t.Fatal(err)
		}
		serveEach(t, wrap(l), o.heard.echo)
	}
	o.callers = map[string]caller{"alpha": w.alpha.caller}
	for _, name := range []string{"bytes", "others"} {
		host := name + ".waypoint.test"
		w.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[0])
		w.write(t, "ending-"+name+".yaml", fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: ending-%s, namespace: delta}\n"+
			"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}]}\n", name, host, echoesTLS, echoesTCP))
	}
	allow := func(hosts string) {
		w.write(t, "ending-alpha.yaml", "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: ending, namespace: alpha}\n"+
			"spec: {rules: [{name: hosts, hosts: ["+hosts+"], action: Allow}]}\n")
	}
	for _, scheme := range []string{"tls", "tcp"} { // open before there is a policy, and closed by one: so that is in force when they are opened that are to end
		_ = o.open(t, "alpha", scheme, "bytes.waypoint.test").conn.Close()
	}
	allow("others.waypoint.test")
	if err := world.Within(w.ctx, time.Minute, func() error {
		for scheme, port := range map[string]uint16{"tls": echoesTLS, "tcp": echoesTCP} {
			if err := w.echoes(scheme, "bytes.waypoint.test", port); err == nil {
				return fmt.Errorf("%s is open", scheme)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	allow("'*.waypoint.test'")
	gone := []*talk{o.open(t, "alpha", "tls", "bytes.waypoint.test"), o.open(t, "alpha", "tcp", "bytes.waypoint.test")}
	stay := []*talk{o.open(t, "alpha", "tls", "others.waypoint.test"), o.open(t, "alpha", "tcp", "others.waypoint.test")}
	since := time.Now()
	allow("others.waypoint.test")
	o.end(t, since, gone, stay)
	o.heard.over(t, o, gone, false)
	o.onwards(t, stay)
	if err := w.scene.Config.Remove("ending-alpha.yaml"); err != nil {
		t.Fatal(err)
	}
}

// echoes says whether a connection of alpha's is answered.
func (w *waypointTest) echoes(scheme, host string, port uint16) error {
	ctx, cancel := context.WithTimeout(w.ctx, attackTimeout)
	defer cancel()
	addr, err := w.alpha.resolve(ctx, host)
	if err != nil {
		return err
	}
	c, err := w.alpha.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	if scheme == "tls" {
		settings := w.alpha.roots.Clone()
		settings.ServerName = host
		c = tls.Client(c, settings)
	}
	k := &talk{what: "alpha", conn: c, in: bufio.NewReader(c), within: attackTimeout}
	return k.say()
}

// endsByTime holds that a rule's end at the waypoint needs nobody: a request ends with it while the controller is away.
func (w *waypointTest) endsByTime(t *testing.T, o *openEnds) {
	t.Helper()
	began := time.Now()
	_ = w.under(t, "one", "/stays").conn.Close()
	end := time.Now().Add(lead(began)).Truncate(time.Second)
	w.write(t, "ending-far.yaml", fmt.Sprintf("apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: ending, namespace: far}\n"+
		"spec: {rules: [{hosts: [%[1]s], paths: [/ends], action: Allow, expires: %[2]q}, {hosts: [%[1]s], paths: [/onwards], action: Allow}]}\n", endingHost, end.UTC().Format(time.RFC3339)))
	stay, gone := w.under(t, "one", "/onwards"), w.under(t, "one", "/ends")
	if err := w.scene.KillController(w.ctx); err != nil {
		t.Fatal(err)
	}
	o.upTo(t, end, []*talk{gone}, []*talk{stay})
	o.end(t, end, []*talk{gone}, []*talk{stay})
	o.onwards(t, []*talk{stay})
	if err := w.scene.StartController(w.ctx); err != nil {
		t.Fatal(err)
	}
}

// under is a request of an account of namespace far that is under way, by HBONE.
func (w *waypointTest) under(t *testing.T, account, path string) *talk {
	t.Helper()
	var k *talk
	if err := world.Within(w.ctx, time.Minute, func() (err error) {
		k, err = w.begins(t, account, path)
		return err
	}); err != nil {
		t.Fatalf("%s asks %s: %v", account, path, err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// begins tries to have one under way.
func (w *waypointTest) begins(t *testing.T, account, path string) (*talk, error) {
	t.Helper()
	c, err := through(w.ctx, w.hboneClient(t, account), fmt.Sprintf("%s:%d", endingHost, endingPort))
	if err != nil {
		return nil, err
	}
	k := &talk{what: account + " asks " + path + " by the waypoint", conn: &tunnelled{hbone: c}, in: bufio.NewReader(c)}
	if err = k.ask(endingHost, path[1:], false); err == nil {
		err = k.say()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return k, nil
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

func (c *tunnelled) SetWriteDeadline(time.Time) error { return nil }
