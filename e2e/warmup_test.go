package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// Services with the same pods: the first two warm up who is new, in ten minutes from a thousandth of a share.
const (
	warmupFor   = 10 * time.Minute
	warmupLeast = warmupFor / 1000
	warmupAsked = 1000
)

// warmupServices are Services by how they choose an endpoint. "cold" warms nobody up; "older" has the name that Istio had for it before, which begins with a tenth.
var warmupServices = map[string]string{
	"turns": "simple: ROUND_ROBIN, warmup: {duration: 600s, minimumPercent: 0.1, aggression: 1}",
	"least": "simple: LEAST_REQUEST, warmup: {duration: 600s, minimumPercent: 0.1}",
	"cold":  "simple: ROUND_ROBIN",
	"older": "simple: ROUND_ROBIN, warmupDurationSecs: 60s",
}

// What is tried of "older": an endpoint that has been there for 24 s has four tenths of its share, and one that is new a tenth for 6 s, and a quarter after 15 s.
const (
	olderFor   = time.Minute
	olderAsked = 300
)

func warmupAt(name string) netip.AddrPort {
	return netip.AddrPortFrom(map[string]netip.Addr{
		"turns": netip.MustParseAddr("10.96.0.101"), "least": netip.MustParseAddr("10.96.0.102"), "cold": netip.MustParseAddr("10.96.0.103"), "older": netip.MustParseAddr("10.96.0.104"),
	}[name], 8080)
}

// warmupObjects are the Services, with the endpoints that they have.
func warmupObjects(endpoints ...netip.Addr) string {
	var b strings.Builder
	for name, balancer := range warmupServices {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: default}\nspec: {clusterIP: %s, selector: {app: warm}, ports: [{name: http, port: 8080, targetPort: 8080}]}\n", name, warmupAt(name).Addr())
		fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-1, namespace: default, labels: {kubernetes.io/service-name: %[1]s}}\naddressType: IPv4\nports: [{name: http, port: 8080, protocol: TCP}]\nendpoints:\n", name)
		for _, at := range endpoints {
			fmt.Fprintf(&b, "- {addresses: [%s], conditions: {ready: true}}\n", at)
		}
		fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: %[1]s, namespace: default}\nspec: {host: %[1]s.default.svc.cluster.local, trafficPolicy: {loadBalancer: {%[2]s}}}\n", name, balancer)
	}
	return b.String()
}

// TestWarmup: an endpoint that comes to a Service that warms up gets a part of its share, and to one that does not, its share.
//
// A share grows with the time since an endpoint came, so nothing is said of how soon anything is: who is new has been there for a quarter of the time that the others
// have, at most, when it is counted, or is counted anew. So it has a quarter of another one's weight, one in nine requests beside two others. That it has one in five of
// 1,000 all the same is less likely than exp(-33), by Chernoff's bound; and so it is, by exp(-43), that it has less where it has a third.
func TestWarmup(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, scene := setScene(t, story.InNamespaces)
	w := &warmup{ctx: ctx, scene: scene}
	w.serve(t)
	w.becomes(t, w.olds...)
	w.since = time.Now()
	for end := time.Now().Add(10 * time.Minute); ; {
		answered, fits := w.counted(t)
		if fits {
			for name, n := range answered {
				if warm := name != "cold"; warm != (n < warmupAsked/5) {
					t.Errorf("%s: %d of %d requests went to who is new", name, n, warmupAsked)
				}
			}
			t.Logf("of %d requests each, who was new had %v", warmupAsked, answered)
			w.older(t)
			return
		}
		if time.Now().After(end) {
			t.Fatal("it takes more than a quarter of the time since the first endpoints came to count what a newcomer gets")
		}
	}
}

type warmup struct {
	ctx    context.Context
	scene  *story.Scene
	olds   []netip.Addr
	newest netip.Addr
	since  time.Time // the proxy has known olds
}

