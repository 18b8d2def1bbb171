package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
)

// routesPort is where the servers of this test listen.
const routesPort = 9481

// userRoutes are a VirtualService's, of host "led.WAY.test"; "one.WAY.test" and "two.WAY.test" are the servers behind.
const userRoutes = `
  - {name: dropped, match: [{headers: {x-user: {exact: dropped}}}], fault: {abort: {httpStatus: 418, percentage: {value: 100}}}, route: [{destination: {host: led.WAY.test}}]}
  - {name: faultless, match: [{headers: {x-user: {exact: faultless}}}], fault: {abort: {httpStatus: 418}}, route: [{destination: {host: led.WAY.test}}]}
  - {name: answered, match: [{uri: {prefix: /answer}}], directResponse: {status: 451, body: {string: "not from here"}}}
  - {name: moved, match: [{uri: {prefix: /moved}}], redirect: {uri: /there, authority: one.WAY.test}}
  - {name: rewritten, match: [{uri: {prefix: /old/}}], rewrite: {uri: /new/}, headers: {request: {set: {x-seen: "%PROTOCOL%"}, remove: [x-user]}, response: {set: {x-way: WAY}}}, route: [{destination: {host: led.WAY.test}}]}
  - {name: two, match: [{uri: {regex: "/two/[0-9]+"}}], route: [{destination: {host: two.WAY.test}}]}
  - {name: shared, match: [{uri: {prefix: /share}}], route: [{destination: {host: one.WAY.test}, weight: 1}, {destination: {host: two.WAY.test}, weight: 3}]}
  - {name: retried, match: [{uri: {prefix: /flaky}}], retries: {attempts: 3, retryOn: "503"}, route: [{destination: {host: led.WAY.test}}]}
  - {name: slow, match: [{uri: {prefix: /hold}}], timeout: 0.3s, route: [{destination: {host: led.WAY.test}}]}
  - {name: copied, match: [{uri: {prefix: /copied}}], mirror: {host: two.WAY.test}, route: [{destination: {host: one.WAY.test}}]}
  - {name: nowhere, match: [{uri: {prefix: /nowhere}}], route: [{destination: {host: nobody.WAY.test}}]}
  - {name: rest, match: [{uri: {prefix: /ready}}], route: [{destination: {host: led.WAY.test}}]}
`

// page is Istio's about egress gateways, for a host that would leave straight without it.
const page = `---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: page, namespace: default, annotations: {egress.sallyport.io/gateway: direct}}
spec: {hosts: [page.test], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %[1]d, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: page, namespace: default}
spec: {selector: {istio: egressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: [page.test]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: page, namespace: default}
spec: {host: istio-egressgateway.istio-system.svc.cluster.local, subsets: [{name: page}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: page, namespace: default}
spec:
  hosts: [page.test]
  gateways: [page, mesh]
  http:
  - match: [{gateways: [mesh], port: %[1]d}]
    route: [{destination: {host: istio-egressgateway.istio-system.svc.cluster.local, subset: page, port: {number: 80}}, weight: 100}]
  - match: [{gateways: [page], port: 80}]
    headers: {request: {set: {x-seen: by the gateway}}}
    route: [{destination: {host: page.test, port: {number: %[1]d}}, weight: 100}]
`

// services are of the shape of Istio's page about Kubernetes Services for what is outside: other names for what is registered, and for what is not, and a Service whose
// endpoints somebody wrote.
const services = `---
apiVersion: v1
kind: Service
metadata: {name: straight, namespace: default}
spec: {type: ExternalName, externalName: one.straight.test, ports: [{name: http, protocol: TCP, port: %[1]d}]}
---
apiVersion: v1
kind: Service
metadata: {name: gateway, namespace: default}
spec: {type: ExternalName, externalName: one.gateway.test, ports: [{name: http, protocol: TCP, port: %[1]d}]}
---
apiVersion: v1
kind: Service
metadata: {name: nobody, namespace: default}
spec: {type: ExternalName, externalName: nobody.test, ports: [{name: http, protocol: TCP, port: %[1]d}]}
---
apiVersion: v1
kind: Service
metadata: {name: written, namespace: default}
spec: {clusterIP: %[3]s, ports: [{name: http, protocol: TCP, port: 80, targetPort: %[1]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: written-1, namespace: default, labels: {kubernetes.io/service-name: written}}
addressType: IPv4
ports: [{name: http, port: %[1]d, protocol: TCP}]
endpoints: [{addresses: [%[2]s]}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: written, namespace: default}
spec: {host: written.default.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}
`

// writtenService is the address of the last one.
var writtenService = netip.MustParseAddrPort("10.96.0.77:80")

// seen is what a server saw of a request.
type seen struct {
	At, From, Host, Path string
	Header               http.Header
}

