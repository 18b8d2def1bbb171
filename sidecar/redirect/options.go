package redirect

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
)

// Mode is how inbound connections reach the proxy.
type Mode string

const (
	// Redirect rewrites the destination; the proxy asks for the original one (SO_ORIGINAL_DST). The client's address
	// stays visible to the proxy.
	Redirect Mode = "REDIRECT"
	// TProxy hands packets to a transparent socket without rewriting them, so that the application may see the client's address too.
	TProxy Mode = "TPROXY"
)

// Fixed numbers of Istio's data plane.
const (
	dnsServerPort = 53
	quicPort      = 443
	// outboundMark marks packets from the proxy to the pod's own address in TPROXY mode (Istio's number).
	outboundMark = 1338
)

// PortRange is a run of ports, both ends included. A single port has First == Last.
type PortRange struct{ First, Last uint16 }

func (r PortRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d:%d", r.First, r.Last)
}

// contains tells whether a port is in the range.
func (r PortRange) contains(port uint16) bool { return r.First <= port && port <= r.Last }

// Ports is a choice of ports: every one, or those listed (none, if the list is empty).
type Ports struct {
	All  bool
	List []PortRange
}

// Ranges is a choice of addresses: every one, or those listed (none, if the list is empty).
type Ranges struct {
	All  bool
	List []netip.Prefix
}

// Options says what to catch. The zero value is not useful; [Settings.Options] makes a checked one.
type Options struct {
	EnvoyPort   uint16 // outbound connections go here
	InboundPort uint16 // inbound connections go here
	TunnelPort  uint16 // inbound HBONE, left alone; 0 for none
	DNSPort     uint16 // the agent's DNS server
	UIDs, GIDs  []uint32

	Mode        Mode
	TProxyMark  uint32
	TProxyTable uint32

	OutboundRanges       Ranges
	OutboundExclude      []netip.Prefix
	OutboundPorts        []PortRange // caught whatever their address
	OutboundPortsExclude []PortRange

	InboundPorts        Ports
	InboundPortsExclude []PortRange // counts only with InboundPorts.All, as in Istio

	ExcludeInterfaces []string
	// VirtualInterfaces lead to guests of the pod: virtual machines, or containers of a container engine in it. What
	// comes from there is on its way out.
	VirtualInterfaces []string
	RedirectDNS       bool
	BlockQUIC         bool
	IPv6              bool
}

// dnsCaught tells whether DNS queries reach the agent: a port 53 that is excluded never gets that far.
func (o Options) dnsCaught() bool {
	if !o.RedirectDNS {
		return false
	}
	for _, r := range o.OutboundPortsExclude {
		if r.contains(dnsServerPort) {
			return false
		}
	}
	return true
}

// notes are the things that an operator might not expect from these options.
func (o Options) notes() []string {
	var notes []string
	if o.RedirectDNS && !o.dnsCaught() {
		notes = append(notes, "--istio-local-outbound-ports-exclude holds 53: DNS queries are not caught")
	}
	for _, id := range o.UIDs {
		if id == 0 {
			notes = append(notes, "--proxy-uid holds 0: no process that runs as root is caught")
		}
	}
	for _, listed := range o.InboundPorts.List {
		for _, r := range o.InboundPortsExclude {
			agents := r.First == r.Last && slices.Contains(agentPorts, r.First) // see agentReturns
			if !agents && r.First <= listed.Last && listed.First <= r.Last {
				notes = append(notes, fmt.Sprintf("--istio-inbound-ports lists %s, so it is caught in spite of --istio-local-exclude-ports", listed))
			}
		}
	}
	return notes
}
