package redirect

import "fmt"

// filterTable refuses what must not pass the pod: QUIC on its way out, and strangers' connections through it.
func filterTable(f Family, o Options) Table {
	t := Table{Name: "filter"}
	if o.BlockQUIC {
		t.Chains = append(t.Chains, Chain{chainQUIC, quicRules(f, o)})
		t.Jumps = append(t.Jumps, Jump{"OUTPUT", fmt.Sprintf("-p udp %s -j %s", dport("udp", PortRange{quicPort, quicPort}), chainQUIC)})
	}
	if o.catchesInbound() {
		t.Chains = append(t.Chains, Chain{chainStray, strayRules(o)})
		t.Jumps = append(t.Jumps, Jump{"FORWARD", "-p tcp -j " + chainStray})
	}
	return t
}

// strayRules end the connections that inbound rules leave alone since they are not for the pod. A pod inherits its node's
// setting about forwarding, which is mostly on, so that the kernel would pass them on around the proxy.
func strayRules(o Options) []string {
	rules := append(interfaceReturns("-i", o), interfaceReturns("-o", o)...)
	return append(rules, "-p tcp -j REJECT --reject-with tcp-reset")
}
