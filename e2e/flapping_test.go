package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// flaps is how many changes of endpoints there are, flapEvery how long there is between two at least: 50 in a second.
const (
	flaps     = 1200
	flapEvery = 20 * time.Millisecond
)

// flapPatience is how long the next change may wait: for proxies that know the one before, while the control plane is away, on a busy machine.
const flapPatience = 3 * time.Minute

var (
	crowdAddr    = netip.MustParseAddr("10.77.0.90")
	crowdService = netip.MustParseAddr("10.96.0.90")
)

const (
	crowdHost    = "crowd.default.svc.cluster.local"
	crowdOutside = "crowd.test"
	crowdHTTP    = 8080
	crowdTCP     = 9000
)

// crowdObjects are a Service, a host outside whose endpoints are WorkloadEntries, and an ingress gateway that leads to the Service.
const crowdObjects = `apiVersion: v1
kind: Service
metadata: {name: crowd, namespace: default}
spec:
  clusterIP: 10.96.0.90
  selector: {app: crowd}
  ports:
  - {name: http, port: 8080, targetPort: 8080}
  - {name: tcp, port: 9000, targetPort: 9000}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: crowd, namespace: default}
spec:
  hosts: [crowd.test]
  location: MESH_EXTERNAL
  resolution: STATIC
  workloadSelector: {labels: {app: crowd-outside}}
  ports:
  - {number: 8080, name: http, protocol: HTTP}
  - {number: 9000, name: tcp, protocol: TCP}
---
apiVersion: v1
kind: Service
metadata: {name: istio-ingressgateway, namespace: istio-ingress}
spec:
  clusterIP: 10.96.0.60
  selector: {istio: ingressgateway}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: tcp, port: 9000, targetPort: 9000}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: public, namespace: default}
spec:
  selector: {istio: ingressgateway}
  servers:
  - {port: {number: 80, name: http, protocol: HTTP}, hosts: [public.test]}
  - {port: {number: 9000, name: tcp, protocol: TCP}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: public, namespace: default}
spec:
  hosts: [public.test]
  gateways: [public]
  http: [{route: [{destination: {host: crowd, port: {number: 8080}}}]}]
  tcp: [{match: [{port: 9000}], route: [{destination: {host: crowd, port: {number: 9000}}}]}]
`

// flapping is a scene whose Service and host outside have endpoints that come and go, and clients that ask all the time.
type flapping struct {
	ctx     context.Context
	scene   *story.Scene
	ingress *story.Pod
	crowds  []*crowd
	callers []*crowdCaller
	beat    *beat
}

// TestEndpointsFlapUnderTraffic: endpoints come and go fifty times in a second, those that go as correct servers do, and no client is told so: not
// by a sidecar, nor by an ingress gateway, nor by an egress gateway, neither requests nor bytes, on new connections and on kept ones; nor while the
// control plane is killed and comes back.
func TestEndpointsFlapUnderTraffic(t *testing.T) {
	needRoot(t)
	t.Parallel()
	f := newFlapping(t)
	traffic, stop := context.WithCancel(f.ctx)
	defer stop()
	var running sync.WaitGroup
	for _, c := range f.callers {
		running.Go(func() { c.ask(traffic) })
	}
	err := f.flap(t)
	stop()
	f.beat.end()
	running.Wait()
	if err != nil {
		t.Error(err)
	}
	f.report(t)
}

