package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
)

// bringUp sets up our end of the cable that the host laid, and makes the node a router for its pods.
func bringUp(address netip.Prefix) error {
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
	)
}
