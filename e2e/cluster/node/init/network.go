package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
)

// virtualTable has the route of the node's own programs to addresses that rules translate.
const virtualTable = 78

// bringUp sets up our end of the cable that the host laid, and makes the node a router for its pods. Virtual addresses
// are of no interface: a program of the node, such as the API server, must have a route there before rules translate
// what it sends. Nobody else gets it, for what no rule translates would go around between node and host.
func bringUp(address, virtual netip.Prefix) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	eth0, err := netlink.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("the cable to the host: %w", err)
	}
	ipNet := &net.IPNet{IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), 32)}
	return errors.Join(
		netlink.LinkSetUp(lo),
		netlink.AddrAdd(eth0, &netlink.Addr{IPNet: ipNet}),
		netlink.LinkSetUp(eth0),
		os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
		routeOwn(eth0, address, virtual),
	)
}

func routeOwn(eth0 netlink.Link, address, virtual netip.Prefix) error {
	rule := netlink.NewRule()
	rule.IifName, rule.Table, rule.Family = "lo", virtualTable, netlink.FAMILY_V4 // lo: what is sent from here
	return errors.Join(netlink.RuleAdd(rule), netlink.RouteAdd(&netlink.Route{
		LinkIndex: eth0.Attrs().Index, Table: virtualTable, Scope: netlink.SCOPE_LINK, Src: address.Addr().AsSlice(),
		Dst: &net.IPNet{IP: virtual.Addr().AsSlice(), Mask: net.CIDRMask(virtual.Bits(), 32)},
	}))
}
