package redirect

import (
	"fmt"
)

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

// guestJumps catch connections that the pod's guests make: they come in by an interface inside the pod and are on their
// way out. What is for the pod itself is inbound, as from anybody.
func guestJumps(o Options) []Jump {
	var jumps []Jump
	for _, name := range o.VirtualInterfaces {
		jumps = append(jumps, Jump{"PREROUTING", "-i " + name + " -p tcp -m addrtype ! --dst-type LOCAL -j " + chainGuests})
	}
	return jumps
}

// guestRules is what becomes of them: the same as of the pod's own connections.
func guestRules(f Family, o Options) []string {
	var rules []string
	for _, r := range o.OutboundPortsExclude {
		rules = append(rules, "-p tcp "+dport("tcp", r)+" -j RETURN")
	}
	return append(rules, caught(f, o)...)
}

// guestQUIC refuses guests' QUIC, as the pod's.
func guestQUIC(o Options) []Jump {
	var jumps []Jump
	for _, name := range o.VirtualInterfaces {
		jumps = append(jumps, Jump{"FORWARD", fmt.Sprintf("-i %s -p udp %s -j %s", name, dport("udp", PortRange{quicPort, quicPort}), chainStray)})
	}
	return jumps
}

// quicRules refuse QUIC where TCP would be caught, so that clients fall back to TLS over TCP at once: an ICMP answer ends
// their attempt, silence would make them wait.
func quicRules(f Family, o Options) []string {
	quic := "-p udp " + dport("udp", PortRange{quicPort, quicPort})
	reject := "-j REJECT --reject-with " + f.pick("icmp-port-unreachable", "icmp6-port-unreachable")
	rules := append(interfaceReturns("-o", o), "-o lo -j RETURN")
	for _, w := range o.owners() {
		rules = append(rules, w.match()+" -j RETURN")
	}
	for _, r := range o.OutboundPortsExclude {
		if r.contains(quicPort) {
			rules = append(rules, quic+" -j RETURN")
		}
	}
	for _, p := range f.of(o.OutboundExclude) {
		rules = append(rules, to(p)+"-j RETURN")
	}
	everywhere := o.OutboundRanges.All
	for _, r := range o.OutboundPorts {
		everywhere = everywhere || r.contains(quicPort)
	}
	if everywhere {
		rules = append(rules, fmt.Sprintf("%s %s", quic, reject))
	} else {
		for _, p := range f.of(o.OutboundRanges.List) {
			rules = append(rules, fmt.Sprintf("%s%s %s", to(p), quic, reject))
		}
	}
	return rules
}
