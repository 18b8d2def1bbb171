package e2e

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The ports of the Service that has a waypoint, and of its pods.
const (
	frontedHTTP = 9685
	frontedTCP  = tunnelApp
	frontedHost = "web.beta.svc.cluster.local"
)

var (
	frontedVIP   = netip.MustParseAddr("10.96.0.77")
	strangerVIP  = netip.MustParseAddr("10.96.0.78")
	beta2Addr    = netip.MustParseAddr("10.77.0.64")
	waypointAddr = netip.MustParseAddr("10.77.0.65")
)

const waypointObjects = `apiVersion: v1
kind: Namespace
metadata: {name: beta, labels: {by: waypoint, istio.io/dataplane-mode: ambient, istio.io/use-waypoint: waypoint}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: waypoint, namespace: beta}
spec: {gatewayClassName: istio-waypoint, listeners: [{name: mesh, port: 15008, protocol: HBONE, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {by: waypoint}}}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: waypoint, namespace: beta}
spec: {clusterIP: 10.96.0.76, selector: {gateway.networking.k8s.io/gateway-name: waypoint}, ports: [{name: mesh, port: 15008}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: beta}
spec: {clusterIP: 10.96.0.77, selector: {app: web}, ports: [{name: http, port: 9685}, {name: tcp-app, port: 9691}, {name: http-all, port: 9686}]}
---
apiVersion: v1
kind: Service
metadata: {name: stranger, namespace: gamma}
spec: {clusterIP: 10.96.0.78, ports: [{name: http, port: 9685}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: beta}
spec: {host: web.beta.svc.cluster.local, subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: web, namespace: beta}
spec:
  hosts: [web.beta.svc.cluster.local]
  http:
  - {match: [{headers: {try: {exact: v2}}}], route: [{destination: {host: web.beta.svc.cluster.local, subset: v2}}]}
  - {route: [{destination: {host: web.beta.svc.cluster.local, subset: v1}}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: reading, namespace: beta}
spec:
  targetRefs: [{kind: Service, name: web}]
  action: DENY
  rules: [{to: [{operation: {ports: ["9685"], paths: ["/secret"]}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: known, namespace: beta}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: waypoint}]
  rules: [{from: [{source: {principals: [cluster.local/ns/alpha/sa/alpha-account, cluster.local/ns/far/sa/one]}}]}]
`

// waypointPod is the waypoint's, while it is there.
const waypointPod = `apiVersion: v1
kind: Pod
metadata: {name: waypoint-1, namespace: beta, labels: {gateway.networking.k8s.io/gateway-name: waypoint, istio.io/dataplane-mode: none}}
spec: {serviceAccountName: waypoint, containers: []}
status: {podIP: 10.77.0.65, phase: Running}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: waypoint-1, namespace: beta, labels: {kubernetes.io/service-name: waypoint}}
addressType: IPv4
ports: [{name: mesh, port: 15008}]
endpoints: [{addresses: [10.77.0.65], targetRef: {kind: Pod, namespace: beta, name: waypoint-1}}]
`

// frontedPods are those behind it.
func frontedPods() string {
	var out strings.Builder
	for i, addr := range []netip.Addr{betaAddr, beta2Addr} {
		fmt.Fprintf(&out, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: web-%[1]d, namespace: beta, labels: {app: web, version: v%[1]d}}\n"+
			"spec: {serviceAccountName: web, nodeName: node-1, containers: []}\nstatus: {podIP: %[2]s, phase: Running}\n", i+1, addr)
	}
	return out.String() + fmt.Sprintf("---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-1, namespace: beta, labels: {kubernetes.io/service-name: web}}\n"+
		"addressType: IPv4\nports: [{name: http, port: %d}, {name: tcp-app, port: %d}, {name: http-all, port: %d}]\nendpoints:\n"+
		"- {addresses: [%s], targetRef: {kind: Pod, namespace: beta, name: web-1}}\n- {addresses: [%s], targetRef: {kind: Pod, namespace: beta, name: web-2}}\n", frontedHTTP, frontedTCP, wholePort, betaAddr, beta2Addr)
}

type waypointTest struct {
	hboneTest
	front *ambientPod // the waypoint
	pod   *story.Pod
	webs  []*world.Host // where the pods behind it are
}

