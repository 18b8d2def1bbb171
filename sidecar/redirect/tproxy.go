package redirect

import "fmt"

// mangleTable catches inbound connections in TPROXY mode: packets keep their addresses, a mark routes them to the proxy's
// transparent socket. See https://docs.kernel.org/networking/tproxy.html.
func mangleTable(f Family, o Options) Table {
	if o.Mode != TProxy || !o.catchesInbound() {
		return Table{}
	}
	return Table{
		Name: "mangle",
		Chains: []Chain{
			{chainDivert, []string{
				fmt.Sprintf("-j MARK --set-xmark %#x/0xffffffff", o.TProxyMark),
				"-j ACCEPT",
			}},
			{chainTProxy, []string{
				fmt.Sprintf("! -d %s -p tcp -j TPROXY --on-port %d --on-ip %s --tproxy-mark %#x/0xffffffff",
					f.loopback(), o.InboundPort, f.pick("0.0.0.0", "::"), o.TProxyMark),
			}},
			{chainInbound, tproxyInbound(f, o)},
			{chainOutput, tproxyOutput(f, o)},
		},
		Jumps: []Jump{{"PREROUTING", "-p tcp -j " + chainInbound}, {"OUTPUT", "-p tcp -j " + chainOutput}},
	}
}

// tproxyInbound is ISTIO_INBOUND in TPROXY mode.
func tproxyInbound(f Family, o Options) []string {
	rules := interfaceReturns("-i", o)
	rules = append(rules,
		// The proxy speaks to the application with the client's address: remember the mark for the answers, which
		// must come back to the proxy, and don't catch it again.
		fmt.Sprintf("-p tcp -m mark --mark %#x -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff", o.TProxyMark),
		fmt.Sprintf("-p tcp -m mark --mark %#x -j RETURN", o.TProxyMark),
		fmt.Sprintf("-s %s -i lo -p tcp -j RETURN", f.passthrough()),
		// Over lo only what the proxy sent to its own pod is caught.
		fmt.Sprintf("-i lo -p tcp -m mark ! --mark %#x -j RETURN", outboundMark),
	)
	rules = append(rules, strays)
	if o.TunnelPort != 0 {
		rules = append(rules, fmt.Sprintf("-p tcp -m tcp --dport %d -j RETURN", o.TunnelPort))
	}
	const established = " -m conntrack --ctstate RELATED,ESTABLISHED -j " + chainDivert
	if !o.InboundPorts.All {
		rules = append(rules, agentReturns(o)...)
		for _, r := range o.InboundPorts.List {
			rules = append(rules, "-p tcp "+dport("tcp", r)+established, "-p tcp "+dport("tcp", r)+" -j "+chainTProxy)
		}
		return rules
	}
	for _, r := range o.InboundPortsExclude {
		rules = append(rules, "-p tcp "+dport("tcp", r)+" -j RETURN")
	}
	return append(rules, "-p tcp"+established, "-p tcp -j "+chainTProxy)
}

// tproxyOutput marks packets that leave the proxy for its own pod, and the application's answers to the proxy.
func tproxyOutput(f Family, o Options) []string {
	rules := interfaceReturns("-o", o)
	rules = append(rules, fmt.Sprintf("-o lo -p tcp -m mark --mark %#x -j RETURN", o.TProxyMark))
	for _, w := range o.owners() {
		rules = append(rules, fmt.Sprintf("! -d %s -o lo -p tcp %s -j MARK --set-xmark %#x/0xffffffff", f.loopback(), w.match(), outboundMark))
	}
	return append(rules,
		fmt.Sprintf("-p tcp -m connmark --mark %#x -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff", o.TProxyMark))
}
