package verify

import (
	"net/netip"
	"net/url"
	"time"
)

// Env says whom the ways may try, and how.
type Env struct {
	Hosts      []string         // names that nobody registered and that answer outside
	Addrs      []netip.Addr     // addresses of hosts outside
	Resolvers  []netip.AddrPort // name servers other than the pod's
	DoH        []string         // URLs of resolvers over HTTPS (RFC 8484)
	Tunnels    []string         // domains below which names are asked for
	TCPPorts   []uint16         // further TCP ports of Addrs
	Registered []string         // names that are registered
	Gateways   []string         // HOST:PORT of egress gateways
	Pods       []netip.Addr     // other pods, for their proxies

	// Proxy is a forward proxy that everything goes through; nil for none.
	Proxy *url.URL
	// Wait is how long one answer is waited for.
	Wait time.Duration

	ports    ports
	resolver string // the pod's name server; "" for the first of resolv.conf
	metadata []string
	taken    func(local, remote netip.AddrPort) (Taken, error)
}

// ports are where services are looked for.
type ports struct{ HTTP, HTTPS, DoT, QUIC, UDP, Metadata, Outbound, Inbound, Admin uint16 }

// NewEnv is an Env without targets.
func NewEnv() *Env {
	return &Env{
		Wait:     3 * time.Second,
		ports:    ports{HTTP: 80, HTTPS: 443, DoT: 853, QUIC: 443, UDP: 33434, Metadata: 80, Outbound: 15001, Inbound: 15006, Admin: 15000},
		metadata: metadataServices, taken: findTaker,
	}
}

// family gives the addresses of a family.
func (e *Env) family(ipv6 bool) []netip.Addr {
	var out []netip.Addr
	for _, a := range e.Addrs {
		if a.Is6() == ipv6 {
			out = append(out, a)
		}
	}
	return out
}
