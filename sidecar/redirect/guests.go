package redirect

import "fmt"

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
