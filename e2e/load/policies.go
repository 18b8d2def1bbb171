package load

import (
	"fmt"
	"os"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

const (
	// policyNamespaces is how many namespaces EgressPolicies are spread over, and hostsEach about how many hosts each one is, which nobody else's is.
	policyNamespaces = 500
	hostsEach        = 10
)

// exits is the node of one more pod of the egress gateway.
func exits(i int) *core.Node {
	return exit(fmt.Sprintf("istio-egressgateway-%d", 2+i), fmt.Sprintf("10.250.%d.%d", 1+i/250, 1+i%250))
}

// writePolicies fills a directory with EgressPolicies, and the hosts that they are about.
func (m mesh) writePolicies(o Options) error {
	for i := range o.Entries {
		for n := range hostsEach {
			e := entry{name: fmt.Sprintf("entry-%d", i*hostsEach+n), namespace: policyNamespace(i), host: policyHost(i, n)}
			if err := os.WriteFile(m.file(e), []byte(e.yaml()), 0o644); err != nil {
				return err
			}
		}
		if err := m.putPolicy(i, 0); err != nil {
			return err
		}
	}
	return nil
}

func policyNamespace(i int) string { return fmt.Sprintf("policed-%d", i%policyNamespaces) }

func policyHost(i, n int) string { return fmt.Sprintf("api-%d.service-%d.example.com", n, i) }

// putPolicy writes a policy, of which one rule has a port that differs from round to round.
func (m mesh) putPolicy(i, round int) error {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: egress.sallyport.io/v1alpha1\nkind: EgressPolicy\nmetadata: {name: policy-%d, namespace: %s}\nspec:\n  rules:\n", i, policyNamespace(i))
	for n := range hostsEach {
		fmt.Fprintf(&b, "  - {name: rule-%d, hosts: [%s], ports: [%d], action: Allow}\n", n, policyHost(i, n), map[bool]int{true: 443, false: 8000 + round}[n > 0 || round == 0])
	}
	return replace(m.named(fmt.Sprintf("policy-%d", i)), b.String())
}

// policySteps edit a policy three times: another one from round to round.
func (m mesh) policySteps(round int) (out []step) {
	i := round % policyNamespaces
	for n := range 3 {
		out = append(out, step{"changed", "own/" + policyNamespace(i), func() error { return m.putPolicy(i, 3*round+n+1) }, nil})
	}
	return out
}
