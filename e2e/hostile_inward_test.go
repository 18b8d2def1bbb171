package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// hostilePeer is a Service whose pod has a proxy, at this address.
const hostilePeer = "hostile.shop.svc.cluster.local"

var hostileService = netip.MustParseAddr("10.96.0.71")

// hostileInward has a pod with a proxy, and an ingress gateway before another pod, each with a policy that denies /admin, DELETE, and hosts that are called so.
const hostileInward = `apiVersion: v1
kind: Service
metadata: {name: hostile, namespace: shop}
spec: {clusterIP: 10.96.0.71, selector: {app: web, version: v1}, ports: [{name: http, port: 9585, targetPort: 9585}]}
---
apiVersion: v1
kind: Service
metadata: {name: beside, namespace: shop}
spec: {clusterIP: 10.96.0.72, selector: {app: web, version: v2}, ports: [{name: http, port: 9585, targetPort: 9585}]}
---
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: hostile, namespace: shop}
spec: {selector: {istio: ingressgateway}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*.hostile.test"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: hostile, namespace: shop}
spec: {hosts: ["*.hostile.test"], gateways: [hostile], http: [{route: [{destination: {host: beside, port: {number: 9585}}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: hostile, namespace: istio-ingress}
spec:
  selector: {matchLabels: {istio: ingressgateway}}
  action: DENY
  rules: [{to: [{operation: {paths: [/admin, "/admin/*"]}}, {operation: {methods: [DELETE]}}, {operation: {hosts: ["denied-*"]}}]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: hostile, namespace: shop}
spec:
  selector: {matchLabels: {version: v1}}
  action: DENY
  rules: [{to: [{operation: {ports: ["9585"], paths: [/admin, "/admin/*"]}}, {operation: {ports: ["9585"], methods: [DELETE]}}, {operation: {ports: ["9585"], hosts: ["denied-*"]}}]}]
`

// TestHostileRequestsInward: what cannot be fooled where something leaves cannot be where it comes in, at a pod and at an ingress gateway; and the log has what was answered, once each.
func TestHostileRequestsInward(t *testing.T) {
	needRoot(t)
	t.Parallel()
	in := newIngress(t)
	for _, at := range []struct {
		host *world.Host
		addr netip.Addr
	}{{in.pod, web1Addr}, {in.beside, web2Addr}} {
		l, err := at.host.Listen(netip.AddrPortFrom(at.addr, hostilePort).String())
		if err != nil {
			t.Fatal(err)
		}
		serveReached(t, l)
	}
	if err := in.scene.Config.Write("hostile.yaml", hostileInward); err != nil {
		t.Fatal(err)
	}
	dial := func(from *world.Host, to netip.AddrPort) func() (net.Conn, error) {
		return func() (net.Conn, error) { return from.DialContext(t.Context(), "tcp", to.String()) }
	}
	for _, r := range []inwardRole{
		{hostileRole{name: "an ingress gateway", host: "front.hostile.test", dial: dial(in.client, netip.AddrPortFrom(ingressAddr, 8080))}, true},
		{hostileRole{name: "a pod, from outside the mesh", host: hostilePeer, dial: dial(in.client, netip.AddrPortFrom(web1Addr, hostilePort))}, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			r.holds(t)
			r.holdsRecords(t, in)
		})
	}
	peer := hostileRole{name: "a pod, from a peer", host: hostilePeer, dial: dial(in.scene.World.App, netip.AddrPortFrom(hostileService, hostilePort))}
	t.Run(peer.name, func(t *testing.T) {
		peer.begins(t)
		peer.holdsBodies(t)
		peer.holdsForms(t)
		peer.holdsLong(t)
		peer.holdsExpect(t)
	})
}

// inwardRole is a proxy that keeps AuthorizationPolicies of what comes in: of its requests all are recorded, or only those that a policy denies.
type inwardRole struct {
	hostileRole
	all bool
}