// waypointIn puts a node and a waypoint into a scene, with what objects say of pods besides.
func waypointIn(ctx context.Context, t *testing.T, s *story.Scene, pods ...string) *waypointTest {
	t.Helper()
	a := &ambientNode{ctx: ctx, scene: s}
	a.write(t, "waypoint.yaml", waypointObjects)
	a.write(t, "waypoint-pod.yaml", waypointPod)
	a.write(t, "fronted.yaml", strings.Join(pods, "---\n"))
	var err error
	if a.node, err = s.AddNode(ctx, "node-1", nodeAddr); err != nil {
		t.Fatal(err)
	}
	w := &waypointTest{hboneTest: hboneTest{ambientNode: a, mesh: meshCA(t, s.DataDir())}}
	w.front = &ambientPod{addr: waypointAddr, id: "spiffe://cluster.local/ns/beta/sa/waypoint"}
	if w.pod, err = s.AddWaypoint(ctx, "waypoint-1", "beta", "waypoint", waypointAddr, "gateway.networking.k8s.io/gateway-name=waypoint"); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWaypoint holds that what a pod without a sidecar sends to a Service that has a waypoint goes through that, and what routes and policies say of
// the Service counts there; and that nothing goes around it.
func TestWaypoint(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	w := waypointIn(ctx, t, s, frontedPods())
	a := w.ambientNode
	a.alpha = a.pod(t, "alpha", alphaAddr)
	var webs []*world.Host
	for i, addr := range []netip.Addr{betaAddr, beta2Addr} {
		name := fmt.Sprintf("web-%d", i+1)
		host, err := s.World.AddPod(name, addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.node.Tell(ctx, "add", "beta/"+name, host); err != nil {
			t.Fatal(err)
		}
		webs = append(webs, host)
		serveTold(t, host, addr, frontedTCP, unlistedTCP)
		servePages(t, host, netip.AddrPortFrom(addr, frontedHTTP), func(w http.ResponseWriter, r *http.Request) {
			_, _ = fmt.Fprintf(w, "v%d %s %s %s", i+1, r.Host, r.RemoteAddr, r.Header.Get("X-Forwarded-Proto"))
		})
	}
	polyglot{s.Outside.CA}.serve(t, s.World.Outside, world.OutsideAddrs[0], []uint16{leavingHTTP, leavingTLS, leavingTCP})
	serveTold(t, s.World.Outside, world.OutsideAddrs[0], leavingTold)
	w.webs = webs
	inOrder(t, []part{
		{"routes of the Service", w.routes},
		{"policies of requests", w.policies},
		{"a waypoint before a Service comes and goes", w.serviceUnderLoad},
		{"bytes", w.bytes},
		{"requests arrive whole", w.whole},
		{"silent clients", w.silent},
		{"by HBONE", w.hbone},
		{"who it stands before, and nothing else", w.elsewhere},
		{"to a host outside", w.outside},
		{"beside what neighbours registered", w.neighbours},
		{"no way around policies of what leaves", w.noWayAround},
		{"what is under way ends with the policy that let it", w.ends},
		{"an authorizer is asked", w.authorizer},
		{"who comes to a pod", w.sources},
		{"a pod's own address", w.pods},
		{"a Service without an address of its own", w.headless},
		{"a waypoint before a pod comes and goes", w.underLoad},
		{"a waypoint before pods is killed", w.killed},
		{"in from outside", w.fromOutside},
		{"past it, by a rule's mutual TLS", w.asked},
		{"its pod is gone", w.gone},
	})
}

// ask asks the Service, by its address.
func (w *waypointTest) ask(ctx context.Context, path string, headers ...string) (status int, text string, err error) {
	header := http.Header{}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		header.Set(name, value)
	}
	return w.alpha.at(frontedVIP).get(ctx, 10*time.Second, frontedHost, frontedHTTP, path, header)
}

// answers waits until the Service answers so.
func (w *waypointTest) answers(t *testing.T, status int, begins, path string, headers ...string) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		got, text, err := w.ask(w.ctx, path, headers...)
		if err == nil && (got != status || !strings.HasPrefix(text, begins)) {
			err = fmt.Errorf("%d %q", got, text)
		}
		return err
	}); err != nil {
		t.Errorf("%s %v: %v, want %d %s", path, headers, err, status, begins)
	}
}

