package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The ports of the host outside that has a waypoint.
const (
	leavingHTTP = 9686
	leavingTLS  = 9687
	leavingTCP  = 9688
	leavingTold = 9689
	leavingHost = "out.waypoint.test"
)

// The entry is in a namespace of its own, since pods whose own namespace registers such ports are not served by their node.
const leavingObjects = `apiVersion: v1
kind: Namespace
metadata: {name: delta, labels: {by: waypoint, istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: beta}}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: delta}
spec:
  hosts: [out.waypoint.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 9686, name: http, protocol: HTTP}, {number: 9687, name: tls, protocol: TLS}, {number: 9688, name: tcp, protocol: TCP}, {number: 9689, name: tcp-told, protocol: TCP}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: leaving, namespace: delta}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: out}]
  action: DENY
  rules: [{to: [{operation: {ports: ["9686"], paths: ["/secret"]}}]}]
`

// leavingDenied is an EgressPolicy that closes the host to a namespace.
func leavingDenied(ns string) string {
	return "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: closed, namespace: " + ns + "}\nspec: {rules: [{name: out, action: Deny, hosts: [" + leavingHost + "]}]}\n"
}

var leavingPorts = map[string]uint16{"http": leavingHTTP, "tls": leavingTLS, "tcp": leavingTCP}

