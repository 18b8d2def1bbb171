package main

import (
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/sallyport/sallyport/sidecar/agent"
	"github.com/sallyport/sallyport/xds/health"
)

// completeMachine gives a machine that joins by a WorkloadGroup what pods are given: its name, and the address by which it reaches the controller.
func (f *proxyFlags) completeMachine(c *agent.Config, vars map[string]string) {
	if vars["ISTIO_META_"+health.GroupMetadata] == "" {
		return
	}
	if host, err := os.Hostname(); err == nil && c.Proxy.Name == "" {
		c.Proxy.Name = strings.ToLower(host)
	}
	if len(c.Proxy.IPs) > 0 {
		return
	}
	conn, err := net.Dial("udp", c.Discovery) // which sends nothing
	if err != nil {
		return // that the address is missing is said
	}
	defer func() { _ = conn.Close() }()
	if at, err := netip.ParseAddrPort(conn.LocalAddr().String()); err == nil {
		c.Proxy.IPs = []netip.Addr{at.Addr().Unmap().WithZone("")}
	}
}

// addresses are as they are written.
func addresses(list []netip.Addr) string {
	var out []string
	for _, a := range list {
		out = append(out, a.String())
	}
	return strings.Join(out, ",")
}