type routed struct {
	ctx   context.Context
	scene *story.Scene

	mu     sync.Mutex
	flaky  int
	copies []string
}

// TestRoutes holds that users' routes do what they say, straight from the pod and through the gateway.
func TestRoutes(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := &routed{ctx: ctx, scene: s}
	w.serve(t)
	for _, way := range []string{"straight", "gateway"} {
		t.Run(way, func(t *testing.T) { w.try(t, way) })
	}
	t.Run("Istio's page", w.page)
	t.Run("routes at an egress Gateway", w.lets)
	t.Run("Kubernetes Services", w.services)
}

func (w *routed) serve(t *testing.T) {
	t.Helper()
	for _, addr := range world.OutsideAddrs[:2] {
		l, err := w.scene.World.Outside.Listen(netip.AddrPortFrom(addr, routesPort).String())
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) { w.answer(addr, out, r) })}
		go func() { _ = server.Serve(l) }()
		t.Cleanup(func() { _ = server.Close() })
	}
	var objects strings.Builder
	for way, gateway := range map[string]string{"gateway": "istio-system/istio-egressgateway", "straight": "direct"} {
		for i, name := range []string{"one", "two", "led"} {
			host := name + "." + way + ".test"
			w.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[i%2])
			fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %q, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
				"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}]}\n", host, gateway, host, routesPort)
		}
		fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: led-%s, namespace: default}\nspec:\n  hosts: [led.%s.test]\n  http:%s", way, way, strings.ReplaceAll(userRoutes, "WAY", way))
	}
	w.scene.Outside.Set("page.test", time.Minute, world.OutsideAddrs[0])
	fmt.Fprintf(&objects, page, routesPort)
	if err := w.scene.Config.Write("routes.yaml", objects.String()); err != nil {
		t.Fatal(err)
	}
}

