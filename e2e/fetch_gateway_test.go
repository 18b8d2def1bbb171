package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
	"github.com/sallyport/sallyport/xds/wire"
)

// TestGatewayFetchesOnUse: an egress gateway holds what is used, however that comes, and what leads by it leads where it would otherwise, with one record of each that says who came; without a controller it goes on, also
// with what was not used before, and while its agent is silent that alone is closed. What is used all the time stays.
func TestGatewayFetchesOnUse(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	serveOther(ctx, t, s, []uint16{80, 443, 7001})
	if err := s.SetPolicy(ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	const onUse = "all\n  fetchGateways: onUse"
	if err := errors.Join(s.SetFetch(onUse), s.KillController(ctx), s.StartController(ctx), s.Gateway.Restart(ctx, true)); err != nil { // the settings count before anything is registered
		t.Fatal(err)
	}
	f := &fetch{scene: s, app: appOf(s), made: map[string]netip.Addr{}}
	f.write(ctx, t)
	f.scene.Outside.Set("denied"+fetchDomain, time.Minute, otherAddr)
	if err := s.Config.Write("fetch-denied.yaml", fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: denied, namespace: default}
spec:
  hosts: [denied%s]
  location: MESH_EXTERNAL
  resolution: DNS
  ports: [%s]
`, fetchDomain, f.portsOf("denied"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Config.Write("fetch-policy.yaml", `apiVersion: egress.sallyport.io/v1alpha1
kind: EgressPolicy
metadata: {name: closes, namespace: istio-system}
spec:
  rules:
  - {name: denied, hosts: [denied`+fetchDomain+`], action: Deny}
  - {name: all, hosts: ['*'], action: Allow}
`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.app.answered(ctx, "denied"+fetchDomain); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, time.Minute, func() error { return f.closedBy(ctx, "denied", http.StatusForbidden, "denied") }); err != nil {
		t.Error(err)
	}
	f.gatewayHolds(ctx, t, "denied:80")

	f.leads(ctx, t, "a request", "http", "named", world.GatewayAddr)
	f.leads(ctx, t, "TLS", "https", "by-sni", world.GatewayAddr)
	f.leads(ctx, t, "an address", "tcp", "by-address", world.GatewayAddr)
	f.leads(ctx, t, "what a pattern stands for", "http", "x.wild", world.GatewayAddr)
	f.gatewayHolds(ctx, t, "*.wild:80", "by-address:7001", "by-sni:443", "denied:80", "named:80")
	f.whole(ctx, t)
	for _, host := range []string{"named", "by-sni", "by-address", "x.wild"} {
		f.oneRecord(ctx, t, host)
	}

	if err := s.Controller.Kill(ctx); err != nil {
		t.Fatal(err)
	}
	f.leads(ctx, t, "without a controller, what was used", "http", "named", world.GatewayAddr)
	f.leads(ctx, t, "without a controller, what was not", "http", "unused-1", world.GatewayAddr)
	if err := s.Controller.Start(ctx); err != nil {
		t.Fatal(err)
	}

	if err := s.Gateway.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.leads(ctx, t, "while the agent is silent, what was used", "http", "unused-1", world.GatewayAddr)
	if err := f.closedBy(ctx, "unused-2", http.StatusServiceUnavailable, "agent"); err != nil {
		t.Errorf("while the agent is silent: %v", err)
	}
	f.closed(ctx, t, "https", "unused-3")
	if err := s.Gateway.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	f.leads(ctx, t, "when it speaks again", "https", "unused-3", world.GatewayAddr)

	if err := s.SetFetch(onUse + "\n  keepUnused: 10s"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, 3*time.Minute, func() error {
		f.leads(ctx, t, "used all the time", "http", "named", world.GatewayAddr)
		rows, err := f.gatewayRows(ctx)
		if slices.Contains(rows, "by-sni:443") || !slices.Contains(rows, "named:80") {
			err = fmt.Errorf("the gateway has %v", rows)
		}
		return err
	}); err != nil {
		t.Errorf("what is used all the time, and what is not: %v", err)
	}
	f.leads(ctx, t, "what left, and is used again", "https", "by-sni", world.GatewayAddr)

	if err := s.SetFetch("all"); err != nil {
		t.Fatal(err)
	}
	if err := world.Within(ctx, time.Minute, func() error {
		if rows, err := f.gatewayRows(ctx); err != nil || !slices.Contains(rows, "unused-7:80") {
			return fmt.Errorf("the gateway has %v (%w)", rows, err)
		}
		return nil
	}); err != nil {
		t.Errorf("all that is registered: %v", err)
	}
	f.leads(ctx, t, "what was never used", "http", "unused-4", world.GatewayAddr)
}

var gatewayRow = regexp.MustCompile(`"name": "` + regexp.QuoteMeta(wire.ExitRoute) + `/([^"]+)` + regexp.QuoteMeta(fetchDomain) + `:([0-9]+)"`)

// gatewayRows are those of the test's hosts that the gateway's Envoy has, with their ports.
func (f *fetch) gatewayRows(ctx context.Context) (out []string, err error) {
	dump, err := f.scene.Gateway.Admin(ctx, "/config_dump")
	for _, found := range gatewayRow.FindAllSubmatch(dump, -1) {
		out = append(out, string(found[1])+":"+string(found[2]))
	}
	slices.Sort(out)
	return slices.Compact(out), err
}

func (f *fetch) gatewayHolds(ctx context.Context, t *testing.T, want ...string) {
	t.Helper()
	if err := world.Within(ctx, time.Minute, func() error {
		if rows, err := f.gatewayRows(ctx); err != nil || !slices.Equal(rows, want) {
			return fmt.Errorf("the gateway has %v (%w), want %v", rows, err, want)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// closedBy says what is wrong with how a request is answered that is to be closed.
func (f *fetch) closedBy(ctx context.Context, name string, want int, says string) error {
	status, text, err := f.app.get(ctx, time.Minute, name+fetchDomain, 80, "/", http.Header{})
	if err != nil || status != want || !strings.Contains(text, says) {
		return fmt.Errorf("%s is answered with %d %q (%w), want %d and a text with %q", name, status, text, err, want, says)
	}
	return nil
}

// oneRecord holds that a host was recorded once, by the gateway, with who came.
func (f *fetch) oneRecord(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if err := world.Within(ctx, time.Minute, func() error {
		records, err := f.scene.AuditRecords(ctx, "--host", name+fetchDomain)
		if err != nil {
			return err
		}
		records = slices.DeleteFunc(records, func(r record.Record) bool { return r.Class == record.DNS })
		if len(records) != 1 {
			return fmt.Errorf("%d records", len(records))
		}
		if r := records[0]; r.Reporter != record.ReporterGateway || r.Verdict != record.Allowed || r.Workload.ServiceAccount != "app" || !strings.HasPrefix(r.Source, world.AppAddr.String()+":") {
			t.Errorf("%s: the record is %+v", name, r)
		}
		return nil
	}); err != nil {
		t.Errorf("%s: %v", name, err)
	}
}
