package e2e

import (
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// askedAtWaypoint is a policy for the Service that has a provider asked about some of what comes to it.
func askedAtWaypoint(provider string) string {
	return fmt.Sprintf(`apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asking, namespace: beta}
spec:
  targetRefs: [{kind: Service, name: web}]
  action: CUSTOM
  provider: {name: %s}
  rules: [{to: [{operation: {ports: ["9685"], paths: ["/asked*"]}}]}, {to: [{operation: {ports: ["9691"]}}]}]
`, provider)
}

// askedOutside is one of another namespace, for a host outside that the same waypoint stands before.
const askedOutside = `apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: asking, namespace: delta}
spec:
  targetRefs: [{group: networking.istio.io, kind: ServiceEntry, name: out}]
  action: CUSTOM
  provider: {name: by-http}
  rules: [{to: [{operation: {ports: ["9686"], paths: ["/asked*"]}}]}]
`

// authorizer holds that policies before the Service have an authorizer asked, of requests and of connections; that another namespace's policies at the same waypoint
// have another one asked; and that what nobody can be asked about is closed.
func (w *waypointTest) authorizer(t *testing.T) {
	asked := authorizerIn(t, w.scene)
	w.write(t, "waypoint-asking.yaml", askedAtWaypoint("by-grpc"))
	w.write(t, "waypoint-asking-outside.yaml", askedOutside)
	w.answers(t, 401, "the authorizer says no", "/asked", "x-asks: deny")
	w.answers(t, 200, "v1 ", "/asked")
	asked.mu.Lock()
	if got := asked.last.GetAttributes().GetSource().GetPrincipal(); got != w.alpha.id {
		t.Errorf("the client is told as %q", got)
	}
	asked.mu.Unlock()
	w.recordedOf(t, "denied by the authorizer", frontedHost, func() { _, _, _ = w.ask(w.ctx, "/asked", "x-asks: deny") }, func(r record.Record) bool {
		return r.Reporter == record.ReporterDestination && r.Verdict == record.Denied && r.Claim == w.alpha.id && r.DecidedBy.Name == "asking" && r.DecidedBy.Namespace == "beta"
	})
	before := asked.count.Load()
	w.answers(t, 200, "v1 ", "/else", "x-asks: deny")
	w.answers(t, 403, "RBAC", "/secret", "x-asks: deny")
	if n := asked.count.Load() - before; n > 0 {
		t.Errorf("%d questions about what no rule means", n)
	}
	outside := func(status int, path string, header http.Header) {
		t.Helper()
		if err := world.Within(w.ctx, time.Minute, func() error {
			got, text, err := w.alpha.get(w.ctx, 10*time.Second, leavingHost, leavingHTTP, path, header)
			if err == nil && got != status {
				err = fmt.Errorf("%d %q", got, text)
			}
			return err
		}); err != nil {
			t.Errorf("outside, %s %v: %v, want %d", path, header, err, status)
		}
	}
	outside(402, "/asked", http.Header{"X-Asks": {"deny"}})
	outside(200, "/asked", nil)
	outside(200, "/else", http.Header{"X-Asks": {"deny"}})
	tcp := func(open bool, what string) {
		t.Helper()
		if err := world.Within(w.ctx, time.Minute, func() error {
			c, err := w.alpha.host.DialContext(w.ctx, "tcp", netip.AddrPortFrom(frontedVIP, frontedTCP).String())
			if err != nil {
				return err
			}
			defer func() { _ = c.Close() }()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			_, _ = fmt.Fprintf(c, "who\n")
			b := make([]byte, 64)
			n, err := c.Read(b)
			if (n > 0) != open {
				return fmt.Errorf("%q (%w), want open: %t", b[:n], err, open)
			}
			return nil
		}); err != nil {
			t.Errorf("connections, %s: %v", what, err)
		}
	}
	before = asked.count.Load()
	tcp(true, "by gRPC")
	if asked.count.Load() == before {
		t.Error("nobody was asked about a connection")
	}
	tr := w.hboneClient(t, "one")
	if _, err := tell(w.ctx, tr, netip.AddrPortFrom(frontedVIP, frontedTCP).String(), "who"); err == nil {
		t.Error("by HBONE, bytes that somebody is to be asked about are open")
	}
	for provider, why := range map[string]string{"away": "who is away", "nowhere": "who is not there", "none-such": "whom nobody names"} {
		w.write(t, "waypoint-asking.yaml", askedAtWaypoint(provider))
		w.answers(t, 403, "", "/asked")
		w.answers(t, 200, "v1 ", "/else")
		tcp(false, why)
		outside(200, "/asked", nil) // another's provider is no matter
	}
	w.write(t, "waypoint-asking.yaml", askedAtWaypoint("away-open"))
	w.answers(t, 200, "v1 ", "/asked")
	tcp(true, "failOpen")
	for _, file := range []string{"waypoint-asking.yaml", "waypoint-asking-outside.yaml"} {
		if err := w.scene.Config.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	w.answers(t, 200, "v1 ", "/asked", "x-asks: deny")
	outside(200, "/asked", http.Header{"X-Asks": {"deny"}})
}
