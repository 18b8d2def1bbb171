package redirect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Build says what the kernel must hold for the options. It is pure: equal options give equal plans.
func Build(o Options) Plan {
	plan := Plan{Notes: o.notes()}
	for _, f := range Families {
		if f == IPv6 && !o.IPv6 {
			continue
		}
		plan.Families = append(plan.Families, buildFamily(f, o))
	}
	return plan
}

func buildFamily(f Family, o Options) FamilyPlan {
	p := FamilyPlan{Family: f}
	if f == IPv6 {
		p.Addresses = []netip.Prefix{netip.MustParsePrefix(f.passthrough())}
	}
	if o.Mode == TProxy && o.catchesInbound() {
		p.Divert = &Divert{Mark: o.TProxyMark, Table: o.TProxyTable}
	}
	// The order is tableOrder.
	for _, t := range []Table{rawTable(f, o), mangleTable(f, o), filterTable(f, o), natTable(f, o)} {
		if len(t.Chains) > 0 {
			p.Tables = append(p.Tables, t)
		}
	}
	return p
}

func (o Options) catchesInbound() bool { return o.InboundPorts.All || len(o.InboundPorts.List) > 0 }

// natTable holds the redirects, all of them in REDIRECT mode.
func natTable(f Family, o Options) Table {
	t := Table{Name: "nat"}
	if o.catchesInbound() && o.Mode == Redirect {
		t.Jumps = append(t.Jumps, Jump{"PREROUTING", "-p tcp -j " + chainInbound})
		t.Chains = append(t.Chains, Chain{chainInbound, inboundRules(o)})
	}
	t.Jumps = append(t.Jumps, guestJumps(o)...)
	t.Jumps = append(t.Jumps, Jump{"OUTPUT", "-j " + chainOutput})
	t.Chains = append(t.Chains,
		Chain{chainRedirect, []string{fmt.Sprintf("-p tcp -j REDIRECT --to-ports %d", o.EnvoyPort)}},
		Chain{chainInRedirect, []string{fmt.Sprintf("-p tcp -j REDIRECT --to-ports %d", o.InboundPort)}},
		Chain{chainOutput, outputRules(f, o)},
	)
	if len(o.VirtualInterfaces) > 0 {
		t.Chains = append(t.Chains, Chain{chainGuests, guestRules(f, o)})
	}
	if o.dnsCaught() {
		t.Chains = append(t.Chains, Chain{chainOutputDNS, []string{
			fmt.Sprintf("-p tcp -m tcp --dport %d -j REDIRECT --to-ports %d", dnsServerPort, o.DNSPort),
			fmt.Sprintf("-p udp -m udp --dport %d -j REDIRECT --to-ports %d", dnsServerPort, o.DNSPort),
		}})
	}
	return t
}

// inboundRules is ISTIO_INBOUND in REDIRECT mode.
func inboundRules(o Options) []string {
	rules := append(interfaceReturns("-i", o), strays)
	if o.TunnelPort != 0 {
		rules = append(rules, fmt.Sprintf("-p tcp -m tcp --dport %d -j RETURN", o.TunnelPort))
	}
	if !o.InboundPorts.All {
		rules = append(rules, agentReturns(o)...)
		for _, r := range o.InboundPorts.List {
			rules = append(rules, "-p tcp "+dport("tcp", r)+" -j "+chainInRedirect)
		}
		return rules
	}
	for _, r := range o.InboundPortsExclude {
		rules = append(rules, "-p tcp "+dport("tcp", r)+" -j RETURN")
	}
	return append(rules, "-p tcp -j "+chainInRedirect)
}

// Ports at which a pod's agent and Envoy answer about themselves.
const (
	StatusPort = 15020 // health, metrics, the application's probes
	ReadyPort  = 15021
	StatsPort  = 15090 // Envoy's own metrics
)

var agentPorts = []uint16{StatusPort, ReadyPort, StatsPort}

// agentReturns leaves alone those of the agent's ports that are listed, or in a range that is. What is caught comes to the app from the proxy, and the agent
// would take everybody's for the pod's own. With every port caught it is -d that names them.
func agentReturns(o Options) []string {
	var rules []string
	for _, port := range agentPorts {
		if slices.ContainsFunc(o.InboundPorts.List, func(r PortRange) bool { return r.contains(port) }) {
			rules = append(rules, "-p tcp "+dport("tcp", PortRange{port, port})+" -j RETURN")
		}
	}
	return rules
}

// strays leaves alone what is not for the pod: packets to addresses that it does not have, which a neighbour routed
// through it. Redirected, they would come out of the proxy as the pod's own. What is not caught goes nowhere: see
// strayRules.
const strays = "-p tcp -m addrtype ! --dst-type LOCAL -j RETURN"

// interfaceReturns leaves traffic of the excluded interfaces alone; direction is -i or -o.
func interfaceReturns(direction string, o Options) []string {
	var rules []string
	for _, name := range o.ExcludeInterfaces {
		rules = append(rules, direction+" "+name+" -j RETURN")
	}
	return rules
}

// dport is the match for a port or a range of them, as iptables-save words it.
func dport(protocol string, r PortRange) string {
	return fmt.Sprintf("-m %s --dport %s", protocol, r)
}

// to is the match for a destination. iptables-save prints none for the whole address space, so neither does this.
func to(p netip.Prefix) string {
	if p.Bits() == 0 {
		return ""
	}
	return "-d " + p.String() + " "
}

// notOwnedBy matches packets of every process but those with one of the ids. kind is uid or gid.
func notOwnedBy(kind string, ids []uint32) string {
	var b strings.Builder
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "-m owner ! --%s-owner %d", kind, id)
	}
	return b.String()
}

// owner is one id of the proxy, user or group.
type owner struct {
	kind string // uid or gid
	id   uint32
}

func (w owner) match() string { return fmt.Sprintf("-m owner --%s-owner %d", w.kind, w.id) }

// owners lists the proxy's ids, users first.
func (o Options) owners() []owner {
	var out []owner
	for _, id := range o.UIDs {
		out = append(out, owner{"uid", id})
	}
	for _, id := range o.GIDs {
		out = append(out, owner{"gid", id})
	}
	return out
}
