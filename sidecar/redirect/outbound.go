package redirect

import "fmt"

// outputRules is ISTIO_OUTPUT: what becomes of a connection that starts in the pod. The order is Istio's.
func outputRules(f Family, o Options) []string {
	rules := interfaceReturns("-o", o)
	for _, r := range o.OutboundPortsExclude {
		rules = append(rules, "-p tcp "+dport("tcp", r)+" -j RETURN", "-p udp "+dport("udp", r)+" -j RETURN")
	}
	// The proxy's own connection to the application is not caught again. One that it makes from there to somewhere else is a client's that was slow to begin, made once more: it is to be caught as the client's was. From an
	// address of loopback's the kernel lets it begin at that interface alone, to which the proxy binds it (xds/envoy's ConnectAgain).
	own := fmt.Sprintf("-s %s -o lo -j RETURN", f.passthrough())
	if f == IPv4 {
		rules = append(rules, fmt.Sprintf("-s %s -o lo -p tcp -m addrtype ! --dst-type LOCAL -j %s", f.passthrough(), chainRedirect), own)
	} else {
		rules = append(rules, own, fmt.Sprintf("-s %s -p tcp -j %s", f.passthrough(), chainRedirect))
	}
	rules = append(rules, ownerRules(f, o, "uid", o.UIDs)...)
	rules = append(rules, ownerRules(f, o, "gid", o.GIDs)...)
	if o.dnsCaught() {
		rules = append(rules, "-j "+chainOutputDNS)
	}
	// Containers of the pod that speak to each other by localhost.
	rules = append(rules, fmt.Sprintf("-d %s -j RETURN", f.loopback()))
	return append(rules, caught(f, o)...)
}

// caught sends to the proxy what of an outbound connection's destination is chosen.
func caught(f Family, o Options) []string {
	var rules []string
	for _, p := range f.of(o.OutboundExclude) {
		rules = append(rules, to(p)+"-j RETURN")
	}
	for _, r := range o.OutboundPorts {
		rules = append(rules, "-p tcp "+dport("tcp", r)+" -j "+chainRedirect)
	}
	if o.OutboundRanges.All {
		return append(rules, "-j "+chainRedirect)
	}
	for _, p := range f.of(o.OutboundRanges.List) {
		rules = append(rules, to(p)+"-j "+chainRedirect)
	}
	return rules
}

// ownerRules keeps the proxy's own traffic out of the proxy, but for calls of the pod to its own service: application →
// proxy (outbound) → pod's address over lo → proxy (inbound) → application.
func ownerRules(f Family, o Options, kind string, ids []uint32) []string {
	var rules []string
	// With DNS caught, queries of the agent to a server on this host are its own, and an application's queries to such a
	// server are to be caught further down.
	inbound, direct := "-o lo", "-o lo"
	switch {
	case o.dnsCaught() && o.TunnelPort != 0:
		inbound += fmt.Sprintf(" -p tcp -m multiport ! --dports %d,%d", dnsServerPort, o.TunnelPort)
	case o.dnsCaught():
		inbound += fmt.Sprintf(" -p tcp -m tcp ! --dport %d", dnsServerPort)
	case o.TunnelPort != 0:
		inbound += fmt.Sprintf(" -p tcp -m tcp ! --dport %d", o.TunnelPort)
	default:
		inbound += " -p tcp"
	}
	if o.dnsCaught() {
		direct += fmt.Sprintf(" -p tcp -m tcp ! --dport %d", dnsServerPort)
	}
	for _, id := range ids {
		rules = append(rules, fmt.Sprintf("! -d %s %s %s -j %s", f.loopback(), inbound, owner{kind, id}.match(), chainInRedirect))
	}
	// An application that calls its own pod by address reaches it directly, unless its range was asked for.
	if !o.wantsLoopback(f) {
		rules = append(rules, direct+" "+notOwnedBy(kind, ids)+" -j RETURN")
	}
	for _, id := range ids {
		rules = append(rules, owner{kind, id}.match()+" -j RETURN")
	}
	return rules
}

// wantsLoopback tells whether the ranges to catch name a loopback range of the family.
func (o Options) wantsLoopback(f Family) bool {
	for _, p := range f.of(o.OutboundRanges.List) {
		if p.Addr().IsLoopback() {
			return true
		}
	}
	return false
}
