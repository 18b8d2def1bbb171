package redirect

import "fmt"

// filterTable refuses what must not pass the pod: QUIC on its way out, and strangers' connections through it.
func filterTable(f Family, o Options) Table {
	t := Table{Name: "filter"}
	if o.BlockQUIC {
		t.Chains = append(t.Chains, Chain{chainQUIC, quicRules(f, o)})
		t.Jumps = append(t.Jumps, Jump{"OUTPUT", fmt.Sprintf("-p udp %s -j %s", dport("udp", PortRange{quicPort, quicPort}), chainQUIC)})
	}
	if !o.catchesInbound() && (!o.BlockQUIC || len(o.VirtualInterfaces) == 0) {
		return t
	}
	t.Chains = append(t.Chains, Chain{chainStray, strayRules(f, o)})
	if o.BlockQUIC {
		t.Jumps = append(t.Jumps, guestQUIC(o)...)
	}
	if o.catchesInbound() {
		t.Jumps = append(t.Jumps, Jump{"FORWARD", "-p tcp -j " + chainStray})
	}
	return t
}

// strayRules end the connections that inbound rules leave alone since they are not for the pod. A pod inherits its node's
// setting about forwarding, which is mostly on, so that the kernel would pass them on around the proxy.
// Guests of the pod go on: what of theirs is not caught was excepted, and somebody in the pod may publish their ports.
func strayRules(f Family, o Options) []string {
	var rules []string
	if o.BlockQUIC && len(o.VirtualInterfaces) > 0 {
		rules = append(rules, "-p udp -j REJECT --reject-with "+f.pick("icmp-port-unreachable", "icmp6-port-unreachable"))
	}
	rules = append(rules, interfaceReturns("-i", o)...)
	rules = append(rules, interfaceReturns("-o", o)...)
	for _, name := range o.VirtualInterfaces {
		rules = append(rules, "-i "+name+" -j RETURN", "-o "+name+" -j RETURN")
	}
	return append(rules, "-p tcp -j REJECT --reject-with tcp-reset")
}