func (w *waypointTest) routes(t *testing.T) {
	w.answers(t, 200, "v1 ", "/")
	w.answers(t, 200, "v2 ", "/", "try: v2")
	_, text, err := w.ask(w.ctx, "/")
	if fields := strings.Fields(text); err != nil || len(fields) != 4 || !strings.HasPrefix(fields[2], waypointAddr.String()+":") || fields[3] != "http" {
		t.Errorf("the app was asked by %q (%v), want the waypoint %s", text, err, waypointAddr)
	}
	if status, text, err := w.alpha.at(strangerVIP).get(w.ctx, 10*time.Second, "stranger.gamma.svc.cluster.local", frontedHTTP, "/", nil); err == nil && status == 200 {
		t.Errorf("another namespace's Service: %d %s", status, text)
	}
}

func (w *waypointTest) policies(t *testing.T) {
	w.answers(t, 403, "RBAC", "/secret")
	w.recordedOf(t, "denied at the waypoint", frontedHost, func() { _, _, _ = w.ask(w.ctx, "/secret") }, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.Claim == w.alpha.id && r.DestinationWorkload.Principal == w.front.id &&
			r.DecidedBy.Name == "reading"
	})
}

// recordedOf waits for a record of what is asked again each time: what was asked before an edit was in force everywhere is no use.
func (w *waypointTest) recordedOf(t *testing.T, what, host string, asks func(), fits func(record.Record) bool) {
	t.Helper()
	recordedOf(w.ctx, t, w.scene, what, host, asks, fits)
}

// bytes holds that connections arrive whole, whoever ends first.
func (w *waypointTest) bytes(t *testing.T) {
	const size = 8 << 20
	for _, reads := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, func(r io.Reader) io.Reader { return takeSlowly(r) }} {
		c, err := w.alpha.host.DialContext(w.ctx, "tcp", netip.AddrPortFrom(frontedVIP, frontedTCP).String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "send %d\n", size)
		if n, err := io.Copy(io.Discard, reads(c)); err != nil || n != size {
			t.Errorf("%d bytes of %d came (%v)", n, size, err)
		}
		_ = c.Close()
	}
}

// whole holds that of requests, which the Service's first subset takes.
func (w *waypointTest) whole(t *testing.T) {
	requestWay{serveWhole(t, w.webs[0], netip.AddrPortFrom(betaAddr, wholePort)), fmt.Sprintf("%s:%d", frontedHost, wholePort), func(ctx context.Context) (net.Conn, error) {
		return w.alpha.host.DialContext(ctx, "tcp", netip.AddrPortFrom(frontedVIP, wholePort).String())
	}}.holds(t)
}

func (w *waypointTest) hboneClient(t *testing.T, account string) *hboneClient {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(w.mesh.cert)
	return w.clientTo(t, w.front, roots, w.member(t, account))
}

// hbone holds that whoever speaks Istio's tunnel reaches the Service by it, as who it is.
func (w *waypointTest) hbone(t *testing.T) {
	tr := w.hboneClient(t, "one")
	web := func(port uint16) string { return netip.AddrPortFrom(frontedVIP, port).String() }
	for header, begins := range map[string]string{"": "v1 ", "try: v2\r\n": "v2 "} {
		c, err := through(w.ctx, tr, web(frontedHTTP))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n%sConnection: close\r\n\r\n", frontedHost, header)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 || !strings.HasPrefix(string(text), begins) {
			t.Errorf("%q: %d %s (%v), want %s", header, resp.StatusCode, text, err, begins)
		}
		_ = errors.Join(resp.Body.Close(), c.Close())
	}
	if peer, err := tell(w.ctx, tr, web(frontedTCP), "who"); err != nil || peer != waypointAddr.String() {
		t.Errorf("the app of bytes was reached by %q (%v)", peer, err)
	}
	other := w.hboneClient(t, "two")
	if _, err := tell(w.ctx, other, web(frontedTCP), "who"); err == nil || !errors.Is(err, notTaken(403)) {
		t.Errorf("an account that no policy allows: %v, want 403", err)
	}
	w.recordedOf(t, "by HBONE", frontedVIP.String(), func() { _, _ = tell(w.ctx, other, web(frontedTCP), "who") }, func(r record.Record) bool {
		return r.Claim == "spiffe://cluster.local/ns/far/sa/two" && r.Verdict == record.Denied
	})
}

