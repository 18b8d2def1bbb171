package redirect

import (
	"fmt"
	"net/netip"
)

// The ports and marks of pods in the mesh that have no sidecars; Istio's.
const (
	AmbientOutboundPort = 15001
	AmbientInboundPort  = 15006
	AmbientTunnelPort   = 15008
	AmbientDNSPort      = 15053

	ambientMark      = "0x539/0xfff"   // on what the node's proxy sends in the pod
	ambientApart     = "0x1539/0x1fff" // on what it sends to the app with its client's address: AmbientAppMark
	ambientAnswer    = "0x111/0xfff"   // on connections of the proxy to the app, and so on the app's answers
	ambientAnswerTo  = "0x111"
	ambientMark111   = 0x111
	ambientMarksMask = 0xfff
	ambientTable     = 100
	ambientZone      = 3 // of conntrack; a pod that had a sidecar's rules has used 1 and 2
)

// AmbientAppMark is what the node's proxy marks its connections to a pod's app with that have their clients' addresses: the mark of all that it sends, and a bit outside of
// that one's mask. Who writes the rules says it to the proxy, so that no connection is older than the rule for it: that would move it to another zone, and end it. Proxies
// of older releases mark these as they do all others.
const AmbientAppMark = 0x1539

// AmbientDivert is the route by which an app's answers to the proxy, which took its client's address, come back to the proxy.
var AmbientDivert = Divert{Mark: ambientMark111, Mask: ambientMarksMask, Table: ambientTable}

// KubeletAddresses are those that the kubelet's connections to pods have there, by which pods know them: Istio's, of IPv4 (link-local) and IPv6 (of nobody's network).
// Who writes rules by which pods let them in has the node say them, and keep others from saying them.
var KubeletAddresses = map[Family]netip.Addr{IPv4: netip.MustParseAddr("169.254.7.127"), IPv6: netip.MustParseAddr("fd16:9254:7127:1337:ffff:ffff:ffff:ffff")}

// AmbientRules are what pods differ in.
type AmbientRules struct {
	IPv6      bool // the pod has it
	Kubelet   bool // the kubelet's connections, which come from KubeletAddresses, go to the app, and not to the proxy: it has no certificate
	BlockQUIC bool // UDP 443 is refused, which the proxy does not read
}

// BuildAmbient says what the kernel must hold in the network namespace of a pod that is served by the proxy of its node, which opens
// its listeners inside of it and marks what it sends there. The rules are Istio's, but for the table raw and QUIC.
func BuildAmbient(r AmbientRules) Plan {
	var plan Plan
	for _, f := range Families {
		if f == IPv6 && !r.IPv6 {
			continue
		}
		divert := AmbientDivert
		plan.Families = append(plan.Families, FamilyPlan{Family: f, Divert: &divert, Tables: ambientTables(f, r)})
	}
	return plan
}

// ambientTables are the rules of a family, in the order of tableOrder.
func ambientTables(f Family, r AmbientRules) []Table {
	jumps := []Jump{{"PREROUTING", "-j " + chainPrerouting}, {"OUTPUT", "-j " + chainOutput}}
	ours, lo := "-m mark ! --mark "+ambientMark, f.loopback()
	notTo := func(port int) string { return fmt.Sprintf("-p tcp -m tcp ! --dport %d %s", port, ours) }
	return []Table{
		// The proxy connects to the app with its client's address and a port that the kernel picks here, while the client picks ports at its own end: both may pick the
		// same one, to the same port of the pod. In one zone these two are one connection to the kernel, and packets of the one go where those of the other go.
		// Answers are told apart already: the app's and the proxy's leave from different ports.
		{Name: "raw", Jumps: jumps[1:], Chains: []Chain{
			{chainOutput, []string{fmt.Sprintf("-m mark --mark %s -j CT --zone-orig %d", ambientApart, ambientZone)}},
		}},
		{Name: "mangle", Jumps: jumps, Chains: []Chain{
			{chainPrerouting, []string{"-m mark --mark " + ambientMark + " -j CONNMARK --set-xmark " + ambientAnswerTo + "/0xfff"}},
			{chainOutput, []string{"-m connmark --mark " + ambientAnswer + " -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff"}},
		}},
		ambientFilter(f, r),
		{Name: "nat", Jumps: jumps, Chains: []Chain{
			{chainPrerouting, append(kubeletRules(f, r),
				strays,
				fmt.Sprintf("! -d %s %s -j REDIRECT --to-ports %d", lo, notTo(AmbientTunnelPort), AmbientInboundPort),
			)},
			{chainOutput, []string{
				fmt.Sprintf("! -o lo -p udp -m udp --dport %d %s -j REDIRECT --to-ports %d", dnsServerPort, ours, AmbientDNSPort),
				fmt.Sprintf("! -d %s -p tcp -m tcp --dport %d %s -j REDIRECT --to-ports %d", lo, dnsServerPort, ours, AmbientDNSPort),
				"-p tcp -m mark --mark " + ambientAnswer + " -j ACCEPT",
				fmt.Sprintf("! -d %s -o lo %s -j ACCEPT", lo, ours),
				fmt.Sprintf("! -d %s -p tcp %s -j REDIRECT --to-ports %d", lo, ours, AmbientOutboundPort),
			}},
		}},
	}
}

// ambientFilter refuses what must not pass the pod.
func ambientFilter(f Family, r AmbientRules) Table {
	t := Table{Name: "filter", Jumps: []Jump{{"FORWARD", "-p tcp -j " + chainStray}}, Chains: []Chain{
		{chainStray, []string{"-p tcp -j REJECT --reject-with tcp-reset"}},
	}}
	if r.BlockQUIC {
		quic := fmt.Sprintf("-p udp %s -j %s", dport("udp", PortRange{quicPort, quicPort}), chainQUIC)
		t.Jumps = append(t.Jumps, Jump{"OUTPUT", quic}, Jump{"FORWARD", quic})
		t.Chains = append(t.Chains, Chain{chainQUIC, []string{"-o lo -j RETURN", "-p udp -j REJECT --reject-with " + f.pick("icmp-port-unreachable", "icmp6-port-unreachable")}})
	}
	return t
}

// kubeletRules let the kubelet's connections go to the app.
func kubeletRules(f Family, r AmbientRules) []string {
	if !r.Kubelet {
		return nil
	}
	return []string{fmt.Sprintf("-s %s -p tcp -j ACCEPT", netip.PrefixFrom(KubeletAddresses[f], KubeletAddresses[f].BitLen()))}
}
