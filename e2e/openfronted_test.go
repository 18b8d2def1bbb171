package e2e

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// TestOpenAtWaypointsEnds holds that what is open by a waypoint to hosts outside ends when it is denied, by an EgressPolicy of who asks, by an AuthorizationPolicy for the host, and with the host's registration, whoever asks: a
// pod of ours, whose node knows it, and others, by HBONE and by mutual TLS, whom no proxy of ours asks about before; each by itself, though tunnels share their connection.
func TestOpenAtWaypointsEnds(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := waypointIn(ctx, t, s)
	a := w.ambientNode
	a.alpha = a.pod(t, "alpha", alphaAddr)
	o := &openFronted{openEnds: openEnds{policed: policed{ctx: ctx, scene: s, app: a.alpha.caller}, callers: map[string]caller{"alpha": a.alpha.caller}}, waypointTest: w, far: w.hboneClient(t, "one")}
	o.set(t)
	inOrder(t, []part{
		{"an EgressPolicy's edit", o.edited},
		{"an AuthorizationPolicy for the host", o.unauthorized},
		{"an edit that changes nothing for them", o.unchanged},
		{"an AuthorizationPolicy that looks at what nobody knows any more", o.unseen},
		{"a rule's end, without a controller", o.expired},
		{"an entry that is exported to others alone", func(t *testing.T) { o.unregistered(t, exported) }},
		{"an entry that is taken away", func(t *testing.T) { o.unregistered(t, removed) }},
	})
}

// openFronted are connections and requests that are open by a waypoint.
type openFronted struct {
	openEnds
	*waypointTest
	far *hboneClient // of somebody who has no node of ours, and whose tunnels share a connection
}

const frontedOne, frontedTwo = "one.fronted.test", "two.fronted.test"

// asksAt is where requests go for a host: at an entry with a port of TLS what is asked of its port of HTTP would leave by TLS.
func asksAt(host string) string { return "http." + host }

// allow is a rule's beginning that lets hosts out.
func allow(hosts ...string) string {
	list := ""
	for _, h := range hosts {
		list += h + ", " + asksAt(h) + ", "
	}
	return "action: Allow, hosts: [" + strings.TrimSuffix(list, ", ") + "]"
}

func (o *openFronted) set(t *testing.T) {
	t.Helper()
	for _, port := range []uint16{echoesTLS, echoesTCP, echoesHTTP} {
		l, err := o.openEnds.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], port).String())
		if err != nil {
			t.Fatal(err)
		}
		if port == echoesTLS {
			l = o.overTLS(l)
		}
		serveEach(t, l, func(c net.Conn) {
			if port != echoesHTTP || upgraded(c) {
				o.heard.echo(c)
			}
		})
	}
	o.waypointTest.write(t, "delta.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: delta, labels: {by: waypoint, istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: beta}}\n")
	for _, host := range []string{frontedOne, frontedTwo} {
		for _, name := range []string{host, asksAt(host)} {
			o.openEnds.scene.Outside.Set(name, time.Minute, world.OutsideAddrs[0])
		}
		o.fronted(t, host, "'*'")
	}
	if err := o.openEnds.scene.SetPolicy(o.openEnds.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	o.egress(t, "hosts: [nobody.fronted.test], action: Allow")
	if err := world.Within(o.openEnds.ctx, time.Minute, func() error { // what denies is in force, so whatever is open from now on is told of
		status, k, err := o.says(t, frontedOne, "/closed")
		if k != nil {
			_ = k.conn.Close()
		}
		if status != "403 Forbidden" {
			return fmt.Errorf("%s (%w)", status, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	o.egress(t, allow(frontedOne, frontedTwo))
}

// says asks for something by HBONE, and gives the status.
func (o *openFronted) says(t *testing.T, host, path string) (status string, k *talk, err error) {
	t.Helper()
	c, err := through(o.openEnds.ctx, o.far, fmt.Sprintf("%s:%d", asksAt(host), echoesHTTP))
	if err != nil {
		return "", nil, err
	}
	k = &talk{conn: &tunnelled{hbone: c}, in: bufio.NewReader(c)}
	if err = k.ask(asksAt(host), path[1:], false); err == nil {
		return "200 OK", k, nil
	}
	return err.Error(), nil, errors.Join(err, c.Close())
}

// fronted registers a host that has the waypoint.
func (o *openFronted) fronted(t *testing.T, host, exportTo string) {
	t.Helper()
	o.waypointTest.write(t, host+".yaml", fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: delta}\n"+
		"spec: {hosts: [%s], location: MESH_EXTERNAL, resolution: DNS, exportTo: [%s], ports: [{number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}]}\n"+
		"---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %[1]s-http, namespace: delta}\nspec: {hosts: [%[6]s], location: MESH_EXTERNAL, resolution: DNS, exportTo: [%[3]s], ports: [{number: %[7]d, name: http, protocol: HTTP}]}\n",
		host[:3], host, exportTo, echoesTLS, echoesTCP, asksAt(host), echoesHTTP))
}

// egress writes the EgressPolicy of who comes from elsewhere.
func (o *openFronted) egress(t *testing.T, rules ...string) {
	t.Helper()
	text := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: far}\nspec:\n  rules:\n"
	for _, r := range rules {
		text += "  - {" + r + "}\n"
	}
	o.waypointTest.write(t, "far.yaml", text)
}

// authorization writes an AuthorizationPolicy for a host that denies by some rules.
func (o *openFronted) authorization(t *testing.T, host, rules string) {
	t.Helper()
	o.waypointTest.write(t, "authorization-"+host+".yaml", fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: %s, namespace: delta}\n"+
		"spec: {targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: %[1]s}, {group: networking.istio.io, kind: ServiceEntry, name: %[1]s-http}], action: DENY, rules: [%s]}\n", host[:3], rules))
}