// holds is hostileRole's for AuthorizationPolicies, which mean letters as they are written, as Istio's do: /ADMIN is not /admin.
func (r inwardRole) holds(t *testing.T) {
	r.begins(t)
	own := r.authority(r.host)
	for path, want := range hostilePaths(own) {
		if path == "/ADMIN/x" {
			want = 200
		}
		if got, err := r.ask("GET", path, own, ""); err != nil || got != want {
			t.Errorf("%s: %d %v, want %d", path, got, err, want)
		}
	}
	for _, path := range hostileDetours(own) {
		text := "GET " + path + " HTTP/1.1\r\nHost: " + own + "\r\nConnection: close\r\n\r\n"
		if err := r.reads(text, func(status int, reached string) {
			if strings.HasPrefix(strings.ToLower(reached), "/admin") {
				t.Errorf("%s: %d, of %q", path, status, reached)
			}
		}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	r.holdsHosts(t)
	r.holdsBodies(t)
	r.holdsForms(t)
	r.holdsLong(t)
	r.holdsExpect(t)
}

// answers are what somebody heard on a connection: statuses, and whether the app was reached.
type answers struct {
	what     string
	began    time.Time // before the connection did: an earlier one to elsewhere may have come from the same port
	statuses []int
	reached  int
}

// holdsRecords sends every form again, each on a connection of its own, and holds what was heard there against what the log has of it.
func (r inwardRole) holdsRecords(t *testing.T, in *ingressScene) {
	t.Helper()
	bySource := map[string]*answers{}
	texts := r.forms()
	maps.Copy(texts, r.bodies())
	for _, what := range slices.Sorted(maps.Keys(texts)) {
		a := &answers{what: what, began: time.Now()}
		c, err := r.dial()
		if err != nil {
			t.Fatal(err)
		}
		bySource[c.LocalAddr().String()] = a
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = c.Write([]byte(texts[what] + r.last()))
		for in := bufio.NewReader(c); ; {
			status, reached, err := answerOn(in)
			if err != nil {
				break
			}
			if a.statuses = append(a.statuses, status); reached != "" {
				a.reached++
			}
		}
		_ = c.Close()
	}
	if err := world.Within(t.Context(), 2*time.Minute, func() error {
		records, err := in.scene.AuditRecords(t.Context())
		bySourceIs := map[string][]record.Record{}
		for _, rec := range records {
			bySourceIs[rec.Source] = append(bySourceIs[rec.Source], rec)
		}
		for source, a := range bySource {
			of := slices.DeleteFunc(bySourceIs[source], func(rec record.Record) bool { return rec.Time.Before(a.began) })
			err = errors.Join(err, r.agrees(a, of))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// agrees says whether the records of a connection are those of its answers, one each: what reached the app was allowed, and nothing else was; of what is denied there is the
// policy, or why it is no request.
func (r inwardRole) agrees(a *answers, records []record.Record) error {
	var want, is []string
	for _, status := range a.statuses {
		switch {
		case status < 300 && r.all:
			want = append(want, fmt.Sprint(status, " ", record.Allowed))
		case status == http.StatusForbidden || status >= 300 && r.all:
			want = append(want, fmt.Sprint(status, " ", record.Denied))
		}
	}
	allowed := 0
	for _, rec := range records {
		is = append(is, fmt.Sprint(rec.Status, " ", rec.Verdict))
		switch {
		case rec.Verdict == record.Allowed:
			allowed++
		case rec.DecidedBy.Name == "hostile" || rec.Status == http.StatusNotFound:
		case rec.Status == http.StatusBadRequest && strings.Contains(rec.Reason, "Host is not one name"):
		case !strings.Contains(rec.Reason, "no request that the proxy reads"):
			return fmt.Errorf("%s: the record says %q: %+v", a.what, rec.Reason, rec)
		}
	}
	slices.Sort(want)
	slices.Sort(is)
	if !slices.Equal(want, is) || r.all && allowed != a.reached {
		return fmt.Errorf("%s: the answers are %v, %d by the app; the records are %v, want %v", a.what, a.statuses, a.reached, is, want)
	}
	return nil
}

// serveReached answers with the path that was asked for, as answersFirst has it, and reachedDenied for hosts that are denied.
func serveReached(t *testing.T, l net.Listener) {
	t.Helper()
	spoken := &http.Protocols{}
	spoken.SetHTTP1(true)
	spoken.SetUnencryptedHTTP2(true) // a pod's proxy speaks to the app what was spoken to it
	server := &http.Server{ReadHeaderTimeout: time.Minute, Protocols: spoken, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answersFirst(w, r)
		w.Header().Set(reachedPath, r.URL.Path)
		if strings.HasPrefix(strings.ToLower(r.Host), "denied-") {
			w.WriteHeader(reachedDenied)
		}
	})}
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(l) }()
}
