package e2e

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// The ports of this test's servers, which say again what they are told, line by line, for as long as anybody likes.
const (
	echoesTLS  = 9596
	echoesTCP  = 9597
	echoesHTTP = 9598 // after an upgrade; without one it says something by itself
)

// endsWithin is how long a tunnel may be open after it was denied.
const endsWithin = 10 * time.Second

// toldLate is how long after a change a tunnel's beginning counts as told late (package tunnels), and a second.
const toldLate = 6 * time.Second

// TestOpenConnectionsEnd holds that tunnels which are open end when they are denied, by an edit or by time, and that no other one does.
func TestOpenConnectionsEnd(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	o := &openEnds{policed: policed{ctx: ctx, scene: s, app: appOf(s)}, callers: map[string]caller{"app": appOf(s)}}
	o.serve(t)
	other, err := s.AddSidecar(ctx, "shop-1", "shop", "shop", netip.MustParseAddr("10.77.0.41"))
	if err != nil {
		t.Fatal(err)
	}
	o.callers["shop"] = appOf(s)
	shop := o.callers["shop"]
	shop.host = other.Host()
	o.callers["shop"] = shop
	inOrder(t, []part{
		{"the mesh's first policy", o.first},
		{"an edit that denies", o.edited},
		{"tunnels that a client makes itself", o.ownTunnels},
		{"an edit that changes nothing for them", o.unchanged},
		{"an entry that is taken away", o.unregistered},
		{"upgrades", o.upgrades},
		{"requests", o.requests},
		{"the agent is killed", o.agentKilled},
		{"a rule's end, without a controller", o.expired},
	})
}

type openEnds struct {
	policed
	callers map[string]caller
	heard   heardTalks
	shared  map[net.Conn]*http.ClientConn // connections to the gateway that clients share
}

func (o *openEnds) serve(t *testing.T) {
	t.Helper()
	for _, port := range []uint16{echoesTLS, echoesTCP, echoesHTTP} {
		l, err := o.scene.World.Outside.Listen(netip.AddrPortFrom(world.OutsideAddrs[0], port).String())
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
	o.scene.Outside.Set("talks.open.test", time.Minute, world.OutsideAddrs[0])
	o.registerTalks(t)
	for _, name := range []string{"one", "two", "three"} {
		o.scene.Outside.Set(name+".open.test", time.Minute, world.OutsideAddrs[0])
		o.register(t, name)
	}
	o.scene.Outside.Set("any.wild.open.test", time.Minute, world.OutsideAddrs[0])
	o.registerHost(t, "wild", "*.wild.open.test", fmt.Sprintf("[{number: %d, name: tls, protocol: TLS}]", echoesTLS), "NONE")
}

// overTLS has the outside's own certificates.
func (o *openEnds) overTLS(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return o.scene.Outside.CA.Issue(h.ServerName)
	}})
}

// upgraded answers a request for an upgrade. Nobody speaks before the answer, so nothing of what comes then is read with the request. Any other request has an answer
// without end.
func upgraded(c net.Conn) bool {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return false
	}
	if strings.Contains(req.URL.Path, "/upload") { // an answer comes when all is there
		_, _ = io.Copy(io.Discard, req.Body)
		return false
	}
	if req.Header.Get("Upgrade") == "" {
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
			return false
		}
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := io.WriteString(c, "5\r\nmore\n\r\n"); err != nil {
				return false
			}
		}
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: %s\r\nConnection: Upgrade\r\n\r\n", req.Header.Get("Upgrade"))
	return err == nil
}

func (o *openEnds) register(t *testing.T, name string) {
	t.Helper()
	o.registerHost(t, name, name+".open.test", fmt.Sprintf("[{number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}]", echoesTLS, echoesTCP), "DNS")
}

func (o *openEnds) registerTalks(t *testing.T) {
	t.Helper()
	o.registerHost(t, "talks", "talks.open.test", fmt.Sprintf("[{number: %d, name: http, protocol: HTTP}]", echoesHTTP), "DNS")
}

