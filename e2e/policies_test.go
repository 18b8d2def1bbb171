package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/story"
	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// The ports of this test's servers, each of which speaks whatever it is spoken to.
const (
	policedHTTP = 9581
	policedTLS  = 9582
	policedTCP  = 9583
	// policedUnknown is registered for no host.
	policedUnknown = 9584
)

type policed struct {
	ctx   context.Context
	scene *story.Scene
	app   caller
}

// TestPolicies holds that EgressPolicies are kept where they cannot be gone around: at the gateway, for requests and for bytes.
func TestPolicies(t *testing.T) {
	needRoot(t)
	t.Parallel()
	ctx, s := setScene(t, story.InNamespaces)
	p := &policed{ctx: ctx, scene: s, app: appOf(s)}
	p.serve(t)
	if err := s.SetPolicy(ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
	inOrder(t, []part{
		{"without a policy", p.without},
		{"an allowlist", p.allowlist},
		{"the host in other letters", p.letters},
		{"a route that leads elsewhere", p.led},
		{"one connection for several hosts", p.coalesced},
		{"paths that servers take for others", p.paths},
		{"methods and headers", p.requests},
		{"early data", p.earlyData},
		{"the root namespace's word", p.root},
		{"what nobody registered", p.unregistered},
		{"by service account", p.accounts},
		{"by labels", p.labels},
		{"a pattern beside one of its hosts", p.patterns},
		{"names in other scripts", p.scripts},
		{"an address on a port of nobody's", p.addresses},
		{"observed", p.observed},
		{"AuthorizationPolicies", p.authorization},
		{"an authorizer", p.custom},
		{"a rule that ends while nobody is there", p.expires},
	})
}

func (p *policed) serve(t *testing.T) {
	t.Helper()
	var objects strings.Builder
	polyglot{p.scene.Outside.CA}.serve(t, p.scene.World.Outside, world.OutsideAddrs[0], []uint16{policedHTTP, policedTLS, policedTCP, policedUnknown})
	for name, gateway := range map[string]string{"one": "istio-system/istio-egressgateway", "two": "istio-system/istio-egressgateway", "straight": "direct", "free": ""} {
		host := name + ".policed.test"
		p.scene.Outside.Set(host, time.Minute, world.OutsideAddrs[0])
		if gateway == "" {
			continue // nobody registers it
		}
		fmt.Fprintf(&objects, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: %q, namespace: default, annotations: {egress.sallyport.io/gateway: %s}}\n"+
			"spec: {hosts: [%q], location: MESH_EXTERNAL, resolution: DNS, ports: [{number: %d, name: http, protocol: HTTP}, {number: %d, name: tls, protocol: TLS}, {number: %d, name: tcp, protocol: TCP}]}\n", host, gateway, host, policedHTTP, policedTLS, policedTCP)
	}
	if err := p.scene.Config.Write("policed.yaml", objects.String()); err != nil {
		t.Fatal(err)
	}
}

// tries says of each way to a host whether it is open.
func (p *policed) tries(host string) map[string]error {
	out := map[string]error{}
	for scheme, port := range map[string]uint16{"http": policedHTTP, "tls": policedTLS, "tcp": policedTCP} {
		_, out[scheme] = p.app.try(p.ctx, scheme, host, port, "/")
	}
	return out
}

