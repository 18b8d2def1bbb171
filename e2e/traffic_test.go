package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// madeUp is where registered hosts without an address of their own are, for pods.
var madeUp = netip.MustParsePrefix("240.240.0.0/16")

// trafficPort is where the servers of this test listen.
const trafficPort = 9480

// trafficRules are what is tried, by the host's first label; "" where no rule says anything. Each host is there twice: by the gateway, and straight.
var trafficRules = map[string]string{
	"usual":   "",
	"hashed":  "loadBalancer: {consistentHash: {httpHeaderName: x-user}}",
	"ejected": "loadBalancer: {simple: ROUND_ROBIN}, outlierDetection: {consecutive5xxErrors: 1, interval: 1s, baseEjectionTime: 600s, maxEjectionPercent: 100}",
	"pooled":  "loadBalancer: {simple: ROUND_ROBIN}, connectionPool: {tcp: {maxConnections: 1}, http: {http1MaxPendingRequests: 1}}",
}

// usualAnswered is how many requests the first endpoint of "usual" answers while the second one, which has twice its weight, answers none.
const usualAnswered = 200

// TestTraffic holds that what DestinationRules say about pools, failing endpoints and hashing is what Envoys do, and what they do where none says anything.
func TestTraffic(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := &traffic{ctx: ctx, scene: s, held: make(chan struct{}), arrived: make(chan struct{}, 100), kept: make(chan struct{}, 2*usualAnswered)}
	w.serve(t)
	for _, way := range []string{"gateway", "straight"} {
		t.Run(way, func(t *testing.T) {
			t.Run("one user's requests go to one endpoint", func(t *testing.T) { w.hashed(t, "hashed."+way+".test") })
			t.Run("an endpoint that fails is left alone", func(t *testing.T) { w.ejected(t, "ejected."+way+".test") })
			t.Run("a full pool says so", func(t *testing.T) { w.pooled(t, "pooled."+way+".test") })
			t.Run("who has more to do is asked less", func(t *testing.T) { w.usual(t, "usual."+way+".test") })
		})
	}
}

type traffic struct {
	ctx   context.Context
	scene *story.Scene

	arrived chan struct{}
	kept    chan struct{} // told when the second endpoint of "usual" keeps a request
	mu      sync.Mutex
	held    chan struct{} // requests for /hold, and for /busy at the second endpoint, wait for it
}

// serve listens at two addresses: both say who they are, and the second one fails where it is asked to.
func (w *traffic) serve(t *testing.T) {
	t.Helper()
	for i, addr := range world.OutsideAddrs[:2] {
		l, err := w.scene.World.Outside.Listen(netip.AddrPortFrom(addr, trafficPort).String())
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/hold":
				w.wait(r, w.arrived)
			case r.URL.Path == "/busy" && i == 1:
				w.wait(r, w.kept)
			case strings.HasPrefix(r.Host, "ejected.") && i == 1 && r.URL.Path == "/":
				out.WriteHeader(http.StatusInternalServerError)
			}
			_, _ = io.WriteString(out, addr.String())
		})}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	var objects strings.Builder
	for way, gateway := range map[string]string{"gateway": "istio-system/istio-egressgateway", "straight": "direct"} {
		for what, policy := range trafficRules {
			host := what + "." + way + ".test"
			w.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[:2]...)
			endpoints := "DNS"
			if policy == "" { // weights that differ are kept to the letter: no endpoint is drawn
				endpoints = fmt.Sprintf("STATIC\n  endpoints: [{address: %s, weight: 1}, {address: %s, weight: 2}]", world.OutsideAddrs[0], world.OutsideAddrs[1])
			}
			fmt.Fprintf(&objects, `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %q, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}
spec:
  hosts: [%q]
  location: MESH_EXTERNAL
  ports: [{number: %d, name: http, protocol: HTTP}]
  resolution: %s
`, host, gateway, host, trafficPort, endpoints)
			if policy != "" {
				fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: %[1]q, namespace: default}\nspec: {host: %[1]q, trafficPolicy: {%[2]s}}\n", host, policy)
			}
		}
	}
	if err := w.scene.Config.Write("traffic.yaml", objects.String()); err != nil {
		t.Fatal(err)
	}
}

// wait tells that a request is there, and keeps it until those that are held are let go.
func (w *traffic) wait(r *http.Request, there chan<- struct{}) {
	w.mu.Lock()
	held := w.held
	w.mu.Unlock()
	there <- struct{}{}
	select {
	case <-held:
	case <-r.Context().Done():
	}
}

