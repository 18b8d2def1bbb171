package node

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/vishvananda/netlink"
)

// Link is the name of the host's end of the cable to the node. The kernel removes it with the node.
var Link = strings.Replace(Name, "sallyport", "sp", 1)

// connect lays the cable and makes the host reach the networks of the cluster through the node. The node gets no
// default route: what runs in it reaches this host, and what a test wires up, nothing else.
func connect(pid int, address netip.Prefix) error {
	veth := netlink.NewVeth(netlink.NewLinkAttrs())
	veth.Name, veth.PeerName, veth.PeerNamespace = Link, "eth0", netlink.NsPid(pid)
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("cable %s to the node: %w", Link, err)
	}
	link, err := netlink.LinkByName(Link)
	if err != nil {
		return err
	}
	host := &net.IPNet{IP: address.Addr().Prev().AsSlice(), Mask: net.CIDRMask(address.Bits(), 32)}
	if err := errors.Join(netlink.AddrAdd(link, &netlink.Addr{IPNet: host}), netlink.LinkSetUp(link)); err != nil {
		return fmt.Errorf("address %s of %s: %w", host, Link, err)
	}
	return nil
}

// Route makes the host reach a network through the node.
func Route(network netip.Prefix, via netip.Addr) error {
	route := &netlink.Route{Dst: ipNet(network), Gw: via.AsSlice()}
	if err := netlink.RouteReplace(route); err != nil {
		return fmt.Errorf("route to %s by the node: %w", network, err)
	}
	return nil
}

// Free is nil when no route of this host, but the default one, meets the network.
func Free(network netip.Prefix) error {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Dst == nil {
			continue
		}
		addr, ok := netip.AddrFromSlice(r.Dst.IP.To4())
		ones, _ := r.Dst.Mask.Size()
		if ok && ones > 0 && netip.PrefixFrom(addr, ones).Overlaps(network) {
			return fmt.Errorf("this host has a route to %s, which meets the test cluster's network %s", r.Dst, network)
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
