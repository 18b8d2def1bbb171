package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// greetingPort is one of a pod whose server speaks first.
const greetingPort = 9697

// headlessObjects is a Service without an address of its own, of the same pods.
const headlessObjects = `apiVersion: v1
kind: Service
metadata: {name: each, namespace: beta}
spec: {clusterIP: None, selector: {app: web}, ports: [{name: http, port: 9685}, {name: tcp-app, port: 9691}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: each-1, namespace: beta, labels: {kubernetes.io/service-name: each, service.kubernetes.io/headless: ""}}
addressType: IPv4
ports: [{name: http, port: 9685}, {name: tcp-app, port: 9691}]
endpoints:
- {addresses: [10.77.0.62], targetRef: {kind: Pod, namespace: beta, name: web-1}}
- {addresses: [10.77.0.64], targetRef: {kind: Pod, namespace: beta, name: web-2}}
`

// waypointFor is the objects with a waypoint that is for something.
func waypointFor(what string) string {
	return strings.Replace(waypointObjects, "metadata: {name: waypoint, namespace: beta}\nspec: {gateway", "metadata: {name: waypoint, namespace: beta, labels: {istio.io/waypoint-for: "+what+"}}\nspec: {gateway", 1)
}

// label gives the second pod behind the waypoint one more label.
func (w *waypointTest) label(t *testing.T, with string) {
	t.Helper()
	w.write(t, "fronted.yaml", strings.Replace(frontedPods(), "{app: web, version: v2}", "{app: web, version: v2"+with+"}", 1))
}

// serveGreeting says to whoever comes who that is, and waits for nothing.
func serveGreeting(t *testing.T, at *world.Host, addr netip.AddrPort) {
	t.Helper()
	l, err := at.Listen(addr.String())
	if err != nil {
		t.Fatal(err)
	}
	serveEach(t, l, func(c net.Conn) {
		peer, _, _ := net.SplitHostPort(c.RemoteAddr().String())
		_, _ = fmt.Fprintln(c, peer)
	})
}