func (o *openEnds) registerHost(t *testing.T, name, host, ports, resolution string) {
	t.Helper()
	text := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %s, namespace: default}\nspec: {hosts: [%q], location: MESH_EXTERNAL, resolution: %s, ports: %s}\n",
		name, host, resolution, ports)
	if err := o.scene.Config.Write("open-"+name+".yaml", text); err != nil {
		t.Fatal(err)
	}
}

// talk is a tunnel on which somebody talks.
type talk struct {
	what string
	conn net.Conn
	in   *bufio.Reader
	said int
	hear bool // it hears an answer that goes on
	send bool // it sends a body that goes on

	within time.Duration // for what is said to be heard, if it is not heardWithin
}

// heardWithin is how long something may take that is said where somebody listens, on a machine with much else to do.
const heardWithin = time.Minute

// open opens one, once it can be.
func (o *openEnds) open(t *testing.T, who, scheme, host string) *talk {
	t.Helper()
	k := &talk{what: who + " to " + scheme + "://" + host, within: tryWithin}
	if err := world.Within(o.ctx, time.Minute, func() error {
		c := o.callers[who]
		name, path, _ := strings.Cut(host, "/")
		addr, err := c.resolve(o.ctx, name)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(o.ctx, tryWithin)
		defer cancel()
		port := map[string]uint16{"tls": echoesTLS, "tcp": echoesTCP, "ws": echoesHTTP, "http": echoesHTTP}[scheme]
		if k.conn, err = c.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String()); err != nil {
			return err
		}
		if scheme == "tls" {
			settings := c.roots.Clone()
			settings.ServerName = name
			k.conn = tls.Client(k.conn, settings)
		}
		k.in = bufio.NewReader(k.conn)
		if scheme == "ws" || scheme == "http" {
			if err := k.ask(name, path, scheme == "ws"); err != nil {
				_ = k.conn.Close()
				return err
			}
		}
		if err := k.say(); err != nil {
			_ = k.conn.Close()
			return err
		}
		return nil
	}); err != nil {
		t.Fatalf("%s: %v", k.what, err)
	}
	k.within = 0
	t.Cleanup(func() { _ = k.conn.Close() })
	return k
}

// ask asks for an upgrade, or for an answer that goes on.
func (k *talk) ask(host, path string, upgrade bool) error {
	more, want := "", http.StatusOK
	if upgrade {
		more, want = "Connection: Upgrade\r\nUpgrade: websocket\r\n", http.StatusSwitchingProtocols
	}
	_ = k.conn.SetDeadline(time.Now().Add(tryWithin))
	if _, err := fmt.Fprintf(k.conn, "GET /%s?key=1 HTTP/1.1\r\nHost: %s:%d\r\n%s\r\n", path, host, echoesHTTP, more); err != nil {
		return err
	}
	resp, err := http.ReadResponse(k.in, nil)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != want:
		return errors.New(resp.Status)
	case !upgrade:
		k.in, k.hear = bufio.NewReader(resp.Body), true
	}
	return nil
}

// say says something, and hears it again.
func (k *talk) say() error {
	k.said++
	line := fmt.Sprintf("%s: %d %s\n", k.what, k.said, strings.Repeat("x", 4000))
	_ = k.conn.SetDeadline(time.Now().Add(cmp.Or(k.within, heardWithin)))
	if k.hear {
		_, err := k.in.ReadString('\n')
		_, _ = k.in.Discard(k.in.Buffered()) // or who is asked seldom would hear of the end late
		return err
	}
	if k.send {
		return k.sendOn()
	}
	if _, err := io.WriteString(k.conn, line); err != nil {
		return err
	}
	heard, err := k.in.ReadString('\n')
	if err == nil && heard != line {
		err = fmt.Errorf("it said %.20q, and heard %.20q", line, heard)
	}
	return err
}

