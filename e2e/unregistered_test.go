package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
	"github.com/sallyport/sallyport/egress/audit/record"
)

// unregistered: under REGISTRY_ONLY a rule of the root namespace lets out what nobody registered, by the gateway, those whom its policy
// selects and nobody else.
func (p *policed) unregistered(t *testing.T) {
	const free = "free.policed.test"
	if err := p.scene.SetPolicy(p.ctx, "REGISTRY_ONLY"); err != nil {
		t.Fatal(err)
	}
	if err := p.scene.Config.Write("policy.yaml", ""); err != nil {
		t.Fatal(err)
	}
	p.until(t, map[string]bool{free: false, "one.policed.test": true})
	lets := func(selects string) {
		p.writeRoot(t, selects+fmt.Sprintf("  default: Allow\n  rules:\n"+
			"  - {name: free-http, hosts: [%s], ports: [%d], protocols: [HTTP], action: Allow, unregistered: true}\n"+
			"  - {name: free-tls, hosts: [%s], ports: [%d], protocols: [TLS], action: Allow, unregistered: true}\n", free, policedHTTP, free, policedTLS))
	}
	lets("")
	p.awaits(t, func() error {
		if tries := p.tries(free); tries["http"] != nil || tries["tls"] != nil || tries["tcp"] == nil {
			return fmt.Errorf("what a rule lets out: %v", tries)
		}
		return nil
	})
	for protocol, rule := range map[string]string{"http": "free-http", "tls": "free-tls"} {
		p.recorded(t, protocol+" that a rule lets out", free, func(r record.Record) bool {
			return r.Protocol == protocol && r.Reporter == record.ReporterGateway && r.Verdict == record.Allowed && r.AllowedBy.Name == "mesh" && r.AllowedBy.Rule == rule
		})
	}
	lets("  serviceAccounts: [somebody]\n")
	p.awaits(t, func() error {
		status, text, err := p.app.get(p.ctx, time.Minute, free, policedHTTP, "/", http.Header{})
		if err == nil && (status != http.StatusForbidden || !strings.Contains(text, "nobody registered the host") || !strings.Contains(text, "unregistered: true")) {
			err = fmt.Errorf("somebody else's: %d %s", status, text)
		}
		return err
	})
	p.until(t, map[string]bool{free: false, "one.policed.test": true})
	p.recorded(t, "what no rule lets this workload out to", free, func(r record.Record) bool {
		return r.Protocol == "tls" && r.Reporter == record.ReporterGateway && r.Verdict == record.Denied && r.DecidedBy.Kind == "MeshConfig" && r.DecidedBy.Rule == "unregistered"
	})
	p.writeRoot(t, "")
	p.awaits(t, func() error {
		if addr, err := p.app.resolve(p.ctx, free); err == nil {
			return fmt.Errorf("the name is still answered: %s", addr)
		}
		return nil
	})
	if err := p.scene.SetPolicy(p.ctx, "ALLOW_ANY"); err != nil {
		t.Fatal(err)
	}
}

func (p *policed) awaits(t *testing.T, ready func() error) {
	t.Helper()
	if err := world.Within(p.ctx, 2*time.Minute, ready); err != nil {
		t.Fatal(err)
	}
}

// scripts: a rule for a name in punycode, in any letters, is for that one alone; in its own script it is no name at all. A pattern is for none of the
// name that it is below.
func (p *policed) scripts(t *testing.T) {
	const puny, other = "xn--bcher-kva.wild.policed.test", "xn--bchre-kva.wild.policed.test"
	p.write(t, fmt.Sprintf("  rules: [{name: books, hosts: [%s], action: Deny}, {hosts: ['*.wild.policed.test'], action: Allow}]\n", puny))
	for _, name := range []string{puny, other} {
		p.scene.Outside.Set(name, time.Minute, world.OutsideAddrs[0])
	}
	p.awaits(t, func() error {
		for host, want := range map[string]int{puny: http.StatusForbidden, "XN--BCHER-KVA.wild.policed.test": http.StatusForbidden, other: http.StatusOK, "one.policed.test": http.StatusForbidden} {
			if got, text, err := p.app.get(p.ctx, time.Minute, host, policedHTTP, "/", http.Header{}); err != nil || got != want {
				return fmt.Errorf("%s: %d %s %w, want %d", host, got, text, err, want)
			}
		}
		return nil
	})
	for host, open := range map[string]bool{puny: false, other: true} {
		p.awaits(t, func() error {
			if _, err := p.app.try(p.ctx, "tls", host, policedTLS, "/"); (err == nil) != open {
				return fmt.Errorf("tls://%s is open: %t (%w)", host, err == nil, err)
			}
			return nil
		})
	}
	addr, err := p.app.resolve(p.ctx, other)
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.app.host.DialContext(p.ctx, "tcp", netip.AddrPortFrom(addr, policedHTTP).String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: b\u00fccher.wild.policed.test:%d\r\n\r\n", policedHTTP); err != nil {
		t.Fatal(err)
	}
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil && resp.StatusCode == http.StatusOK {
		t.Error("a name in its own script passed")
	}
}