// seenAs is who a server at a pod's own address says that it sees, by each way to ask it.
func (w *waypointTest) seenAs(from *world.Host) (map[string]string, error) {
	c := w.alpha.caller
	c.host = from
	seen := map[string]string{}
	status, text, err := c.at(betaAddr).get(w.ctx, 10*time.Second, betaAddr.String(), frontedHTTP, "/", nil)
	if fields := strings.Fields(text); err == nil && status == 200 && len(fields) > 2 {
		seen["request"], _, _ = net.SplitHostPort(fields[2])
	}
	for what, ask := range map[string]struct {
		port uint16
		line string
	}{"bytes": {frontedTCP, "who please\n"}, "few bytes": {unlistedTCP, "who\n"}, "bytes of the server's": {greetingPort, ""}} {
		conn, err2 := from.DialContext(w.ctx, "tcp", netip.AddrPortFrom(betaAddr, ask.port).String())
		if err2 != nil {
			err = errors.Join(err, err2)
			continue
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, err2 = io.WriteString(conn, ask.line)
		all, err3 := io.ReadAll(conn)
		seen[what] = strings.TrimSpace(string(all))
		err = errors.Join(err, err2, err3, conn.Close())
	}
	return seen, err
}

// passesOn has nodes pass on what nobody registered, to pods of the cluster's networks among others: an address is a pod's in those alone.
func (w *waypointTest) passesOn(t *testing.T) {
	t.Helper()
	w.write(t, "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\nspec: {podCIDR: 10.77.0.0/24}\n")
	if err := w.scene.SetPolicy(w.ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
}

// sources holds that an app sees who came to its pod: the client, whatever that speaks, and the waypoint where that stands before the pod's own address. So does the record.
func (w *waypointTest) sources(t *testing.T) {
	if err := w.scene.RecordMesh(); err != nil {
		t.Fatal(err)
	}
	w.passesOn(t)
	serveGreeting(t, w.webs[0], netip.AddrPortFrom(betaAddr, greetingPort))
	froms := map[string]struct {
		host *world.Host
		addr netip.Addr
	}{
		"a pod of the mesh": {w.alpha.host, w.alpha.addr}, "one with a sidecar": {w.scene.World.App, world.AppAddr}, "a host that is in no mesh": {w.node.Host, nodeAddr},
	}
	for _, front := range []string{"service", "all"} {
		w.write(t, "waypoint.yaml", waypointFor(front))
		for who, from := range froms {
			want := from.addr
			if front == "all" && from.host == w.alpha.host {
				want = waypointAddr
			}
			if err := world.Within(w.ctx, time.Minute, func() error {
				seen, err := w.seenAs(from.host)
				for _, way := range []string{"request", "bytes", "few bytes", "bytes of the server's"} {
					if seen[way] != want.String() {
						err = errors.Join(err, fmt.Errorf("%s of %q", way, seen[way]))
					}
				}
				return err
			}); err != nil {
				t.Errorf("a waypoint for %s; from %s, want %s: %v", front, who, want, err)
			}
		}
	}
	came := func(reporter, from, principal string) func(record.Record) bool {
		return func(r record.Record) bool {
			return r.Reporter == record.ReporterDestination && r.DestinationWorkload.Principal == reporter && strings.HasPrefix(r.Source, from+":") && r.Claim == principal
		}
	}
	asks := func(from *world.Host) func() { return func() { _, _ = w.seenAs(from) } } // since nothing else says that it is recorded by now
	const web = "spiffe://cluster.local/ns/beta/sa/web"
	w.recordedOf(t, "at the waypoint, of the client", betaAddr.String(), asks(w.alpha.host), came(w.front.id, w.alpha.addr.String(), w.alpha.id))
	w.recordedOf(t, "at the pod, of the waypoint", betaAddr.String(), asks(w.alpha.host), came(web, waypointAddr.String(), w.front.id))
	w.recordedOf(t, "at the pod, of one with a sidecar", betaAddr.String(), asks(w.scene.World.App), came(web, world.AppAddr.String(), ""))
	w.recordedOf(t, "at the pod, of nobody known", betaAddr.String(), asks(w.node.Host), came(web, nodeAddr.String(), ""))
	w.write(t, "waypoint.yaml", waypointObjects)
}

// headless holds that what is sent to a Service without an address of its own goes by the waypoint of its pods, at each of its ports.
func (w *waypointTest) headless(t *testing.T) {
	w.write(t, "headless.yaml", headlessObjects)
	w.write(t, "waypoint.yaml", waypointFor("workload"))
	for _, addr := range []netip.Addr{betaAddr, beta2Addr} {
		w.atPod(t, addr, "each.beta.svc.cluster.local", "/", 200, waypointAddr)
		w.bytesAtPod(t, addr, frontedTCP, waypointAddr.String())
	}
	w.label(t, ", istio.io/use-waypoint: none") // one of them alone
	w.atPod(t, beta2Addr, "each.beta.svc.cluster.local", "/", 200, w.alpha.addr)
	w.bytesAtPod(t, beta2Addr, frontedTCP, w.alpha.addr.String())
	w.atPod(t, betaAddr, "each.beta.svc.cluster.local", "/", 200, waypointAddr)
	w.label(t, ", istio.io/use-waypoint: lost")
	w.atPod(t, beta2Addr, "each.beta.svc.cluster.local", "/", 503, netip.Addr{})
	w.bytesAtPod(t, beta2Addr, frontedTCP, "")
	w.label(t, "")
	w.bytesAtPod(t, beta2Addr, frontedTCP, waypointAddr.String())
	if err := w.scene.Config.Remove("headless.yaml"); err != nil {
		t.Fatal(err)
	}
}

// frontLoad asks a pod at its own address without a break: by requests on connections of their own, and on one that is kept, and by bytes.
type frontLoad struct {
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	seen   map[string]map[string]int // by what was tried, and who came
	failed map[string]int            // by what was tried, when, and how it failed
	// allowed are those who may come; strange are others who did.
	allowed []string
	strange []string
}

func (w *waypointTest) loadAt(t *testing.T, addr netip.Addr, allowed ...netip.Addr) *frontLoad {
	ctx, cancel := context.WithCancel(w.ctx)
	l := &frontLoad{cancel: cancel, seen: map[string]map[string]int{}, failed: map[string]int{}}
	for _, a := range allowed {
		l.allowed = append(l.allowed, a.String())
	}
	t.Cleanup(func() { cancel(); l.work.Wait() })
	kept := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1, DialContext: w.alpha.host.DialContext}}
	requests := func(c *http.Client) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/", netip.AddrPortFrom(addr, frontedHTTP)), nil)
			if err != nil {
				return "", err
			}
			resp, err := c.Do(r)
			if err != nil {
				return "", err
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			fields := strings.Fields(string(text))
			if err != nil || resp.StatusCode != http.StatusOK || len(fields) < 3 {
				return "", fmt.Errorf("%d %q (%w)", resp.StatusCode, text, err)
			}
			who, _, err := net.SplitHostPort(fields[2])
			return who, err
		}
	}
	ways := map[string]func(context.Context) (string, error){
		"requests":                      requests(&http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: w.alpha.host.DialContext}}),
		"requests on a kept connection": requests(kept),
		"bytes":                         w.asksWho(addr, frontedTCP),
	}
	if addr != frontedVIP { // which has the Service's ports alone
		ways["bytes at a port nobody names"] = w.asksWho(addr, unlistedTCP)
	}
	for what, ask := range ways {
		l.seen[what] = map[string]int{}
		l.work.Go(func() {
			pace := time.NewTicker(5 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				within, end := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
				who, err := ask(within)
				end()
				l.note(what, who, err)
				<-pace.C
			}
		})
	}
	return l
}