// leaves waits until the host is open, or closed, for alpha by all ways.
func (w *waypointTest) leaves(t *testing.T, what string, open bool) {
	t.Helper()
	if err := world.Within(w.ctx, time.Minute, func() error {
		for scheme, port := range leavingPorts {
			if _, err := w.alpha.try(w.ctx, scheme, leavingHost, port, "/"); (err == nil) != open {
				return fmt.Errorf("%s: %s is open: %t, want %t (%w)", what, scheme, err == nil, open, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// outside holds that what is for a host outside goes by the waypoint, with the rules of requests there, and from there by the egress gateway; and that it
// is no way around an EgressPolicy.
func (w *waypointTest) outside(t *testing.T) {
	w.scene.Outside.Set(leavingHost, time.Minute, world.OutsideAddrs[0])
	if err := w.scene.SetPolicy(w.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	w.write(t, "leaving.yaml", leavingObjects)
	w.leaves(t, "with a waypoint", true)
	for protocol, port := range leavingPorts { // it may have been open by another way before
		asks := func() { _, _ = w.alpha.try(w.ctx, protocol, leavingHost, port, "/") }
		w.recordedOf(t, protocol+" as the waypoint", leavingHost, asks, func(r record.Record) bool {
			return r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.Workload.Principal == w.front.id && r.Protocol == protocol
		})
		w.recordedOf(t, protocol+" of the pod", leavingHost, asks, func(r record.Record) bool {
			return r.Verdict == record.Allowed && r.Workload.Principal == w.alpha.id && r.Protocol == protocol && r.Direction == record.Outbound && r.DecidedBy.Name == "out"
		})
	}
	w.leavesWhole(t)
	secret := func() error {
		status, text, err := w.alpha.get(w.ctx, 10*time.Second, leavingHost, leavingHTTP, "/secret", nil)
		if err == nil && status != 403 {
			err = fmt.Errorf("%d %q", status, text)
		}
		return err
	}
	if err := world.Within(w.ctx, time.Minute, secret); err != nil {
		t.Errorf("what a policy of the entry denies: %v", err)
	}
	w.recordedOf(t, "denied at the waypoint", leavingHost, func() { _ = secret() }, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.Claim == w.alpha.id && r.DecidedBy.Name == "leaving"
	})
}

// leavesWhole holds that every byte arrives, whoever ends first.
func (w *waypointTest) leavesWhole(t *testing.T) {
	t.Helper()
	const size = 8 << 20
	addr, err := w.alpha.resolve(w.ctx, leavingHost)
	if err != nil {
		t.Fatal(err)
	}
	for _, reads := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, func(r io.Reader) io.Reader { return takeSlowly(r) }} {
		c, err := w.alpha.host.DialContext(w.ctx, "tcp", netip.AddrPortFrom(addr, leavingTold).String())
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

// asksOutside asks the host by HBONE, as an account of namespace far.
func (w *waypointTest) asksOutside(t *testing.T, tr *hboneClient) (status int, told string, err error) {
	t.Helper()
	c, err := through(w.ctx, tr, fmt.Sprintf("%s:%d", leavingHost, leavingHTTP))
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = c.Close() }()
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", leavingHost)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	told, err = tell(w.ctx, tr, fmt.Sprintf("%s:%d", leavingHost, leavingTold), "who")
	return resp.StatusCode, told, errors.Join(err, resp.Body.Close())
}

// noWayAround holds that EgressPolicies of who asks count at the waypoint, also for those whose node does not ask them, and those of the waypoint's namespace
// for what it sends on.
func (w *waypointTest) noWayAround(t *testing.T) {
	tr := w.hboneClient(t, "one")
	if err := world.Within(w.ctx, time.Minute, func() error {
		status, told, err := w.asksOutside(t, tr)
		if err == nil && (status != 200 || told == "") {
			err = fmt.Errorf("%d %q", status, told)
		}
		return err
	}); err != nil {
		t.Errorf("by HBONE: %v", err)
	}
	w.write(t, "leaving-policy.yaml", leavingDenied("far"))
	if err := world.Within(w.ctx, time.Minute, func() error {
		status, told, err := w.asksOutside(t, tr)
		if status != 403 || told != "" {
			return fmt.Errorf("%d %q (%w)", status, told, err)
		}
		return nil
	}); err != nil {
		t.Errorf("by HBONE, what an EgressPolicy denies: %v", err)
	}
	enforced(w.ctx, t, w.scene, "far/closed", "the waypoint and the gateway", func(selected int) bool { return selected >= 2 })
	asks := func() { _, _, _ = w.asksOutside(t, tr) }
	w.recordedOf(t, "an EgressPolicy at the waypoint", leavingHost, asks, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && strings.HasSuffix(r.Claim, "/ns/far/sa/one") && r.DecidedBy.Kind == "EgressPolicy" && r.Protocol == "http"
	})
	w.recordedOf(t, "an EgressPolicy at the waypoint, of bytes", leavingHost, asks, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && strings.HasSuffix(r.Claim, "/ns/far/sa/one") && r.DecidedBy.Kind == "EgressPolicy" && r.Protocol == "tcp"
	})
	for _, ns := range []string{"alpha", "beta"} {
		if err := w.scene.Config.Remove("leaving-policy.yaml"); err != nil {
			t.Fatal(err)
		}
		w.leaves(t, "without a policy", true)
		w.write(t, "leaving-policy.yaml", leavingDenied(ns))
		w.leaves(t, "a policy of "+ns, false)
	}
	if err := w.scene.Config.Remove("leaving-policy.yaml"); err != nil {
		t.Fatal(err)
	}
	w.leaves(t, "without policies", true)
}

// ownHost is what alpha registers itself; somebody older in the waypoint's namespace does, too, and would have it denied to all.
const ownHost = "own.waypoint.test"

const ownObjects = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: own, namespace: alpha, labels: {istio.io/use-waypoint: waypoint, istio.io/use-waypoint-namespace: beta}}
spec:
  hosts: [own.waypoint.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 9686, name: http, protocol: HTTP}, {number: 9687, name: tls, protocol: TLS}, {number: 9688, name: tcp, protocol: TCP}]
`

const elderObjects = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: elder, namespace: beta, creationTimestamp: "2020-01-01T00:00:00Z"}
spec:
  hosts: [own.waypoint.test]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [{number: 9686, name: http, protocol: HTTP}, {number: 9687, name: tls, protocol: TLS}, {number: 9688, name: tcp, protocol: TCP}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: elder, namespace: beta}
spec: {targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: elder}], action: DENY, rules: [{}]}
`

// leavesOwn holds that what alpha registered itself is open to it.
func (w *waypointTest) leavesOwn(t *testing.T, beside string) {
	t.Helper()
	for scheme, port := range leavingPorts {
		if err := world.Within(w.ctx, time.Minute, func() error {
			_, err := w.alpha.try(w.ctx, scheme, ownHost, port, "/")
			return err
		}); err != nil {
			t.Errorf("%s beside %q: %v", scheme, beside, err)
		}
	}
}

// neighbours holds that what somebody else registered before, also in the waypoint's own namespace, changes nothing of what a namespace registered and sends there.
func (w *waypointTest) neighbours(t *testing.T) {
	w.scene.Outside.Set(ownHost, time.Minute, world.OutsideAddrs[0])
	w.write(t, "pod-alpha.yaml", strings.Replace(fmt.Sprintf(ambientObjects, "alpha", alphaAddr), "labels: {istio.io", "labels: {by: waypoint, istio.io", 1))
	w.write(t, "own.yaml", ownObjects)
	for _, elder := range []string{"", elderObjects, strings.Replace(elderObjects, "creationTimestamp", "labels: {istio.io/use-waypoint: waypoint}, creationTimestamp", 1)} {
		if elder != "" {
			w.write(t, "elder.yaml", elder)
		}
		since := time.Now()
		w.leavesOwn(t, elder)
		for scheme, port := range leavingPorts {
			asks := func() { _, _ = w.alpha.try(w.ctx, scheme, ownHost, port, "/") }
			w.recordedOf(t, scheme+" as alpha registered it", ownHost, asks, func(r record.Record) bool {
				return !r.Time.Before(since) && r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.Workload.Principal == w.front.id && r.Protocol == scheme &&
					r.DecidedBy.Namespace == "alpha" && r.DecidedBy.Name == "own"
			})
		}
	}
}
