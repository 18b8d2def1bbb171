package e2e

import (
	"bufio"
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
)

// How large the mesh is in which a policy is edited.
const (
	manyPoliciesHosts = 10_000
	manyPolicies      = 1000
	manyNamespaces    = 500
	policyEdits       = 100
	settlingEdits     = 20 // while all of that is still read and sent; they do not count
)

// TestPolicyEditsAmongMany: among 1,000 policies of 500 namespaces, and 10,000 hosts, each edit of a policy counts at the gateway; how soon, from the
// file's writing to the answer that is another one, is logged.
func TestPolicyEditsAmongMany(t *testing.T) {
	needRoot(t)
	ctx, s := setScene(t, story.InNamespaces)
	p := &policed{ctx: ctx, scene: s, app: appOf(s)}
	p.serve(t)
	var entries, policies strings.Builder
	for i := range manyPoliciesHosts {
		fmt.Fprintf(&entries, "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: h-%[1]d, namespace: ns-%[2]d}\n"+
			"spec: {hosts: [h-%[1]d.many.test], location: MESH_EXTERNAL, resolution: DNS, exportTo: ['*'], ports: [{number: 80, name: http, protocol: HTTP}]}\n", i, i%manyNamespaces)
	}
	for i := range manyPolicies {
		fmt.Fprintf(&policies, "---\napiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: p-%d, namespace: ns-%d}\nspec:\n  rules:\n", i, i%manyNamespaces)
		for j := range 10 {
			fmt.Fprintf(&policies, "  - {name: r%d, hosts: [h-%d.many.test], action: Allow}\n", j, (i*10+j)%manyPoliciesHosts)
		}
	}
	for name, text := range map[string]string{"many-entries.yaml": entries.String(), "many-policies.yaml": policies.String()} {
		if err := s.Config.Write(name, text); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(open bool) {
		rule := "[{name: one, hosts: [one.policed.test], action: Allow}]"
		if !open {
			rule = "[{name: two, hosts: [two.policed.test], action: Allow}]"
		}
		p.write(t, "  rules: "+rule+"\n")
	}
	kept, ask := p.keptOpen(t)
	defer func() { _ = kept.Close() }()
	becomes := func(open bool, within time.Duration) {
		t.Helper()
		for end := time.Now().Add(within); ; { // without a rest, since the time counts
			switch status := ask(); {
			case (status == http.StatusOK) == open:
				return
			case time.Now().After(end) || status != http.StatusOK && status != http.StatusForbidden:
				t.Fatalf("it is open: %t, and the answer %d", open, status)
			}
		}
	}
	edit(false)
	becomes(false, 2*time.Minute)
	var took []time.Duration
	for i := range settlingEdits + policyEdits {
		open := i%2 == 0
		began := time.Now()
		edit(open)
		becomes(open, time.Minute)
		if i >= settlingEdits {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	t.Logf("an edit counts at the gateway after %s (p50), %s (p99)", took[len(took)/2].Round(100*time.Microsecond), took[len(took)*99/100].Round(100*time.Microsecond))
}

// keptOpen is one connection to one.policed.test, and asks by it again and again.
func (p *policed) keptOpen(t *testing.T) (net.Conn, func() int) {
	t.Helper()
	var addr netip.Addr
	if err := world.Within(p.ctx, time.Minute, func() (err error) { // once its registration is read
		addr, err = p.app.resolve(p.ctx, "one.policed.test")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c, err := p.app.host.DialContext(p.ctx, "tcp", netip.AddrPortFrom(addr, policedHTTP).String())
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	return c, func() int {
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: one.policed.test:%d\r\n\r\n", policedHTTP); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
}