// elsewhere opens one of each kind to a host, of who comes from elsewhere.
func (o *openFronted) fromElsewhere(t *testing.T, host, path string) []*talk {
	t.Helper()
	return []*talk{o.talk(t, "tcp by HBONE", host), o.talk(t, "tls by HBONE", host), o.talk(t, "tcp by mutual TLS", host), o.request(t, host, path)}
}

func (o *openFronted) request(t *testing.T, host, path string) *talk {
	t.Helper()
	what := fmt.Sprintf("a request for %s%s by HBONE", host, path)
	var k *talk
	if err := world.Within(o.openEnds.ctx, time.Minute, func() (err error) {
		_, k, err = o.says(t, host, path)
		return err
	}); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	k.what = what
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// talk opens a connection of a kind.
func (o *openFronted) talk(t *testing.T, kind, host string) *talk {
	t.Helper()
	k := &talk{what: fmt.Sprintf("%s to %s at %d", kind, host, time.Now().UnixNano())}
	port := echoesTCP
	if kind == "tls by HBONE" {
		port = echoesTLS
	}
	if err := world.Within(o.openEnds.ctx, time.Minute, func() error {
		if kind == "tcp by mutual TLS" {
			c, err := o.mutual(t, host, port)
			if err != nil {
				return err
			}
			k.conn = c
		} else {
			c, err := through(o.openEnds.ctx, o.far, fmt.Sprintf("%s:%d", host, port))
			if err != nil {
				return err
			}
			k.conn = &tunnelled{hbone: c}
		}
		if port == echoesTLS {
			settings := o.alpha.roots.Clone()
			settings.ServerName = host
			k.conn = tls.Client(k.conn, settings)
		}
		k.in = bufio.NewReader(k.conn)
		if err := k.say(); err != nil {
			return errors.Join(err, k.conn.Close())
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// mutual connects to the waypoint as nodes do, with a certificate of the mesh.
func (o *openFronted) mutual(t *testing.T, host string, port int) (net.Conn, error) {
	t.Helper()
	conn, err := o.node.Host.DialContext(o.openEnds.ctx, "tcp", netip.AddrPortFrom(waypointAddr, 15008).String())
	if err != nil {
		return nil, err
	}
	secure := tls.Client(conn, &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: fmt.Sprintf("outbound_.%d_.delta_.%s", port, host), NextProtos: []string{"istio"}, Certificates: []tls.Certificate{o.member(t, "one")},
		InsecureSkipVerify: true, // whether it is the waypoint is tried elsewhere
	})
	if err := secure.HandshakeContext(o.openEnds.ctx); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return secure, nil
}

// ends talks on until those have ended that have to, in what was changed since.
func (o *openFronted) over(t *testing.T, since time.Time, gone, stay []*talk) {
	t.Helper()
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	for _, k := range slices.Concat(gone, stay) {
		_ = k.conn.Close()
	}
}

func (o *openFronted) edited(t *testing.T) {
	both := allow(frontedOne, frontedTwo)
	o.egress(t, both)
	gone := o.fromElsewhere(t, frontedOne, "/in")
	ours := []*talk{o.open(t, "alpha", "tls", frontedOne), o.open(t, "alpha", "tcp", frontedOne), o.open(t, "alpha", "http", asksAt(frontedOne)+"/in")}
	stay := append(ours, o.fromElsewhere(t, frontedTwo, "/in")...)
	since := time.Now()
	o.egress(t, allow(frontedTwo))
	o.over(t, since, gone, stay)
	o.egress(t, both)
}

// unauthorized: those whom a policy for the host denies end, and others do not, nor other paths.
func (o *openFronted) unauthorized(t *testing.T) {
	gone := append(o.fromElsewhere(t, frontedOne, "/in"), o.open(t, "alpha", "http", asksAt(frontedOne)+"/in"))
	ours := []*talk{o.open(t, "alpha", "http", asksAt(frontedOne)+"/stays")} // of TLS and TCP, all by mutual TLS end with the port's chain
	stay := append(ours, o.fromElsewhere(t, frontedTwo, "/in")...)
	since := time.Now()
	o.authorization(t, frontedOne, fmt.Sprintf("{from: [{source: {principals: [cluster.local/ns/far/sa/one]}}]}, {to: [{operation: {ports: ['%d'], paths: [/in]}}]}", echoesHTTP))
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	since = time.Now()
	o.authorization(t, frontedOne, "{from: [{source: {namespaces: [alpha]}}]}")
	o.over(t, since, ours, stay[len(ours):])
	if err := o.openEnds.scene.Config.Remove("authorization-" + frontedOne + ".yaml"); err != nil {
		t.Fatal(err)
	}
}

func (o *openFronted) unchanged(t *testing.T) {
	stay := o.fromElsewhere(t, frontedOne, "/in")
	o.authorization(t, frontedOne, "{to: [{operation: {paths: [/other]}}], from: [{source: {namespaces: [far]}}]}") // of connections, whose path nobody sees, it denies
	o.over(t, time.Now(), stay[:3], stay[3:])
	stay = []*talk{o.open(t, "alpha", "http", asksAt(frontedOne)+"/in")}
	o.authorization(t, frontedOne, "{from: [{source: {namespaces: [far]}}]}")
	o.refused(t, frontedOne, "/in")
	o.over(t, time.Now(), nil, stay)
}

// refused waits until a request is.
func (o *openFronted) refused(t *testing.T, host, path string) {
	t.Helper()
	if err := world.Within(o.openEnds.ctx, time.Minute, func() error {
		status, k, err := o.says(t, host, path)
		if k != nil {
			return errors.Join(errors.New("it is answered"), k.conn.Close())
		}
		if status != "403 Forbidden" {
			return fmt.Errorf("%s (%w)", status, err)
		}
		return nil
	}); err != nil {
		t.Errorf("%s%s: %v", host, path, err)
	}
}

// unseen: what a request's headers were nobody knows any more.
func (o *openFronted) unseen(t *testing.T) {
	o.authorization(t, frontedOne, "{to: [{operation: {paths: [/other]}}]}")
	stay := []*talk{o.open(t, "alpha", "http", asksAt(frontedOne)+"/in"), o.request(t, frontedOne, "/in")}
	o.authorization(t, frontedOne, "{to: [{operation: {paths: [/closed]}}]}, {when: [{key: 'request.headers[x-stage]', notValues: [test]}]}")
	o.refused(t, frontedOne, "/closed")
	o.over(t, time.Now(), nil, stay)
	if err := o.openEnds.scene.Config.Remove("authorization-" + frontedOne + ".yaml"); err != nil {
		t.Fatal(err)
	}
}

func (o *openFronted) expired(t *testing.T) {
	began := time.Now()
	for _, k := range o.fromElsewhere(t, frontedOne, "/in") {
		_ = k.conn.Close()
	}
	o.egress(t, allow(frontedTwo))
	o.refused(t, frontedOne, "/closed") // so what opens it again is what has an end
	end := time.Now().Add(lead(began)).Truncate(time.Second)
	o.egress(t, fmt.Sprintf("%s, expires: %q", allow(frontedOne), end.UTC().Format(time.RFC3339)), allow(frontedTwo))
	gone, stay := o.fromElsewhere(t, frontedOne, "/ends"), o.fromElsewhere(t, frontedTwo, "/in")
	if err := o.openEnds.scene.KillController(o.openEnds.ctx); err != nil {
		t.Fatal(err)
	}
	o.upTo(t, end, gone, stay)
	o.over(t, end, gone, stay)
	if err := o.openEnds.scene.StartController(o.openEnds.ctx); err != nil {
		t.Fatal(err)
	}
	o.egress(t, allow(frontedOne, frontedTwo))
}

// unregistered: with what registers the host ends what is open to it, whoever asks.
func (o *openFronted) unregistered(t *testing.T, by narrowing) {
	gone := append(o.fromElsewhere(t, frontedOne, "/in"), o.open(t, "alpha", "tls", frontedOne), o.open(t, "alpha", "tcp", frontedOne), o.open(t, "alpha", "http", asksAt(frontedOne)+"/in"))
	stay := append(o.fromElsewhere(t, frontedTwo, "/in"), o.open(t, "alpha", "tcp", frontedTwo))
	since := time.Now()
	if by == removed {
		if err := o.openEnds.scene.Config.Remove(frontedOne + ".yaml"); err != nil {
			t.Fatal(err)
		}
	} else {
		o.fronted(t, frontedOne, "elsewhere")
	}
	o.over(t, since, gone, stay)
	o.fronted(t, frontedOne, "'*'")
}