// hold has requests that wait do so until what it gives is closed.
func (w *traffic) hold() chan struct{} {
	held := make(chan struct{})
	w.mu.Lock()
	w.held = held
	w.mu.Unlock()
	return held
}

// ask sends a request from the app's pod, and gives the answer's status and text.
func (w *traffic) ask(host, path, user string) (int, string, error) {
	return appOf(w.scene).get(w.ctx, time.Minute, host, trafficPort, path, http.Header{"X-User": {user}})
}

// ready waits until the host answers as one that is registered: before, its own address is open.
func (w *traffic) ready(t *testing.T, name string) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		if addr, err := appOf(w.scene).resolve(w.ctx, name); err != nil || !madeUp.Contains(addr) {
			return fmt.Errorf("%s is at %s (%w)", name, addr, err)
		}
		status, body, err := w.ask(name, "/ready", "nobody")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (w *traffic) hashed(t *testing.T, host string) {
	w.ready(t, host)
	at := map[string]string{} // of users
	used := map[string]bool{}
	for round := range 3 {
		for i := range 24 {
			user := fmt.Sprint("user-", i)
			status, body, err := w.ask(host, "/", user)
			if err != nil || status != http.StatusOK {
				t.Fatalf("%s: %d %s, %v", user, status, body, err)
			}
			if round > 0 && at[user] != body {
				t.Errorf("%s went to %s, and before to %s", user, body, at[user])
			}
			at[user], used[body] = body, true
		}
	}
	if len(used) != 2 {
		t.Errorf("only %v was used", used)
	}
}

func (w *traffic) ejected(t *testing.T, host string) {
	w.ready(t, host)
	// Envoy's main thread ejects, whenever it comes to it: until then, one request in two fails.
	failed, inTurn := 0, 0
	for until := time.Now().Add(time.Minute); inTurn < 20; {
		status, _, err := w.ask(host, "/", "")
		switch {
		case err != nil:
			t.Fatal(err)
		case status == http.StatusOK:
			inTurn++
		case time.Now().After(until):
			t.Fatalf("after %d failed requests the second endpoint, which fails all of them, is asked still", failed+1)
		default:
			failed, inTurn = failed+1, 0
		}
	}
	if failed == 0 {
		t.Error("no request failed, and the second endpoint fails all of them")
	}
}

func (w *traffic) pooled(t *testing.T, host string) {
	w.ready(t, host)
	held := w.hold()
	const asked = 12
	answers := make(chan int, asked)
	for range asked {
		go func() {
			status, _, _ := w.ask(host, "/hold", "")
			answers <- status
		}()
	}
	full := 0
	for range asked - 4 { // one is under way and one waits, for each of two endpoints
		select {
		case status := <-answers:
			if status != http.StatusServiceUnavailable {
				t.Errorf("while the pool is full, the answer is %d", status)
			}
			full++
		case <-time.After(30 * time.Second):
			t.Fatalf("only %d of %d requests were told that the pool is full", full, asked-4)
		}
	}
	close(held)
	for range 4 {
		<-answers
	}
}

// usual: where nobody says how an endpoint is chosen, who has more to do is asked less. The second endpoint keeps all that it is sent, until the first one has answered so many.
// By turns it would be sent two for each of them, or one, were its weight forgotten. With k requests under way it has 2/(k+1) of its weight: its nth request is due when the first
// endpoint has had n²/4 or so, which is 29 in the end, and some more where Envoy has several workers, each with turns of its own (n²/4 in each of w: w·29/√w together).
func (w *traffic) usual(t *testing.T, host string) {
	w.ready(t, host)
	held := w.hold()
	answers := make(chan error)
	ask := func() {
		status, body, err := appOf(w.scene).get(w.ctx, 10*time.Minute, host, trafficPort, "/busy", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d %s", status, body)
		}
		answers <- err
	}
	answered, kept := 0, 0
	for answered < usualAnswered && kept < usualAnswered/2 {
		go ask()
		select {
		case err := <-answers: // of the first endpoint: the second one gives none
			if answered++; err != nil {
				t.Fatal(err)
			}
		case <-w.kept:
			kept++
		}
	}
	close(held)
	for range kept {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	t.Logf("while one endpoint answered %d requests, the other one, with twice the weight, was sent %d and answered none", answered, kept)
	if kept == 0 || kept >= usualAnswered/2 {
		t.Errorf("the endpoint that keeps all was sent %d requests, and the other one %d", kept, answered)
	}
}
