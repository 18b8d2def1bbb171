package e2e

import (
	"fmt"
	"io"
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
	ask := p.keptOpen(t)
	becomes := func(open bool, within time.Duration) {
		t.Helper()
		for end := time.Now().Add(within); ; { // without a rest, since the time counts
			switch status := ask(); {
			case open && status == http.StatusOK, !open && status == http.StatusForbidden:
				return
			case time.Now().After(end):
				t.Fatalf("it is open: %t, and the answer %d", open, status)
			}
		}
	}
	edit(false)
	becomes(false, 5*time.Minute)
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

// keptOpen asks one.policed.test again and again, by one connection as long as that lasts; 0 is no answer.
func (p *policed) keptOpen(t *testing.T) func() int {
	t.Helper()
	var addr netip.Addr
	if err := world.Within(p.ctx, time.Minute, func() (err error) { // once its registration is read
		addr, err = p.app.resolve(p.ctx, "one.policed.test")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DialContext: p.app.host.DialContext, MaxIdleConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	client := &http.Client{Transport: transport, Timeout: time.Minute}
	to := "http://" + netip.AddrPortFrom(addr, policedHTTP).String() + "/"
	return func() int {
		r, err := http.NewRequestWithContext(p.ctx, http.MethodGet, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = fmt.Sprintf("one.policed.test:%d", policedHTTP)
		resp, err := client.Do(r)
		if err != nil {
			return 0 // it was closed while nothing was open yet, or the connection is to be another one
		}
		defer func() { _ = resp.Body.Close() }()
		_, _ = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode
	}
}
