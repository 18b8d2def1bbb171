package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sallyport/sallyport/e2e/world"
)

// policySeeds are how many times everything is tried under random EgressPolicies.
func policySeeds() uint64 {
	if os.Getenv("SALLYPORT_LONG") != "" {
		return 12
	}
	return 2
}

// policedBy writes random policies of the app's namespace and of the root namespace, and waits until the app's sidecar and its gateway
// keep them.
func (d *differential) policedBy(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 11))
	own := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: own, namespace: default}\nspec:\n" + randomRules(r, fmt.Sprintf("own-%d", seed), "DELETE", "Deny", false)
	root := "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: mesh, namespace: istio-system}\nspec:\n  default: Allow\n" +
		strings.Replace(randomRules(r, "asks-own", "DELETE", "Allow", true), "  rules:\n", fmt.Sprintf("  rules:\n  - {name: mesh-%d, methods: [PUT], action: Deny}\n", seed), 1)
	t.Logf("%s---\n%s", own, root)
	if err := d.scene.Config.Write("random-policies.yaml", own+"---\n"+root); err != nil {
		t.Fatal(err)
	}
	for method, rule := range map[string]string{"PUT": fmt.Sprintf("mesh-%d", seed), "DELETE": fmt.Sprintf("own-%d", seed)} {
		for _, host := range []string{"exact.test", "direct.test"} {
			if err := world.Within(d.ctx, time.Minute, func() error {
				status, text, err := d.app.send(d.ctx, time.Minute, method, host, 80, "/", http.Header{})
				if err == nil && (status != http.StatusForbidden || !strings.Contains(text, `"rule":"`+rule+`"`)) {
					err = fmt.Errorf("%s http://%s: %d %s, want it denied by %s", method, host, status, text, rule)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// randomRules are rules about what is tried, after one by which it can be told that they have come.
func randomRules(r *rand.Rand, first, method, does string, root bool) string {
	one := func(list ...string) string { return list[r.IntN(len(list))] }
	var b strings.Builder
	fmt.Fprintf(&b, "  rules:\n  - {name: %s, methods: [%s], action: %s}\n", first, method, does)
	for i := range 3 + r.IntN(5) {
		fmt.Fprintf(&b, "  - {name: rule-%d, action: %s", i, one("Allow", "Allow", "Deny"))
		var hosts []string
		for range 1 + r.IntN(4) {
			host := destinations[r.IntN(len(destinations))]
			host = host[:strings.LastIndexByte(host, ':')]
			if strings.Contains(host, ".test") && r.IntN(4) == 0 {
				host = "*." + host[strings.IndexByte(host, '.')+1:]
			}
			if strings.Contains(host, ".") && !strings.Contains(strings.Join(hosts, " "), `"`+host+`"`) {
				hosts = append(hosts, `"`+host+`"`)
			}
		}
		if len(hosts) > 0 && r.IntN(5) > 0 {
			fmt.Fprintf(&b, ", hosts: [%s]", strings.Join(hosts, ", "))
		}
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, ", ports: [%s]", one("80", "443", "5432", "80, 8080", "9999"))
		}
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, ", protocols: [%s]", one("HTTP", "TLS", "TCP", "HTTP, TLS"))
		}
		if root && r.IntN(4) == 0 && strings.Contains(b.String()[strings.LastIndex(b.String(), "action:"):], "Allow") {
			b.WriteString(", final: true")
		}
		b.WriteString("}\n")
	}
	return b.String()
}