func newFlapping(t *testing.T) *flapping {
	t.Helper()
	ctx, scene := setScene(t, story.InNamespaces)
	f := &flapping{ctx: ctx, scene: scene, beat: newBeat()}
	setting, cancel := context.WithTimeout(ctx, sceneLimit)
	defer cancel()
	pods, err := scene.World.AddPod("crowd", crowdAddr)
	if err != nil {
		t.Fatal(err)
	}
	inside := &crowd{name: "inside", file: "crowd-slice.yaml", objects: crowdSlice, proxies: 2}
	outsideOf := &crowd{name: "outside", file: "crowd-entries.yaml", objects: crowdEntries, proxies: 1}
	f.crowds = []*crowd{inside, outsideOf}
	for i := range 3 { // with proxies: two stay, the last one is ready and is not, and stays where it is
		at := netip.AddrFrom4([4]byte{10, 77, 0, byte(91 + i)})
		pod, err := scene.AddSidecar(setting, fmt.Sprintf("meshed-%d", i), "default", "crowd", at, "app=crowd")
		if err != nil {
			t.Fatal(err)
		}
		inside.add(t, f.beat, pod.Host(), at, map[bool]habit{true: stays, false: blinks}[i < 2])
	}
	for i := range 60 {
		inside.add(t, f.beat, pods, f.given(t, pods, netip.AddrFrom4([4]byte{10, 77, 0, byte(128 + i)})), comesAndGoes)
		outsideOf.add(t, f.beat, scene.World.Outside, f.given(t, scene.World.Outside, netip.AddrFrom4([4]byte{203, 0, 113, byte(128 + i)})),
			map[bool]habit{true: stays, false: comesAndGoes}[i < 2])
	}
	for name, text := range map[string]string{"crowd.yaml": crowdObjects, "crowd-pods.yaml": crowdPods(inside)} {
		if err := scene.Config.Write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range f.crowds {
		f.tell(t, c)
	}
	if f.ingress, err = scene.AddRouter(setting, "ingress-1", "istio-ingress", "istio-ingressgateway-service-account", ingressAddr, "istio=ingressgateway"); err != nil {
		t.Fatal(err)
	}
	f.callers = f.allCallers(t)
	for _, c := range f.callers {
		if err := world.Within(ctx, time.Minute, func() error { return c.once(ctx) }); err != nil {
			t.Fatalf("%s, before anything flaps: %v", c, err)
		}
	}
	return f
}

// given gives a host one more address.
func (f *flapping) given(t *testing.T, h *world.Host, addr netip.Addr) netip.Addr {
	t.Helper()
	if out, err := h.Run(f.ctx, 0, "ip", "addr", "add", addr.String()+"/24", "dev", "eth0"); err != nil {
		t.Fatalf("%s: %v: %s", addr, err, out)
	}
	return addr
}

// allCallers are a client of each kind for each way there is.
func (f *flapping) allCallers(t *testing.T) (all []*crowdCaller) {
	t.Helper()
	app, outsider := f.scene.World.App, f.scene.World.Outside
	var madeUpFor netip.Addr
	if err := world.Within(f.ctx, time.Minute, func() (err error) {
		madeUpFor, err = appOf(f.scene).resolve(f.ctx, crowdOutside)
		if err == nil && !madeUp.Contains(madeUpFor) {
			err = fmt.Errorf("%s is at %s", crowdOutside, madeUpFor)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name, host string
		from       *world.Host
		at         netip.Addr
	}{
		{"a sidecar", crowdHost, app, crowdService},
		{"an ingress gateway", "public.test", outsider, ingressAddr},
		{"an egress gateway", crowdOutside, app, madeUpFor},
	} {
		for _, kept := range []bool{true, false} {
			all = append(all,
				&crowdCaller{way: way.name, says: crowdGet(way.host, "/"), http: true, kept: kept, from: way.from, at: netip.AddrPortFrom(way.at, crowdHTTP)},
				&crowdCaller{way: way.name, says: "? who\n", kept: kept, from: way.from, at: netip.AddrPortFrom(way.at, crowdTCP)})
		}
		all = append(all, &crowdCaller{way: way.name, says: crowdGet(way.host, "/slow"), http: true, kept: true, slow: true, from: way.from, at: netip.AddrPortFrom(way.at, crowdHTTP)})
	}
	return all
}

// tell writes down who a crowd is now.
func (f *flapping) tell(t *testing.T, c *crowd) {
	t.Helper()
	if err := f.scene.Config.Write(c.file, c.objects(c)); err != nil {
		t.Fatal(err)
	}
}

// flap has endpoints come and go, and kills the controller meanwhile.
func (f *flapping) flap(t *testing.T) error {
	ctx, stop := context.WithCancel(f.ctx)
	var looking, restarting sync.WaitGroup
	defer func() { stop(); looking.Wait(); restarting.Wait() }()
	looking.Go(func() { f.look(ctx) })
	pace := time.NewTicker(flapEvery)
	defer pace.Stop()
	begun, last := time.Now(), time.Now()
	for done := 0; done < flaps; {
		select {
		case <-f.ctx.Done():
			return f.ctx.Err()
		case <-pace.C:
		}
		if c := f.crowds[done%2]; c.step() || f.crowds[(done+1)%2].step() {
			f.tell(t, f.crowds[0])
			f.tell(t, f.crowds[1])
			last = time.Now()
			if done++; done%10 == 0 {
				f.beat.strike()
			}
			if done == flaps/2 {
				restarting.Go(func() { f.restart(t) })
			}
		}
		if time.Since(last) > flapPatience {
			return fmt.Errorf("after %d changes none of the servers that leave is forgotten by the proxies:\n%s", done, f)
		}
	}
	t.Logf("%d changes in %s", flaps, time.Since(begun).Round(time.Second))
	return nil
}

// restart kills the controller, and starts it again.
func (f *flapping) restart(t *testing.T) {
	if err := f.scene.Controller.Kill(f.ctx); err != nil {
		t.Error(err)
	}
	if err := f.scene.Controller.Start(f.ctx); err != nil {
		t.Error(err)
	}
}

// look tells servers that leave when no proxy knows them any more, and clients have been answered since: by then all workers of the proxies have heard it.
func (f *flapping) look(ctx context.Context) {
	for ctx.Err() == nil {
		asked := time.Now()
		known := map[netip.Addr]int{}
		for _, pod := range []*story.Pod{f.scene.App, f.ingress, f.scene.Gateway} {
			text, err := pod.Admin(ctx, "/clusters")
			if err != nil {
				return
			}
			listed := map[string]bool{}
			for _, found := range endpointInStats.FindAllSubmatch(text, -1) {
				listed[string(found[1])] = true
			}
			for addr := range listed {
				known[netip.MustParseAddr(addr)]++
			}
		}
		f.answeredAgain(ctx)
		for _, c := range f.crowds {
			c.seen(asked, known)
		}
	}
}

// endpointInStats is an endpoint of the crowds in what Envoy prints of its clusters.
var endpointInStats = regexp.MustCompile(`(?m)::((?:10\.77\.0|203\.0\.113)\.\d+):(?:8080|9000)::cx_active::`)

// answeredAgain waits until each client has asked anew and been answered, three times, or has no time left.
func (f *flapping) answeredAgain(ctx context.Context) {
	since := make([]int64, len(f.callers))
	for i, c := range f.callers {
		since[i] = c.asked.Load()
	}
	_ = world.Within(ctx, flapPatience, func() error {
		for i, c := range f.callers {
			if !c.slow && c.asked.Load() < since[i]+4 {
				return fmt.Errorf("%s waits", c)
			}
		}
		return nil
	})
}

func (f *flapping) String() string {
	var lines []string
	for _, c := range f.crowds {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

// report says what was asked and what became of it.
func (f *flapping) report(t *testing.T) {
	t.Helper()
	total := 0
	for _, c := range f.callers {
		c.mu.Lock()
		total += c.answered
		t.Logf("%s: %d answered, %d of them by who comes and goes; %d connections", c, c.answered, c.byComers, c.connections)
		if len(c.failed) > 0 {
			t.Errorf("%s: %d failed: %s", c, len(c.failed), strings.Join(c.failed[:min(5, len(c.failed))], "\n"))
		}
		if c.byComers == 0 {
			t.Errorf("%s: nobody who comes and goes has answered", c)
		}
		c.mu.Unlock()
	}
	var took []time.Duration
	for _, c := range f.crowds {
		took = append(took, c.took...)
	}
	slices.Sort(took)
	if n := len(took); n > 0 {
		t.Logf("%d requests; %d servers have left, and were forgotten after %s, 99 of 100 after %s", total, n, took[n/2], took[n*99/100])
	}
	for _, pod := range []*story.Pod{f.scene.App, f.ingress, f.scene.Gateway} {
		stats, err := pod.Admin(f.ctx, "/stats?usedonly&filter=crowd.*upstream_rq_retry$")
		t.Logf("what %s tried twice: %q (%v)", pod.Host().Name, strings.TrimSpace(string(stats)), err)
	}
}