// sendOn sends some more of a body. There is an error as soon as there is an answer.
func (k *talk) sendOn() error {
	if _, err := io.WriteString(k.conn, "5\r\nmore\n\r\n"); err != nil {
		return err
	}
	_ = k.conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	first, err := k.in.ReadString('\n')
	var none net.Error
	switch {
	case errors.As(err, &none) && none.Timeout():
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("it is answered %q", first)
}

// end talks on those that have to go on until all of those have ended that have to, and gives how long that took since.
func (o *openEnds) end(t *testing.T, since time.Time, gone, stay []*talk) {
	t.Helper()
	for len(gone) > 0 {
		err := gone[0].say()
		var late net.Error
		switch {
		case errors.As(err, &late) && late.Timeout():
			t.Fatalf("%s hears nothing, and no end", gone[0].what)
		case err != nil:
			t.Logf("%s has ended after %s: %v", gone[0].what, time.Since(since).Round(time.Millisecond), err)
			gone = gone[1:]
		case time.Since(since) > endsWithin+busy:
			t.Fatalf("%s is open after %s; the gateway knows of %v tunnels, of which %v are denied, and %v questions had no answer", gone[0].what, endsWithin+busy,
				o.metric(t, "sallyport_agent_tunnels"), o.metric(t, "sallyport_agent_tunnels_denied"), o.metric(t, "sallyport_agent_tunnels_unanswered_total"))
		}
		o.goOn(t, stay)
	}
}

func (o *openEnds) goOn(t *testing.T, stay []*talk) {
	t.Helper()
	for _, k := range stay {
		if err := k.say(); err != nil {
			t.Fatalf("%s: %v", k.what, err)
		}
	}
}

// upTo talks on all of them until shortly before a time at which some end. From then on those may be heard no more, also in the middle of it.
func (o *openEnds) upTo(t *testing.T, end time.Time, gone, stay []*talk) {
	t.Helper()
	for time.Now().Before(end.Add(-time.Second)) {
		for _, k := range gone {
			if err := k.say(); err != nil && time.Now().Before(end) {
				t.Fatalf("%s: %v", k.what, err)
			}
		}
		o.goOn(t, stay)
	}
}

// lead is how long before its end a rule is written, where this took as long as what has to be done until then.
func lead(began time.Time) time.Duration { return 10*time.Second + 4*time.Since(began) }

// onwards talks for some time longer than it takes to end what is denied.
func (o *openEnds) onwards(t *testing.T, stay []*talk) {
	t.Helper()
	for start := time.Now(); time.Since(start) < 3*time.Second; {
		o.goOn(t, stay)
	}
}

const endedMetric = "sallyport_agent_tunnels_ended_total"

func (o *openEnds) ended(t *testing.T) float64 {
	t.Helper()
	return o.metric(t, endedMetric)
}

// counted waits until a count of those that were ended is so high: one is counted when it has ended.
func (o *openEnds) counted(t *testing.T, want float64, count func(*testing.T) float64) {
	t.Helper()
	if err := world.Within(o.ctx, time.Minute, func() error {
		if now := count(t); now < want {
			return fmt.Errorf("%v were ended, want %v", now, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// endedBeside is how many the clients' own agents have ended.
func (o *openEnds) endedBeside(t *testing.T) (n float64) {
	t.Helper()
	for _, c := range o.callers {
		n += metricAt(o.ctx, t, c.host, endedMetric)
	}
	return n
}

func (o *openEnds) metric(t *testing.T, name string) float64 {
	t.Helper()
	return metricAt(o.ctx, t, o.scene.Gateway.Host(), name)
}

// metricAt is what the agent on a host counts.
func metricAt(ctx context.Context, t *testing.T, host *world.Host, name string) (value float64) {
	t.Helper()
	if err := world.Within(ctx, time.Minute, func() error {
		resp, err := host.HTTPClient().Get("http://127.0.0.1:15020/metrics") //nolint:noctx // within
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				_, err := fmt.Sscan(rest, &value)
				return err
			}
		}
		return fmt.Errorf("no metric %s", name)
	}); err != nil {
		t.Fatal(err)
	}
	return value
}

func (o *openEnds) edited(t *testing.T) {
	o.write(t, "  rules: [{hosts: ['*.open.test'], action: Allow, name: all}]\n")
	gone := []*talk{o.open(t, "app", "tls", "one.open.test"), o.open(t, "app", "tcp", "one.open.test"), o.open(t, "app", "tls", "any.wild.open.test")}
	stay := []*talk{
		o.open(t, "app", "tls", "two.open.test"), o.open(t, "app", "tcp", "two.open.test"),
		o.open(t, "shop", "tls", "one.open.test"), o.open(t, "shop", "tcp", "one.open.test"), o.open(t, "shop", "tls", "any.wild.open.test"),
	}
	o.mayEnd(t, o.scene.Gateway.Host())
	o.goOn(t, gone)
	before, beside, since := o.ended(t), o.endedBeside(t), time.Now()
	o.write(t, "  rules: [{hosts: [two.open.test], action: Allow, name: two}]\n")
	o.end(t, since, gone, stay)
	o.heard.over(t, o, gone, false)
	o.onwards(t, stay)
	o.endedThese(t, before, beside, gone)
	for _, host := range []string{"one.open.test", "any.wild.open.test"} {
		if err := world.Within(o.ctx, time.Minute, func() error {
			records, err := o.scene.AuditRecords(o.ctx, "--host", host)
			for _, r := range records {
				if strings.Contains(r.Reason, "; ended when it was not allowed any more: denied by EgressPolicy default/list") {
					return nil
				}
			}
			return errors.Join(err, fmt.Errorf("none of %d records says that it was ended, and by what", len(records)))
		}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}

// mayEnd waits until the agent on a host says that it can end what is open.
func (o *openEnds) mayEnd(t *testing.T, host *world.Host) {
	t.Helper()
	if err := world.Within(o.ctx, time.Minute, func() error {
		if metricAt(o.ctx, t, host, "sallyport_agent_tunnels_can_end") != 1 {
			return fmt.Errorf("nobody may end connections at %s", host.Name)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// endedThese holds that so many have ended since, and no others. A client's own proxy knows the policy, too: whichever of the two is the first ends what is open.
func (o *openEnds) endedThese(t *testing.T, before, beside float64, gone []*talk) {
	t.Helper()
	if here, there := o.ended(t)-before, o.endedBeside(t)-beside; here > float64(len(gone)) || here+there < float64(len(gone)) {
		t.Errorf("%v were ended at the gateway and %v before it, want %d", here, there, len(gone))
	}
}

func (o *openEnds) unchanged(t *testing.T) {
	stay := []*talk{o.open(t, "app", "tls", "two.open.test"), o.open(t, "app", "tcp", "two.open.test"), o.open(t, "shop", "tls", "one.open.test")}
	before := o.ended(t)
	o.write(t, "  rules: [{hosts: [two.open.test, three.open.test], action: Allow, name: more}]\n")
	o.goOn(t, append(stay, o.open(t, "app", "tls", "three.open.test"))) // it is in force
	o.onwards(t, stay)
	if now := o.ended(t); now != before {
		t.Errorf("%v tunnels were ended", now-before)
	}
}

func (o *openEnds) unregistered(t *testing.T) {
	gone := []*talk{o.open(t, "app", "tls", "two.open.test"), o.open(t, "shop", "tcp", "two.open.test")}
	stay := []*talk{o.open(t, "app", "tls", "three.open.test"), o.open(t, "shop", "tls", "one.open.test")}
	for began := time.Now(); time.Since(began) < toldLate; { // what has just begun is asked about because of changes before
		o.goOn(t, append(gone, stay...))
	}
	before, since := o.ended(t)+o.endedBeside(t), time.Now()
	if err := o.scene.Config.Remove("open-two.yaml"); err != nil {
		t.Fatal(err)
	}
	o.end(t, since, gone, stay)
	o.counted(t, before+2, func(t *testing.T) float64 { return o.ended(t) + o.endedBeside(t) }) // whoever is first ends it; both may be
	o.register(t, "two")
}

// upgrades: a WebSocket ends, too, by the rule that means its path, and no other one of the same pod does, nor of another.
func (o *openEnds) upgrades(t *testing.T) {
	o.write(t, "  rules: [{hosts: [talks.open.test], paths: ['/in/*', /stays], methods: [GET], action: Allow, name: talks}, {hosts: ['*.open.test'], ports: [9596, 9597], action: Allow, name: others}]\n")
	gone := []*talk{o.open(t, "app", "ws", "talks.open.test/in/one"), o.open(t, "app", "ws", "talks.open.test/in/two")}
	stay := []*talk{
		o.open(t, "app", "ws", "talks.open.test/stays"), o.open(t, "shop", "ws", "talks.open.test/in/one"), o.open(t, "app", "tls", "three.open.test"),
	}
	before, beside, since := o.ended(t), o.endedBeside(t), time.Now()
	o.write(t, "  rules: [{hosts: [talks.open.test], paths: [/stays], methods: [GET], action: Allow, name: talks}, {hosts: ['*.open.test'], ports: [9596, 9597], action: Allow, name: others}]\n")
	o.end(t, since, gone, stay)
	o.onwards(t, stay)
	o.endedThese(t, before, beside, gone)
	o.recordedAsEnded(t, "talks.open.test", "/in/one")
	since = time.Now()
	if err := o.scene.Config.Remove("open-talks.yaml"); err != nil {
		t.Fatal(err)
	}
	o.end(t, since, stay[:2], stay[2:])
}

// recordedAsEnded waits for a record that says of a request that it was ended, and by what.
func (o *openEnds) recordedAsEnded(t *testing.T, host, path string) {
	t.Helper()
	o.recordedAsEndedBy(t, "default/list", host, path)
}

func (o *openEnds) recordedAsEndedBy(t *testing.T, policy, host, path string) {
	t.Helper()
	o.recordedAsEndedSince(t, "denied by EgressPolicy "+policy, host, path)
}

// recordedAsEndedSince waits for a request's record that says so, and why.
func (o *openEnds) recordedAsEndedSince(t *testing.T, why, host, path string) {
	t.Helper()
	if err := world.Within(o.ctx, time.Minute, func() error {
		records, err := o.scene.AuditRecords(o.ctx, "--host", host)
		var reasons []string
		for _, r := range records {
			reasons = append(reasons, r.URLPath+" "+r.Reporter+" "+r.Reason)
			if r.URLPath == path && strings.Contains(r.Reason, "ended when it was not allowed any more: "+why) {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("no record says that %s was ended, and by what: %q", path, reasons))
	}); err != nil {
		t.Error(err)
	}
}

// agentKilled: Envoy ends with its agent, so nothing is open that a new agent does not know of.
func (o *openEnds) agentKilled(t *testing.T) {
	gone := []*talk{o.open(t, "app", "tls", "three.open.test"), o.open(t, "shop", "tcp", "one.open.test")}
	since := time.Now()
	if err := o.scene.Gateway.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o.end(t, since, gone, nil)
	if err := o.scene.Gateway.Restart(o.ctx, false); err != nil {
		t.Fatal(err)
	}
}

func (o *openEnds) expired(t *testing.T) {
	o.registerTalks(t)
	began := time.Now()
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339) // so that rules end in the mesh
	o.write(t, fmt.Sprintf("  rules: [{hosts: [one.open.test, two.open.test], action: Allow, name: both}, {hosts: [none.open.test], action: Allow, expires: %q}]\n", later))
	stay := []*talk{o.open(t, "app", "tls", "two.open.test"), o.open(t, "app", "tcp", "two.open.test"), o.open(t, "shop", "tls", "one.open.test")}
	gone := []*talk{o.open(t, "app", "tls", "one.open.test"), o.open(t, "app", "tcp", "one.open.test")}
	end := time.Now().Add(lead(began)).Truncate(time.Second)
	o.write(t, fmt.Sprintf("  rules: [{hosts: [one.open.test], action: Allow, expires: %[1]q}, {hosts: [two.open.test, three.open.test], action: Allow, name: stays}, "+
		"{hosts: [talks.open.test], paths: [/ends], action: Allow, expires: %[1]q}, {hosts: [talks.open.test], action: Allow, expires: %[2]q}]\n", end.UTC().Format(time.RFC3339), later))
	stay = append(stay, o.open(t, "app", "tls", "three.open.test")) // it is in force
	answer := o.open(t, "app", "http", "talks.open.test/ends")
	gone = append(gone, answer)
	stay = append(stay, o.open(t, "app", "http", "talks.open.test/stays"), o.open(t, "shop", "http", "talks.open.test/ends"))
	if err := o.scene.Controller.Kill(o.ctx); err != nil {
		t.Fatal(err)
	}
	o.upTo(t, end, gone, stay)
	o.end(t, end, gone, stay)
	if err := answer.say(); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("an answer that was cut ends with %v", err)
	}
	o.onwards(t, stay)
}