// elsewhere holds that tunnels to anything else are refused.
func (w *waypointTest) elsewhere(t *testing.T) {
	tr := w.hboneClient(t, "one")
	for _, authority := range []string{
		netip.AddrPortFrom(betaAddr, frontedHTTP).String(), netip.AddrPortFrom(strangerVIP, frontedHTTP).String(), netip.AddrPortFrom(frontedVIP, 1).String(),
		"10.96.0.76:15008", netip.AddrPortFrom(waypointAddr, 15008).String(), "127.0.0.1:15000", "web.beta.svc.cluster.local:1",
	} {
		if _, err := tell(w.ctx, tr, authority, "who"); !errors.Is(err, notTaken(404)) {
			t.Errorf("a tunnel to %s: %v, want 404", authority, err)
		}
	}
}

// askedObjects are a Service of the same pods that no waypoint stands before, whose pods take nothing but mutual TLS.
const askedObjects = `apiVersion: v1
kind: Service
metadata: {name: asked, namespace: beta, labels: {istio.io/use-waypoint: none}}
spec: {clusterIP: 10.96.0.79, selector: {app: web}, ports: [{name: http, port: 9685}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: asked-1, namespace: beta, labels: {kubernetes.io/service-name: asked}}
addressType: IPv4
ports: [{name: http, port: %d}]
endpoints: [{addresses: [%s], targetRef: {kind: Pod, namespace: beta, name: web-1}}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: asked, namespace: beta}
spec: {selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}}
`

const askedRule = `apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: asked, namespace: beta}
spec: {host: asked.beta.svc.cluster.local, exportTo: [alpha], trafficPolicy: {tls: {mode: %s}}}
`

// asked holds that a node speaks mutual TLS as the pod where nothing else may come, unless a DestinationRule says otherwise, also one of another namespace.
func (w *waypointTest) asked(t *testing.T) {
	w.write(t, "asked.yaml", fmt.Sprintf(askedObjects, frontedHTTP, betaAddr))
	answers := func(what string, want int) {
		t.Helper()
		if err := world.Within(w.ctx, time.Minute, func() error {
			status, text, err := w.alpha.at(netip.MustParseAddr("10.96.0.79")).get(w.ctx, 10*time.Second, "asked.beta.svc.cluster.local", frontedHTTP, "/", nil)
			if err == nil && (status != want || want == 200 && !strings.HasPrefix(text, "v1 ")) {
				err = fmt.Errorf("%d %q", status, text)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v, want %d", what, err, want)
		}
	}
	answers("unasked", 200)
	w.write(t, "asked-rule.yaml", fmt.Sprintf(askedRule, "DISABLE"))
	answers("in plain text", 503)
	w.write(t, "asked-rule.yaml", fmt.Sprintf(askedRule, "ISTIO_MUTUAL"))
	answers("by mutual TLS", 200)
	w.answers(t, 200, "v1 ", "/")
}

// gone holds that a Service is closed whose waypoint is not there, and open when it comes back.
func (w *waypointTest) gone(t *testing.T) {
	if err := w.pod.Kill(w.ctx); err != nil {
		t.Fatal(err)
	}
	w.answers(t, 503, "", "/")
	if err := w.scene.Config.Remove("waypoint-pod.yaml"); err != nil {
		t.Fatal(err)
	}
	w.answers(t, 503, "sallyport: nothing is sent to "+frontedHost, "/")
	if err := world.Within(w.ctx, time.Minute, func() error {
		status, text, err := w.alpha.get(w.ctx, 10*time.Second, leavingHost, leavingHTTP, "/", nil)
		if err == nil && (status != 503 || !strings.HasPrefix(text, "sallyport: nothing is sent to "+leavingHost)) {
			err = fmt.Errorf("%d %q", status, text)
		}
		return err
	}); err != nil {
		t.Errorf("a host outside: %v", err)
	}
	w.leaves(t, "without the waypoint", false)
	w.comesIn(t, 503, waypointAddr, "/")
	w.write(t, "waypoint-pod.yaml", waypointPod)
	if err := w.pod.Restart(w.ctx, true); err != nil {
		t.Fatal(err)
	}
	w.answers(t, 200, "v1 ", "/")
	w.leaves(t, "with the waypoint again", true)
	w.leavesOwn(t, "what neighbours registered long ago")
	w.comesIn(t, 200, waypointAddr, "/")
}
