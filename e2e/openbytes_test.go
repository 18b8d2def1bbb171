package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestStraightConnectionsEnd holds that TLS and TCP which leave straight from a pod end, each by itself, when an edit denies them, with the rule that let them through, and with what
// registered them; and that nothing else of the pod does.
func TestStraightConnectionsEnd(t *testing.T) {
	needRoot(t)
	t.Parallel()
	straightConnectionsEnd(t, func(*testing.T, *openBytes) {})
}

// straightConnectionsEnd tries it with a sidecar that is made ready first.
func straightConnectionsEnd(t *testing.T, ready func(*testing.T, *openBytes), first ...func(*openBytes) part) {
	t.Helper()
	ctx, s := setScene(t, story.InNamespaces)
	o := &openBytes{openStraight{openEnds: openEnds{policed: policed{ctx: ctx, scene: s, app: appOf(s)}, callers: map[string]caller{"app": appOf(s)}}, namespace: "default", host: s.App.Host(), agent: s.App.Signal}}
	ready(t, o)
	o.set(t)
	parts := o.parts()
	for _, more := range first {
		parts = slices.Insert(parts, 0, more(o))
	}
	inOrder(t, parts)
}

// TestStraightConnectionsEndAtNodes holds that those of pods without sidecars do, each pod's by its own namespace's policies.
func TestStraightConnectionsEndAtNodes(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	a := &ambientNode{ctx: ctx, scene: s}
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	a.alpha, a.beta = a.pod(t, "alpha", alphaAddr), a.pod(t, "beta", betaAddr)
	o := &openBytes{openStraight{
		openEnds:  openEnds{policed: policed{ctx: ctx, scene: s, app: a.alpha.caller}, callers: map[string]caller{"app": a.alpha.caller, "beta": a.beta.caller}},
		namespace: "alpha", host: a.node.Host, agent: func(sig syscall.Signal) error { return syscall.Kill(a.node.Process.PID(), sig) },
	}}
	o.set(t)
	inOrder(t, slices.Insert(o.parts(), 0, part{"a neighbour", func(*testing.T) { // whose connections to the same hosts stay open
		o.beside = []*talk{o.open(t, "beta", "tls", "one.open.test"), o.open(t, "beta", "tcp", "one.open.test"), o.open(t, "beta", "tls", "any.wild.open.test")}
	}}))
}

// openBytes are connections that leave straight from a proxy, whose bytes nobody reads.
type openBytes struct{ openStraight }

func (o *openBytes) set(t *testing.T) {
	t.Helper()
	o.serve(t)
	for _, name := range []string{"one", "two", "three"} {
		o.registerStraight(t, name, name+".open.test", "DNS", "TCP", "")
	}
	o.registerStraight(t, "wild", "*.wild.open.test", "NONE", "", "")
	o.scene.Outside.Set("free.open.test", time.Minute, world.OutsideAddrs[0])
	if err := o.scene.SetPolicy(o.ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two", "three"} {
		o.named(t, name+".open.test")
	}
}