// answer tells what it saw. It fails twice where it is asked to, and is late where nobody waits for it.
func (w *routed) answer(addr netip.Addr, out http.ResponseWriter, r *http.Request) {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	w.mu.Lock()
	if r.URL.Path == "/copied" {
		w.copies = append(w.copies, addr.String())
	}
	if r.URL.Path == "/flaky" {
		if w.flaky++; w.flaky%3 != 0 {
			out.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	w.mu.Unlock()
	if r.URL.Path == "/hold" {
		<-r.Context().Done()
	}
	text, _ := json.Marshal(seen{addr.String(), from.Addr().String(), r.Host, r.URL.Path, r.Header})
	_, _ = out.Write(text)
	_, _ = io.WriteString(out, "\n")
}

// ask sends a request from the app's pod.
func (w *routed) ask(t *testing.T, host, path, user string) (status int, s seen, text string) {
	t.Helper()
	status, text, err := appOf(w.scene).get(w.ctx, time.Minute, host, routesPort, path, http.Header{"X-User": {user}})
	if err != nil {
		t.Fatalf("%s%s: %v", host, path, err)
	}
	_ = json.Unmarshal([]byte(text), &s)
	return status, s, text
}

// ready waits until requests are led as the condition says.
func (w *routed) ready(t *testing.T, host string, ok func(status int, s seen) bool) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		addr, err := appOf(w.scene).resolve(w.ctx, host)
		if err != nil || !madeUp.Contains(addr) {
			return fmt.Errorf("%s is at %s (%w)", host, addr, err)
		}
		status, text, err := appOf(w.scene).get(w.ctx, time.Minute, host, routesPort, "/ready", http.Header{})
		var s seen
		_ = json.Unmarshal([]byte(text), &s)
		if err == nil && !ok(status, s) {
			err = fmt.Errorf("%s: %d %s", host, status, text)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func (w *routed) try(t *testing.T, way string) {
	one, two := world.OutsideAddrs[0].String(), world.OutsideAddrs[1].String()
	host := "led." + way + ".test"
	for _, name := range []string{"one", "two", "led"} {
		w.ready(t, name+"."+way+".test", func(status int, _ seen) bool { return status == http.StatusOK })
	}
	if status, _, text := w.ask(t, host, "/ready", "dropped"); status != http.StatusTeapot {
		t.Errorf("a fault that aborts: %d %s", status, text)
	}
	if status, _, text := w.ask(t, host, "/ready", "faultless"); status != http.StatusOK {
		t.Errorf("a fault of no share: %d %s", status, text)
	}
	if status, _, text := w.ask(t, host, "/answer/me", "x"); status != 451 || !strings.Contains(text, "not from here") {
		t.Errorf("a direct response: %d %s", status, text)
	}
	if status, _, text := w.ask(t, host, "/moved", "x"); status != http.StatusMovedPermanently {
		t.Errorf("a redirect: %d %s", status, text)
	}
	if status, s, text := w.ask(t, host, "/old/x", "x"); status != http.StatusOK || s.Path != "/new/x" || s.Header.Get("X-Seen") != "HTTP/1.1" || s.Header.Get("X-User") != "" {
		t.Errorf("a rewrite: %d %s", status, text)
	}
	if status, s, text := w.ask(t, host, "/two/7", "x"); status != http.StatusOK || s.At != two {
		t.Errorf("another host: %d %s", status, text)
	}
	if status, _, text := w.ask(t, host, "/two/x", "x"); status != http.StatusNotFound {
		t.Errorf("what no route means: %d %s", status, text)
	}
	if status, _, text := w.ask(t, host, "/nowhere", "x"); status != http.StatusServiceUnavailable || !strings.Contains(text, "nobody.") {
		t.Errorf("a destination that nobody registered: %d %s", status, text)
	}
	at := map[string]int{}
	for range 200 {
		_, s, _ := w.ask(t, host, "/share", "x")
		at[s.At]++
	}
	if at[one] < 20 || at[two] < 100 || at[one]+at[two] != 200 { // 50 and 150 are meant; six deviations are 37
		t.Errorf("shares: %v", at)
	}
	if status, _, text := w.ask(t, host, "/flaky", "x"); status != http.StatusOK {
		t.Errorf("retries: %d %s", status, text)
	}
	if status, _, text := w.ask(t, host, "/hold", "x"); status != http.StatusGatewayTimeout {
		t.Errorf("a timeout: %d %s", status, text)
	}
	w.mu.Lock()
	w.copies = nil
	w.mu.Unlock()
	if status, s, text := w.ask(t, host, "/copied", "x"); status != http.StatusOK || s.At != one {
		t.Errorf("a request that is copied: %d %s", status, text)
	}
	if err := world.Within(w.ctx, time.Minute, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !slices.Contains(w.copies, one) || !slices.Contains(w.copies, two) {
			return fmt.Errorf("copies are at %v", w.copies)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// page leads by the gateway, and its routes at the Gateway count there.
func (w *routed) page(t *testing.T) {
	var gateway, app string
	w.ready(t, "one.gateway.test", func(status int, s seen) bool { gateway = s.From; return status == http.StatusOK })
	w.ready(t, "one.straight.test", func(status int, s seen) bool { app = s.From; return status == http.StatusOK })
	if gateway == app {
		t.Fatalf("both come from %s: the test cannot tell them apart", app)
	}
	w.ready(t, "page.test", func(status int, s seen) bool {
		return status == http.StatusOK && s.From == gateway && s.Header.Get("X-Seen") == "by the gateway"
	})
}

// services: another name is led as what it stands for, which decides by where it leaves; one for what nobody registered is nobody's. A Service's endpoints are asked straight.
func (w *routed) services(t *testing.T) {
	const cluster = ".default.svc.cluster.local"
	at := world.OutsideAddrs[1]
	w.scene.Outside.Set("nobody"+cluster, time.Minute, at) // as the cluster's DNS says it, which follows the name
	if err := w.scene.Config.Write("services.yaml", fmt.Sprintf(services, routesPort, at, writtenService.Addr())); err != nil {
		t.Fatal(err)
	}
	var gateway, app string
	w.ready(t, "one.gateway.test", func(status int, s seen) bool { gateway = s.From; return status == http.StatusOK })
	w.ready(t, "one.straight.test", func(status int, s seen) bool { app = s.From; return status == http.StatusOK })
	for name, from := range map[string]string{"straight": app, "gateway": gateway} {
		w.ready(t, name+cluster, func(status int, s seen) bool {
			return status == http.StatusOK && s.At == world.OutsideAddrs[0].String() && s.From == from
		})
	}
	written := func() error {
		text, err := getFrom(w.ctx, w.scene.World.App, writtenService, "http://written"+cluster+"/ready")
		var s seen
		if err == nil {
			err = json.Unmarshal([]byte(text), &s)
		}
		if err == nil && (s.At != at.String() || s.From != app) {
			err = fmt.Errorf("written: %s", text)
		}
		return err
	}
	nobody := func(open bool) func() error {
		return func() error {
			status, text, err := appOf(w.scene).get(w.ctx, time.Minute, "nobody"+cluster, routesPort, "/ready", http.Header{})
			if (err == nil && status == http.StatusOK) != open {
				return fmt.Errorf("nobody: %d %s (%w), want open: %t", status, text, err, open)
			}
			return nil
		}
	}
	turns(t, written)
	turns(t, nobody(true))
	if err := w.scene.WriteMode("REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	turns(t, nobody(false))
	turns(t, written)
	for _, name := range []string{"straight", "gateway"} {
		w.ready(t, name+cluster, func(status int, _ seen) bool { return status == http.StatusOK })
	}
}