// serve starts three endpoints, each of which says where it is.
func (w *warmup) serve(t *testing.T) {
	t.Helper()
	for i := range 3 {
		at := netip.AddrFrom4([4]byte{10, 77, 0, byte(95 + i)})
		host, err := w.scene.World.AddPod(fmt.Sprintf("warm-%d", i), at)
		if err != nil {
			t.Fatal(err)
		}
		servePages(t, host, netip.AddrPortFrom(at, 8080), func(out http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(out, at.String()) })
		if w.newest = at; i < 2 {
			w.olds = append(w.olds, at)
		}
	}
}

// becomes writes that these are the endpoints, and waits until the app's proxy has them all, and no other.
func (w *warmup) becomes(t *testing.T, endpoints ...netip.Addr) {
	t.Helper()
	if err := w.scene.Config.Write("warmup.yaml", warmupObjects(endpoints...)); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(w.ctx, 2*time.Minute, func() error {
		text, err := w.scene.App.Admin(w.ctx, "/clusters")
		if err != nil {
			return err
		}
		for name := range warmupServices {
			for _, at := range append([]netip.Addr{w.newest}, w.olds...) {
				want := false
				for _, e := range endpoints {
					want = want || e == at
				}
				if has := strings.Contains(string(text), fmt.Sprintf("outbound|8080||%s.default.svc.cluster.local::%s:8080::cx_active", name, at)); has != want {
					return fmt.Errorf("%s has %s: %v", name, at, has)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// counted has a newcomer come, counts what it gets, and has it go; fits says that it was new all the time.
func (w *warmup) counted(t *testing.T) (answered map[string]int, fits bool) {
	t.Helper()
	answered = map[string]int{}
	came := time.Now()
	w.becomes(t, append([]netip.Addr{w.newest}, w.olds...)...)
	for name := range warmupServices {
		if name == "older" {
			continue
		}
		n, err := w.asked(name, warmupAsked)
		if err != nil {
			t.Fatal(err)
		}
		answered[name] = n
	}
	fits = 4*max(time.Since(came), warmupLeast) <= came.Sub(w.since)
	for name := range warmupServices { // a part of a share is more than nothing
		if err := world.Within(w.ctx, 2*time.Minute, func() error {
			if n, err := w.asked(name, 100); n == 0 {
				return errors.Join(err, fmt.Errorf("%s: who is new gets nothing", name))
			}
			return nil
		}); fits && err != nil {
			t.Error(err)
		}
	}
	w.becomes(t, w.olds...)
	return answered, fits
}

// older: the name from before means the same. By weights endpoints are taken in turn, nobody is drawn: with a quarter of the others' weight one in nine is sent to who is new.
func (w *warmup) older(t *testing.T) {
	t.Helper()
	if err := world.Within(w.ctx, 10*time.Minute, func() error {
		if has := time.Since(w.since); has < 4*olderFor/10 {
			return fmt.Errorf("the others have been there for %s", has)
		}
		came := time.Now()
		w.becomes(t, append([]netip.Addr{w.newest}, w.olds...)...)
		n, err := w.asked("older", olderAsked)
		others := min(came.Sub(w.since), olderFor)
		took := time.Since(came)
		w.becomes(t, w.olds...)
		switch {
		case err != nil:
			t.Fatal(err)
		case 4*max(took, olderFor/10) > others:
			return fmt.Errorf("it took %s to ask, and the others have been there for %s", took, others)
		case n == 0 || n >= olderAsked/5:
			t.Errorf("older: %d of %d requests went to who is new", n, olderAsked)
		}
		t.Logf("of %d requests, who was new had %d, by the name from before", olderAsked, n)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// asked sends requests from the app, one after the other on one connection, and counts those that who is new has answered.
func (w *warmup) asked(name string, requests int) (n int, err error) {
	conn, err := w.scene.World.App.DialContext(w.ctx, "tcp", warmupAt(name).String())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for range requests {
		_ = conn.SetDeadline(time.Now().Add(answerWithin))
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s.default.svc.cluster.local\r\n\r\n", name); err != nil {
			return n, err
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return n, err
		}
		body, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return n, err
		}
		if resp.StatusCode != http.StatusOK {
			return n, fmt.Errorf("%s: %s: %s", name, resp.Status, body)
		}
		if string(body) == w.newest.String() {
			n++
		}
	}
	return n, nil
}
