package redirect

import "fmt"

// Conntrack zones for DNS over UDP (Istio's numbers). An application and the agent may ask the same server from the same
// source port at the same time; in one zone the two would be one connection to the kernel, and answers would go astray.
const (
	zoneUpstream = 1 // agent ↔ DNS servers
	zoneClient   = 2 // application ↔ agent
)

// rawTable sorts UDP DNS packets into their zones before connection tracking sees them. The first CT rule that matches counts.
func rawTable(_ Family, o Options) Table {
	if !o.dnsCaught() {
		return Table{}
	}
	out := interfaceReturns("-o", o)
	for _, w := range o.owners() {
		out = append(out,
			fmt.Sprintf("-p udp -m udp --dport %d %s -j CT --zone %d", dnsServerPort, w.match(), zoneUpstream),
			fmt.Sprintf("-p udp -m udp --sport %d %s -j CT --zone %d", o.DNSPort, w.match(), zoneClient))
	}
	out = append(out, fmt.Sprintf("-p udp -m udp --dport %d -j CT --zone %d", dnsServerPort, zoneClient))
	in := append(interfaceReturns("-i", o),
		fmt.Sprintf("-p udp -m udp --sport %d -j CT --zone %d", dnsServerPort, zoneUpstream))
	return Table{
		Name:   "raw",
		Chains: []Chain{{chainOutputDNS, out}, {chainInbound, in}},
		Jumps:  []Jump{{"PREROUTING", "-p udp -j " + chainInbound}, {"OUTPUT", "-p udp -j " + chainOutputDNS}},
	}
}
