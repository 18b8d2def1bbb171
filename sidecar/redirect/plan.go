package redirect

import (
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/xds/wire"
)

// Family is an address family; its value is the name used in plans and logs.
type Family string

// The families.
const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
)

// Families is both, in the order in which plans list them.
var Families = []Family{IPv4, IPv6}

// pick returns the value for the family.
func (f Family) pick(v4, v6 string) string {
	if f == IPv6 {
		return v6
	}
	return v4
}

// loopback is the address that applications mean by localhost.
func (f Family) loopback() string { return f.pick("127.0.0.1/32", "::1/128") }

// passthrough is the source address of the proxy's connections to its own application.
func (f Family) passthrough() string {
	return f.pick(wire.PassthroughSource+"/32", wire.PassthroughSource6+"/128")
}

// of keeps the prefixes of the family.
func (f Family) of(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return p.Addr().Is6() != (f == IPv6) })
}

// Plan is everything that the kernel is to hold, family by family.
type Plan struct {
	Families []FamilyPlan `json:"families"`
	Notes    []string     `json:"notes,omitempty"` // what an operator might not expect
}

// FamilyPlan is the part for one address family.
type FamilyPlan struct {
	Family Family `json:"family"`
	// Addresses are to be on the loopback interface: Envoy binds ::6, which unlike 127.0.0.6 is not there by itself.
	Addresses []netip.Prefix `json:"addresses,omitempty"`
	// Divert routes marked packets to this host's sockets (TPROXY only).
	Divert *Divert `json:"divert,omitempty"`
	Tables []Table `json:"tables"`
}

// Divert is the pair "ip rule add fwmark MARK lookup TABLE" and "ip route add local default dev lo table TABLE".
type Divert struct {
	Mark  uint32 `json:"mark"`
	Mask  uint32 `json:"mask,omitempty"` // of the mark's bits that count; 0 for all
	Table uint32 `json:"table"`
}

// Table is one iptables table: our chains, and the jumps from built-in chains into them.
type Table struct {
	Name   string  `json:"name"`
	Chains []Chain `json:"chains"`
	Jumps  []Jump  `json:"jumps"`
}

// Chain is a chain of ours with all its rules, each as iptables-save prints it without "-A NAME".
type Chain struct {
	Name  string   `json:"name"`
	Rules []string `json:"rules"`
}

// Jump is a rule in a chain that is not ours.
type Jump struct {
	From string `json:"from"`
	Rule string `json:"rule"`
}

// The chains, by Istio's names where Istio has one.
const (
	chainOutput     = "ISTIO_OUTPUT"
	chainOutputDNS  = "ISTIO_OUTPUT_DNS"
	chainRedirect   = "ISTIO_REDIRECT"
	chainInRedirect = "ISTIO_IN_REDIRECT"
	chainInbound    = "ISTIO_INBOUND"
	chainDivert     = "ISTIO_DIVERT"
	chainTProxy     = "ISTIO_TPROXY"
	chainQUIC       = "SALLYPORT_QUIC"
	chainStray      = "SALLYPORT_STRAY"
	chainGuests     = "SALLYPORT_GUESTS"
	chainPrerouting = "ISTIO_PRERT"
)

// ours are the chains that this package owns in every table.
var ours = []string{chainOutput, chainOutputDNS, chainRedirect, chainInRedirect, chainInbound, chainDivert, chainTProxy, chainQUIC, chainStray, chainGuests, chainPrerouting}

func isOurs(chain string) bool { return slices.Contains(ours, chain) }

// tableOrder is the order of writing. A run that is killed between two tables leaves the redirects (nat) unwritten, and
// those before it change nothing that an application could use to get out.
var tableOrder = []string{"raw", "mangle", "filter", "nat"}