// asksWho asks by bytes that are enough to be told from TLS at once.
func (w *waypointTest) asksWho(addr netip.Addr, port uint16) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		c, err := w.alpha.host.DialContext(ctx, "tcp", netip.AddrPortFrom(addr, port).String())
		if err != nil {
			return "", err
		}
		defer func() { _ = c.Close() }()
		deadline, _ := ctx.Deadline()
		_ = c.SetDeadline(deadline)
		_, _ = fmt.Fprintln(c, "who please")
		all, err := io.ReadAll(c)
		who := strings.TrimSpace(string(all))
		if err == nil && who == "" {
			err = io.ErrUnexpectedEOF
		}
		return who, err
	}
}

func (l *frontLoad) note(what, who string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed[fmt.Sprintf("%s: %s: %v", what, time.Now().Format(time.StampMilli), err)]++
	case !slices.Contains(l.allowed, who):
		l.strange = append(l.strange, what+" of "+who)
	default:
		l.seen[what][who]++
	}
}

// come waits until each way has been gone so many times more by somebody.
func (l *frontLoad) come(t *testing.T, n int, by netip.Addr) {
	t.Helper()
	begun := map[string]int{}
	l.mu.Lock()
	for what, who := range l.seen {
		begun[what] = who[by.String()]
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := world.Poll(ctx, 10*time.Millisecond, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for what, who := range l.seen {
			if done := who[by.String()] - begun[what]; done < n {
				return fmt.Errorf("%s came %d times by %s", what, done, by)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// failures waits until so many more have failed, by each way.
func (l *frontLoad) failures(t *testing.T, n int) {
	t.Helper()
	count := func() map[string]int {
		l.mu.Lock()
		defer l.mu.Unlock()
		out := map[string]int{}
		for what, times := range l.failed {
			what, _, _ = strings.Cut(what, ": ")
			out[what] += times
		}
		return out
	}
	begun := count()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := world.Poll(ctx, 10*time.Millisecond, func() error {
		now := count()
		for what := range l.seen {
			if now[what]-begun[what] < n {
				return fmt.Errorf("%s failed %d times", what, now[what]-begun[what])
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// end ends it, and says what failed where nothing may.
func (l *frontLoad) end(t *testing.T, mayFail bool) {
	t.Helper()
	l.cancel()
	l.work.Wait()
	t.Logf("%v; %d failed", l.seen, len(l.failed))
	if len(l.strange) > 0 {
		t.Errorf("%d times somebody came who may not, as %s", len(l.strange), l.strange[0])
	}
	if len(l.failed) > 0 && !mayFail {
		t.Errorf("failed: %v", l.failed)
	}
}

// underLoad holds that no request and no connection fails while a waypoint comes before a pod's own address and goes from there, by the pod's label or by what the waypoint is for.
func (w *waypointTest) underLoad(t *testing.T) {
	w.passesOn(t)
	w.write(t, "waypoint.yaml", waypointFor("all"))
	w.atPod(t, beta2Addr, beta2Addr.String(), "/", 200, waypointAddr)
	l := w.loadAt(t, beta2Addr, w.alpha.addr, waypointAddr)
	l.come(t, 20, waypointAddr)
	for range 3 {
		l.turns(t, "the pod leaves its waypoint", func() { w.label(t, ", istio.io/use-waypoint: none") }, w.alpha.addr)
		l.turns(t, "the pod has its waypoint again", func() { w.label(t, "") }, waypointAddr)
	}
	l.turns(t, "the waypoint is for Services", func() { w.write(t, "waypoint.yaml", waypointFor("service")) }, w.alpha.addr)
	l.turns(t, "the waypoint is for all", func() { w.write(t, "waypoint.yaml", waypointFor("all")) }, waypointAddr)
	l.end(t, false)
}

// turns waits until all goes another way since something was changed.
func (l *frontLoad) turns(t *testing.T, what string, turn func(), by netip.Addr) {
	t.Helper()
	t.Logf("%s: %s", time.Now().Format(time.StampMilli), what)
	turn()
	l.come(t, 20, by)
}

// serviceUnderLoad holds that of what is sent to a Service while a waypoint comes before it and goes from there.
func (w *waypointTest) serviceUnderLoad(t *testing.T) {
	label := func(with string) func() {
		return func() {
			w.write(t, "waypoint.yaml", strings.Replace(waypointObjects, "metadata: {name: web, namespace: beta}\nspec: {clusterIP", "metadata: {name: web, namespace: beta"+with+"}\nspec: {clusterIP", 1))
		}
	}
	label("")()
	w.answers(t, 200, "v1 ", "/")
	l := w.loadAt(t, frontedVIP, w.alpha.addr, waypointAddr)
	l.come(t, 20, waypointAddr)
	for i := range 3 {
		l.turns(t, "the Service leaves its waypoint", label(", labels: {istio.io/use-waypoint: none}"), w.alpha.addr)
		if i == 2 { // then their node has to be told of it, too
			w.takesMutual(t, false)
		}
		l.turns(t, "the Service has its waypoint again", label(""), waypointAddr)
	}
	l.end(t, false)
}

// takesMutual waits until a pod behind the waypoint tells mutual TLS apart, or does no more.
func (w *waypointTest) takesMutual(t *testing.T, want bool) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		conn, err := w.node.Host.DialContext(w.ctx, "tcp", netip.AddrPortFrom(betaAddr, frontedHTTP).String())
		if err != nil {
			return err
		}
		c := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"istio"}, Certificates: []tls.Certificate{w.member(t, "one")}, InsecureSkipVerify: true}) // whoever it is
		defer func() { _ = c.Close() }()
		_ = c.SetDeadline(time.Now().Add(attackTimeout))
		if err := c.HandshakeContext(w.ctx); (err == nil) != want {
			return fmt.Errorf("the handshake: %w", err)
		}
		return nil
	}); err != nil {
		t.Errorf("the pod tells mutual TLS apart: %v, want %t", err, want)
	}
}

// killed holds that nothing gets to a pod past its waypoint when that is killed, at no moment, and that all does by it when it is back.
func (w *waypointTest) killed(t *testing.T) {
	w.atPod(t, beta2Addr, beta2Addr.String(), "/", 200, waypointAddr)
	l := w.loadAt(t, beta2Addr, waypointAddr)
	for range 2 {
		l.come(t, 20, waypointAddr)
		if err := w.pod.Kill(w.ctx); err != nil {
			t.Fatal(err)
		}
		l.failures(t, 5)
		if err := w.scene.Config.Remove("waypoint-pod.yaml"); err != nil {
			t.Fatal(err)
		}
		w.atPod(t, beta2Addr, beta2Addr.String(), "/", 503, netip.Addr{})
		w.write(t, "waypoint-pod.yaml", waypointPod)
		l.failures(t, 5)
		if err := w.pod.Restart(w.ctx, true); err != nil {
			t.Fatal(err)
		}
	}
	l.come(t, 20, waypointAddr)
	l.end(t, true)
	l = w.loadAt(t, beta2Addr, waypointAddr) // back, and whole
	l.come(t, 20, waypointAddr)
	l.end(t, false)
	w.write(t, "waypoint.yaml", waypointObjects)
	if err := w.scene.SetPolicy(w.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
}