// named waits until a host is registered for the clients: before, connections to it are to an address that nobody registered, and another rule is about them.
func (o *openBytes) named(t *testing.T, host string) {
	t.Helper()
	for who, c := range o.callers {
		if err := world.Within(o.ctx, time.Minute, func() error {
			if addr, err := c.resolve(o.ctx, host); err != nil || !netip.MustParsePrefix("240.240.0.0/16").Contains(addr) {
				return fmt.Errorf("%s: %s is %s (%w)", who, host, addr, err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// registerStraight registers a host that leaves from the pod.
func (o *openBytes) registerStraight(t *testing.T, name, host, resolution, tcp, exportTo string) {
	t.Helper()
	ports := fmt.Sprintf("{number: %d, name: tls, protocol: TLS}", echoesTLS)
	if tcp != "" {
		ports += fmt.Sprintf(", {number: %d, name: tcp, protocol: TCP}", echoesTCP)
	}
	text := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}\n"+
		"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: %s, exportTo: [%s], ports: [%s]}\n", name, host, resolution, exportTo, ports)
	if err := o.scene.Config.Write("open-"+name+".yaml", text); err != nil {
		t.Fatal(err)
	}
}

func (o *openBytes) parts() []part {
	parts := []part{
		{"an edit that denies", o.edited},
		{"an edit that changes nothing for them", o.unchanged},
		{"an entry that is taken away", o.unregistered},
		{"an entry that is exported to others alone", func(t *testing.T) { o.narrows(t, exported) }},
		{"nobody may go where nobody registered anything", o.registryOnly},
		{"a rule's end, without a controller", o.expired},
	}
	if o.namespace == "default" { // at a node the first Sidecar of a namespace gives its pods other listeners, and what they have ends with these (docs/adr/0134)
		parts = slices.Insert(parts, 4, part{"a Sidecar that does not name it", func(t *testing.T) { o.narrows(t, sidecars) }})
	}
	return parts
}

// closed waits until a host is closed to the app.
func (o *openBytes) closed(t *testing.T, host string) {
	t.Helper()
	c := o.callers["app"]
	if err := world.Within(o.ctx, time.Minute, func() error {
		ctx, cancel := context.WithTimeout(o.ctx, tryWithin)
		defer cancel()
		addr, err := c.resolve(ctx, host)
		if err != nil {
			return err
		}
		conn, err := c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, echoesTLS).String())
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		settings := c.roots.Clone()
		settings.ServerName = host
		if tls.Client(conn, settings).HandshakeContext(ctx) == nil {
			return errors.New("it is open")
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", host, err)
	}
}

// inward is a connection that comes to the pod.
func (o *openBytes) inward(t *testing.T) *talk {
	t.Helper()
	const port = 9601
	app := o.callers["app"].host
	l, err := app.Listen(fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(c net.Conn) { _, _ = io.Copy(c, c) })
	k := &talk{what: "what comes to the pod"}
	addr := world.AppAddr
	if o.namespace == "alpha" {
		addr = alphaAddr
	}
	if k.conn, err = o.scene.Gateway.Host().DialContext(o.ctx, "tcp", netip.AddrPortFrom(addr, port).String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	k.in = bufio.NewReader(k.conn)
	if err := k.say(); err != nil {
		t.Fatal(err)
	}
	return k
}

// allowing writes a policy whose one rule is for these hosts.
func (o *openBytes) allowing(t *testing.T, hosts string) {
	t.Helper()
	o.write(t, "  rules: [{hosts: ["+hosts+"], action: Allow, name: list}]\n")
}

func (o *openBytes) edited(t *testing.T) {
	o.allowing(t, "'*.open.test'")
	o.mayEnd(t, o.host)
	gone := []*talk{
		o.open(t, "app", "tls", "one.open.test"), o.open(t, "app", "tcp", "one.open.test"), o.open(t, "app", "tls", "any.wild.open.test"),
		o.open(t, "app", "tls", "free.open.test"), // by outboundTrafficPolicy
	}
	stay := append(o.beside, o.open(t, "app", "tls", "two.open.test"), o.open(t, "app", "tcp", "two.open.test"), o.inward(t))
	o.goOn(t, gone)
	before, since := o.ended(t), time.Now()
	o.allowing(t, "two.open.test")
	o.end(t, since, gone, stay)
	o.heard.over(t, &o.openEnds, gone, true)
	o.onwards(t, stay)
	if now := o.ended(t); now != before+float64(len(gone)) {
		t.Errorf("%v connections were ended, want %d", now-before, len(gone))
	}
	for _, host := range []string{"one.open.test", "any.wild.open.test", "free.open.test"} {
		o.recordedAsClosed(t, host, "denied by EgressPolicy "+o.namespace+"/list")
	}
}

// recordedAsClosed waits for a record that says of a connection that it was ended, and why.
func (o *openBytes) recordedAsClosed(t *testing.T, host, why string) {
	t.Helper()
	if err := world.Within(o.ctx, time.Minute, func() error {
		records, err := o.scene.AuditRecords(o.ctx, "--host", host)
		var reasons []string
		for _, r := range records {
			reasons = append(reasons, r.Reporter+" "+r.Reason)
			if strings.Contains(r.Reason, "ended when it was not allowed any more: "+why) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("no record says that it was ended, and by what: %q", reasons))
	}); err != nil {
		t.Errorf("%s: %v", host, err)
	}
}

func (o *openBytes) unchanged(t *testing.T) {
	stay := append(o.beside, o.open(t, "app", "tls", "two.open.test"), o.open(t, "app", "tcp", "two.open.test"))
	before := o.ended(t)
	o.allowing(t, "two.open.test, three.open.test")
	o.goOn(t, append(stay, o.open(t, "app", "tls", "three.open.test"))) // it is in force
	o.onwards(t, stay)
	if now := o.ended(t); now != before {
		t.Errorf("%v connections were ended", now-before)
	}
}

// unregistered: an entry that goes ends what it let out, where nothing else does.
func (o *openBytes) unregistered(t *testing.T) {
	if err := o.scene.SetPolicy(o.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	gone := []*talk{o.open(t, "app", "tls", "two.open.test"), o.open(t, "app", "tcp", "two.open.test")}
	stay := append(o.beside, o.open(t, "app", "tls", "three.open.test"), o.open(t, "app", "tcp", "three.open.test"))
	for began := time.Now(); time.Since(began) < toldLate; { // what has just begun is asked about because of changes before
		o.goOn(t, slices.Concat(gone, stay))
	}
	before, since := o.ended(t), time.Now()
	if err := o.scene.Config.Remove("open-two.yaml"); err != nil {
		t.Fatal(err)
	}
	o.end(t, since, gone, stay)
	o.heard.over(t, &o.openEnds, gone, true)
	o.onwards(t, stay)
	if now := o.ended(t); now != before+2 {
		t.Errorf("%v connections were ended, want 2", now-before)
	}
	o.recordedAsClosed(t, "two.open.test", "the host is not registered any more")
	o.registerStraight(t, "two", "two.open.test", "DNS", "TCP", "")
}

// narrows: as an entry that goes, but for one workload alone.
func (o *openBytes) narrows(t *testing.T, by narrowing) {
	o.named(t, "two.open.test")
	o.narrowed(t, by, func(t *testing.T, exportTo string) {
		o.registerStraight(t, "two", "two.open.test", "DNS", "TCP", exportTo)
	}, "two.open.test", func(host string) []*talk {
		return []*talk{o.open(t, "app", "tls", host), o.open(t, "app", "tcp", host)}
	}, "three.open.test")
	o.recordedAsClosed(t, "two.open.test", "the host is not registered any more")
}

// registryOnly: what leaves since nobody is asked ends when that is over.
func (o *openBytes) registryOnly(t *testing.T) {
	if err := errors.Join(o.scene.Config.Remove("policy.yaml"), o.scene.SetPolicy(o.ctx, "ALLOW_ANY")); err != nil {
		t.Fatal(err)
	}
	gone := []*talk{o.open(t, "app", "tls", "free.open.test")}
	stay := append(o.beside, o.open(t, "app", "tls", "three.open.test"))
	since := time.Now()
	if err := o.scene.SetPolicy(o.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	o.end(t, since, gone, stay)
	o.heard.over(t, &o.openEnds, gone, true)
	o.onwards(t, stay)
}

// expired: the controller has no part in a rule's end.
func (o *openBytes) expired(t *testing.T) {
	began := time.Now()
	o.allowing(t, "three.open.test")
	o.closed(t, "one.open.test") // so what opens again does by the next policy
	stay := append(o.beside, o.open(t, "app", "tls", "three.open.test"), o.open(t, "app", "tcp", "three.open.test"))
	end := time.Now().Add(lead(began)).Truncate(time.Second)
	o.write(t, fmt.Sprintf("  rules: [{hosts: [one.open.test, '*.wild.open.test'], action: Allow, name: ends, expires: %q}, {hosts: [three.open.test], action: Allow}]\n", end.UTC().Format(time.RFC3339)))
	gone := []*talk{o.open(t, "app", "tls", "one.open.test"), o.open(t, "app", "tcp", "one.open.test"), o.open(t, "app", "tls", "any.wild.open.test")}
	if err := o.scene.Controller.Kill(o.ctx); err != nil {
		t.Fatal(err)
	}
	o.upTo(t, end, gone, stay)
	o.end(t, end, gone, stay)
	o.heard.over(t, &o.openEnds, gone, true)
	o.onwards(t, stay)
}