// until waits until all ways to the hosts are as they are said to be.
func (p *policed) until(t *testing.T, open map[string]bool) {
	t.Helper()
	if err := world.Within(p.ctx, 3*time.Minute, func() error {
		for host, want := range open {
			for scheme, err := range p.tries(host) {
				if (err == nil) != want {
					return fmt.Errorf("%s://%s is open: %t, want %t (%w)", scheme, host, err == nil, want, err)
				}
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// isForbidden says whether a try was answered so, and did not just take too long.
func isForbidden(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "403 ") }

func (p *policed) write(t *testing.T, spec string) {
	t.Helper()
	text := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: list, namespace: default}\nspec:\n" + spec
	if err := p.scene.Config.Write("policy.yaml", text); err != nil {
		t.Fatal(err)
	}
}

// recorded waits for a record of a host, which it goes on trying: what was tried before the policy came is no use, and where a policy
// leaves open what was open, nothing else says that it came.
func (p *policed) recorded(t *testing.T, what, host string, fits func(record.Record) bool) {
	t.Helper()
	if err := world.Within(p.ctx, time.Minute, func() error {
		p.tries(host)
		records, err := p.scene.AuditRecords(p.ctx, "--host", host)
		if err == nil && !slices.ContainsFunc(records, fits) {
			err = fmt.Errorf("%s: none of %d records", what, len(records))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func deniedBy(r record.Record, policy, rule string) bool {
	return r.Verdict == record.Denied && r.DecidedBy.Kind == "EgressPolicy" && r.DecidedBy.Name == policy && r.DecidedBy.Rule == rule && r.DecidedBy.Revision != ""
}

func (p *policed) without(t *testing.T) {
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": true, "straight.policed.test": true, "free.policed.test": true})
}

func (p *policed) allowlist(t *testing.T) {
	p.write(t, "  rules: [{name: one, hosts: [one.policed.test], action: Allow}]\n")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": false, "straight.policed.test": false, "free.policed.test": false})
	p.awaits(t, func() error {
		status, text, err := p.app.get(p.ctx, time.Minute, "two.policed.test", policedHTTP, "/", http.Header{})
		if err == nil && (status != http.StatusForbidden || !strings.Contains(text, `"policy":"default/list"`) || !strings.Contains(text, `"reason":"no rule allows it"`)) {
			err = fmt.Errorf("what is denied reads: %d %s", status, text)
		}
		return err
	})
	p.recorded(t, "requests at the gateway", "two.policed.test", func(r record.Record) bool {
		return r.Protocol == "http" && r.Reporter == record.ReporterGateway && deniedBy(r, "list", "default")
	})
	p.recorded(t, "TLS at the gateway", "two.policed.test", func(r record.Record) bool {
		return r.Protocol == "tls" && r.Reporter == record.ReporterGateway && deniedBy(r, "list", "default")
	})
	p.recorded(t, "requests at the sidecar", "straight.policed.test", func(r record.Record) bool {
		return r.Protocol == "http" && r.Reporter == record.ReporterSidecar && deniedBy(r, "list", "default")
	})
	p.recorded(t, "what is allowed", "one.policed.test", func(r record.Record) bool {
		return r.Verdict == record.Allowed && r.AllowedBy.Name == "list" && r.AllowedBy.Rule == "one"
	})
}

// patterns: a rule for one host is for no other that a pattern beside it covers, and the record of bytes to a pattern's host names the
// rule that let them pass.
func (p *policed) patterns(t *testing.T) {
	const entry = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: wild, namespace: default}\n" +
		"spec: {hosts: ['*.wild.policed.test'], location: MESH_EXTERNAL, ports: [{number: %d, name: http, protocol: HTTP}, {number: %d, name: tls, protocol: TLS}]}\n"
	if err := p.scene.Config.Write("policed-wild.yaml", fmt.Sprintf(entry, policedHTTP, policedTLS)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y"} {
		p.scene.Outside.Set(name+".wild.policed.test", time.Minute, world.OutsideAddrs[0])
	}
	p.write(t, "  rules: [{name: x, hosts: [x.wild.policed.test], action: Allow}, {hosts: ['*.wild.policed.test'], action: Deny}]\n")
	tries := func() error {
		if _, err := p.app.try(p.ctx, "tls", "x.wild.policed.test", policedTLS, "/"); err != nil {
			return err
		}
		if _, err := p.app.try(p.ctx, "tls", "y.wild.policed.test", policedTLS, "/"); err == nil {
			return errors.New("y.wild.policed.test is open")
		}
		return nil
	}
	if err := world.Within(p.ctx, time.Minute, func() error {
		if err := tries(); err != nil {
			return err
		}
		records, err := p.scene.AuditRecords(p.ctx, "--host", "x.wild.policed.test")
		if err == nil && !slices.ContainsFunc(records, func(r record.Record) bool {
			return r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.AllowedBy.Name == "list" && r.AllowedBy.Rule == "x"
		}) {
			err = fmt.Errorf("TLS to a pattern's host: none of %d records", len(records))
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// addresses: TLS that shows no name, to an address and a port that nobody registered, is held to rules about the address.
func (p *policed) addresses(t *testing.T) {
	to := world.OutsideAddrs[0].String()
	p.write(t, fmt.Sprintf("  default: Allow\n  rules: [{name: there, hosts: [%q], ports: [%d], action: Deny}]\n", to, policedUnknown))
	for port, open := range map[uint16]bool{policedTLS: true, policedUnknown: false} {
		if err := world.Within(p.ctx, time.Minute, func() error {
			if _, err := p.app.try(p.ctx, "tls", to, port, "/"); (err == nil) != open {
				return fmt.Errorf("tls://%s:%d is open: %t, want %t (%w)", to, port, err == nil, open, err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

func (p *policed) observed(t *testing.T) {
	p.write(t, "  mode: Observe\n  rules: [{name: one, hosts: [one.policed.test], action: Allow}]\n")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": true, "straight.policed.test": true, "free.policed.test": true})
	for _, protocol := range []string{"http", "tls", "tcp"} { // the same record says what happened, and what would
		p.recorded(t, "what would be denied by "+protocol, "two.policed.test", func(r record.Record) bool {
			return r.Protocol == protocol && r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.WouldDeny.Name == "list" && r.WouldDeny.Rule == "default"
		})
	}
	p.recorded(t, "what would be denied where it leaves straight", "straight.policed.test", func(r record.Record) bool {
		return r.Reporter == record.ReporterSidecar && r.Verdict == record.Allowed && r.WouldDeny.Name == "list" && r.WouldDeny.Rule == "default"
	})
}

func (p *policed) letters(t *testing.T) {
	p.write(t, "  default: Allow\n  rules: [{name: not-two, hosts: [two.policed.test], action: Deny}]\n")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": false})
	for _, host := range []string{"two.policed.test", "TWO.policed.test", "two.Policed.Test"} {
		if status, text, err := p.app.get(p.ctx, time.Minute, host, policedHTTP, "/", http.Header{}); err != nil || status != http.StatusForbidden {
			t.Errorf("%s: %d %s %v", host, status, text, err)
		}
	}
}

// coalesced: a policy is asked for each request, about the host that it says, whichever host its connection was opened for.
func (p *policed) coalesced(t *testing.T) {
	kept := p.dialOne(t)
	in := bufio.NewReader(kept)
	for i, host := range []string{"one.policed.test", "two.policed.test", "ONE.policed.test", "two.policed.test."} {
		if _, err := fmt.Fprintf(kept, "GET / HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, policedHTTP); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if (resp.StatusCode == http.StatusOK) != (i%2 == 0) {
			t.Errorf("on one connection, %s: %d", host, resp.StatusCode)
		}
	}
	for _, c := range []struct {
		authority, host string
		open            bool
	}{
		{"one.policed.test:9581", "", true}, {"two.policed.test:9581", "", false},
		{"two.policed.test:9581", "one.policed.test:9581", false}, {"", "two.policed.test:9581", false},
	} {
		fields := []header{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}}
		if c.authority != "" {
			fields = append(fields, header{":authority", c.authority})
		}
		if c.host != "" {
			fields = append(fields, header{"host", c.host})
		}
		if got := askByHTTP2(t, p.dialOne(t), "", fields...); (got.status == "200") != c.open {
			t.Errorf("by HTTP/2, :authority %q and host %q: %s", c.authority, c.host, got)
		}
	}
}

// dialOne is a connection for requests to a host.
func (p *policed) dialOne(t *testing.T) net.Conn {
	t.Helper()
	addr, err := p.app.resolve(p.ctx, "one.policed.test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.app.host.DialContext(p.ctx, "tcp", netip.AddrPortFrom(addr, policedHTTP).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

// led: a route at the gateway that leads from a host that is allowed to one that is not.
func (p *policed) led(t *testing.T) {
	p.write(t, "  default: Allow\n  rules: [{name: not-two, hosts: [two.policed.test], action: Deny}]\n")
	port := func(number int, protocol string) string {
		return fmt.Sprintf("{port: {number: %d, name: p%d, protocol: %s}, hosts: ['*']}", number, number, protocol)
	}
	objects := "apiVersion: networking.istio.io/v1\nkind: Gateway\nmetadata: {name: led, namespace: default}\nspec: {selector: {istio: egressgateway}, servers: [" + port(policedHTTP, "HTTP") + ", " + port(policedTCP, "TCP") + "]}\n" +
		"---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: led, namespace: default}\nspec: {hosts: [one.policed.test], gateways: [led]," +
		" http: [{match: [{uri: {prefix: /two}}], route: [{destination: {host: two.policed.test}}]}, {match: [{uri: {prefix: /copy}}], mirror: {host: two.policed.test}, route: [{destination: {host: one.policed.test}}]}, {route: [{destination: {host: one.policed.test}}]}]," +
		" tcp: [{route: [{destination: {host: two.policed.test}}]}]}\n"
	if err := p.scene.Config.Write("led.yaml", objects); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"/": http.StatusOK, "/two": http.StatusForbidden, "/copy": http.StatusForbidden}
	if err := world.Within(p.ctx, time.Minute, func() error {
		for path, status := range want {
			if got, text, err := p.app.get(p.ctx, time.Minute, "one.policed.test", policedHTTP, path, http.Header{}); err != nil || got != status {
				return fmt.Errorf("%s: %d %s %w, want %d", path, got, text, err, status)
			}
		}
		if p.tries("one.policed.test")["tcp"] == nil {
			return errors.New("bytes are led to a host that is denied")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := p.scene.Config.Remove("led.yaml"); err != nil {
		t.Fatal(err)
	}
}

func (p *policed) paths(t *testing.T) {
	p.write(t, "  rules:\n  - {name: admin, hosts: [one.policed.test], paths: [/admin/**, /na%C3%AFve/**], action: Deny}\n  - {name: rest, hosts: [one.policed.test], action: Allow}\n")
	if err := world.Within(p.ctx, time.Minute, func() error { // the last policy leaves both hosts as this one does
		status, text, err := p.app.get(p.ctx, time.Minute, "one.policed.test", policedHTTP, "/admin/x", http.Header{})
		if err == nil && status != http.StatusForbidden {
			err = fmt.Errorf("%d %s", status, text)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for path, want := range hostilePaths("one.policed.test:9581") {
		if status, text, err := p.app.get(p.ctx, time.Minute, "one.policed.test", policedHTTP, path, http.Header{}); err != nil || status != want {
			t.Errorf("%s: %d %s %v, want %d", path, status, text, err, want)
		}
	}
	// by HTTP/2 a path may have bytes that it should have as escapes
	for path, want := range map[string]string{"/na%c3%afve/x": "403", "/na\xc3\xafve/x": "403", "/na%C3%A9ve/x": "200"} {
		if got := askByHTTP2(t, p.dialOne(t), "", header{":method", "GET"}, header{":scheme", "http"}, header{":authority", "one.policed.test:9581"}, header{":path", path}); got.status != want {
			t.Errorf("by HTTP/2, %q: %s, want %s", path, got, want)
		}
	}
}

func (p *policed) requests(t *testing.T) {
	p.write(t, "  rules:\n  - {name: posts, hosts: [one.policed.test], methods: [POST], action: Allow}\n"+
		"  - {name: staged, hosts: [one.policed.test], headers: [{name: X-Stage, value: \"test-*\"}], action: Allow}\n  - {name: bytes, hosts: [one.policed.test], protocols: [TLS, TCP], action: Allow}\n")
	if err := world.Within(p.ctx, time.Minute, func() error {
		if tries := p.tries("one.policed.test"); !isForbidden(tries["http"]) || tries["tls"] != nil || tries["tcp"] != nil {
			return fmt.Errorf("%v", tries)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for stage, want := range map[string]int{"test-7": 200, "prod": 403, "": 403} {
		header := http.Header{"X-Stage": {stage}, "X-Http-Method-Override": {"POST"}}
		if status, text, err := p.app.get(p.ctx, time.Minute, "one.policed.test", policedHTTP, "/", header); err != nil || status != want {
			t.Errorf("%q: %d %s %v, want %d", stage, status, text, err, want)
		}
	}
}

// root writes a policy of the root namespace; "" takes it away.
func (p *policed) writeRoot(t *testing.T, spec string) {
	t.Helper()
	text := ""
	if spec != "" {
		text = "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: mesh, namespace: istio-system}\nspec:\n" + spec
	}
	if err := p.scene.Config.Write("root-policy.yaml", text); err != nil {
		t.Fatal(err)
	}
}

func (p *policed) root(t *testing.T) {
	p.write(t, "  rules: [{hosts: [\"*.policed.test\"], action: Allow}]\n")
	p.writeRoot(t, "  namespaces: {names: [default]}\n  rules: [{name: not-two, hosts: [two.policed.test, straight.policed.test], action: Deny}]\n")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": false, "straight.policed.test": false})
	p.writeRoot(t, "  namespaces: {names: [other]}\n  rules: [{name: not-two, hosts: [two.policed.test], action: Deny}]\n")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": true, "straight.policed.test": true})
	p.write(t, "  default: Deny\n")
	p.writeRoot(t, "  default: Allow\n  rules: [{hosts: [one.policed.test, straight.policed.test], action: Allow, final: true}]\n")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": false, "straight.policed.test": true, "free.policed.test": false})
	p.writeRoot(t, "")
	p.until(t, map[string]bool{"one.policed.test": false, "straight.policed.test": false})
}

func (p *policed) accounts(t *testing.T) {
	p.write(t, "  serviceAccounts: [somebody]\n  default: Deny\n")
	p.until(t, map[string]bool{"one.policed.test": true, "straight.policed.test": true})
	p.write(t, "  serviceAccounts: [somebody, app]\n  default: Deny\n")
	p.until(t, map[string]bool{"one.policed.test": false, "straight.policed.test": false})
}

// labels says who is whom by a WorkloadEntry: what a proxy says of itself does not count.
func (p *policed) labels(t *testing.T) {
	is := func(team string) {
		text := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: app, namespace: default}\nspec: {address: %s, serviceAccount: app, labels: {team: %s}}\n", world.AppAddr, team)
		if err := p.scene.Config.Write("workload.yaml", text); err != nil {
			t.Fatal(err)
		}
	}
	is("shop")
	p.write(t, "  selector: {matchLabels: {team: shop}}\n  default: Deny\n")
	p.until(t, map[string]bool{"one.policed.test": false})
	is("cart")
	p.until(t, map[string]bool{"one.policed.test": true, "two.policed.test": true})
}

func (p *policed) expires(t *testing.T) {
	began := time.Now()
	later := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	p.write(t, fmt.Sprintf("  rules: [{hosts: [one.policed.test, straight.policed.test], action: Allow, expires: %q}]\n", later))
	p.until(t, map[string]bool{"one.policed.test": true, "straight.policed.test": true, "two.policed.test": false, "free.policed.test": false})
	end := time.Now().Add(lead(began)).Truncate(time.Second)
	p.write(t, fmt.Sprintf("  rules: [{hosts: [one.policed.test, straight.policed.test], action: Allow, expires: %q}, {hosts: [two.policed.test, free.policed.test], action: Allow}]\n", end.UTC().Format(time.RFC3339)))
	p.until(t, map[string]bool{"two.policed.test": true})
	p.untilSchemes(t, "free.policed.test", map[string]bool{"http": true, "tls": true}) // by the sidecar, which has its own policies; what nobody registered has a name there where one is said
	if err := p.scene.Controller.Kill(p.ctx); err != nil {
		t.Fatal(err)
	}
	if tries := p.tries("one.policed.test"); isForbidden(tries["http"]) && time.Now().Before(end) {
		t.Errorf("before its end: %v", tries)
	}
	last := end // what got through, by when it began
	if err := world.Within(p.ctx, time.Minute, func() (open error) {
		for _, host := range []string{"one.policed.test", "straight.policed.test"} {
			began := time.Now()
			for scheme, err := range p.tries(host) {
				if err == nil {
					last, open = began, fmt.Errorf("%s://%s is open", scheme, host)
				}
			}
		}
		return open
	}); err != nil {
		t.Fatal(err)
	}
	if late := last.Sub(end); late > 2*time.Second {
		t.Errorf("it ended %s after its time", late)
	}
}
