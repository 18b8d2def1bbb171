package redirect

import "fmt"

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
