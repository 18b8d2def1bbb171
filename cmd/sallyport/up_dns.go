package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/sallyport/sallyport/cmd/program"
	"github.com/sallyport/sallyport/config/host"
)

// upNames is how the proxy of "up" resolves names where flags say so. What the mesh's settings say reaches it by the
// control plane, as it does any gateway; servers that flags name come before those.
type upNames struct {
	servers []string // none for the settings', or those of /etc/resolv.conf
	private []string // what may be at addresses that are not public, in the agent's words
	closed  bool     // all servers are on this machine, so names may be too
}

// loopbackRanges are this machine's own addresses (RFC 1122, RFC 4291).
var loopbackRanges = []string{"127.0.0.0/8", "::1/128"}

// names reads the flags.
func (f *upFlags) names() (upNames, error) {
	n := upNames{servers: f.dnsServers, closed: len(f.dnsServers) > 0}
	for _, server := range f.dnsServers {
		addr, err := serverAddr(server)
		if err != nil {
			return n, program.Misuse(fmt.Errorf("--dns-server %q: must be IP or IP:PORT, like 127.0.0.1:5353", server))
		}
		n.closed = n.closed && addr.IsLoopback()
	}
	for _, pattern := range f.allowPrivate {
		if err := checkPrivate(pattern); err != nil {
			return n, program.Misuse(err)
		}
		n.private = append(n.private, pattern)
	}
	if n.closed {
		n.private = append(n.private, loopbackRanges...)
	}
	return n, nil
}

func serverAddr(text string) (netip.Addr, error) {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap(), nil
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err
}

// checkPrivate refuses here, with the flag's name, what the agent would refuse.
func checkPrivate(pattern string) error {
	if _, err := netip.ParseAddr(pattern); err == nil {
		return nil
	}
	if _, _, err := net.ParseCIDR(pattern); err == nil {
		return nil
	}
	if _, err := host.ParsePattern(pattern); err != nil {
		return fmt.Errorf("--allow-private: write a host, *.SUFFIX, * or an address range like 10.1.0.0/16: %w", err)
	}
	return nil
}

// agentArgs are the agent's flags for it.
func (n upNames) agentArgs() []string {
	var args []string
	for _, server := range n.servers {
		args = append(args, "--dns-upstream", server)
	}
	for _, pattern := range slices.Compact(n.private) {
		args = append(args, "--allow-private", pattern)
	}
	return args
}
