package node

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
)

// PeerLink is the name of the end of a Wire in the other namespace.
const PeerLink = "cluster"

// Wire is a cable from the node to another network namespace of the host.
type Wire struct {
	Name      string         // of the node's interface, 15 bytes at most
	Namespace string         // as `ip netns` names it
	Node      []netip.Prefix // addresses of the node's end; pods reach these networks from then on
	There     []netip.Prefix // addresses of the other end, PeerLink
	Pods      netip.Prefix   // network that the other side reaches through the node's first address
}

// Lay lays the cable. It goes with the namespace, or with the node.
func (w Wire) Lay(pid int) (err error) {
	nodeNS, err := netns.GetFromPid(pid)
	if err != nil {
		return err
	}
	defer func() { _ = nodeNS.Close() }()
	otherNS, err := netns.GetFromName(w.Namespace)
	if err != nil {
		return fmt.Errorf("network namespace %s: %w", w.Namespace, err)
	}
	defer func() { _ = otherNS.Close() }()
	node, err := netlink.NewHandleAt(nodeNS)
	if err != nil {
		return err
	}
	defer node.Close()
	other, err := netlink.NewHandleAt(otherNS)
	if err != nil {
		return err
	}
	defer other.Close()

	veth := netlink.NewVeth(netlink.NewLinkAttrs())
	veth.Name, veth.PeerName, veth.PeerNamespace = w.Name, PeerLink, netlink.NsFd(otherNS)
	if err := node.LinkAdd(veth); err != nil {
		return fmt.Errorf("cable %s from the node to %s: %w", w.Name, w.Namespace, err)
	}
	if _, err := raise(node, w.Name, w.Node); err != nil {
		return err
	}
	peer, err := raise(other, PeerLink, w.There)
	if err != nil || !w.Pods.IsValid() || len(w.Node) == 0 {
		return err
	}
	route := &netlink.Route{LinkIndex: peer.Attrs().Index, Dst: ipNet(w.Pods), Gw: w.Node[0].Addr().AsSlice()}
	if err := other.RouteReplace(route); err != nil {
		return fmt.Errorf("route from %s to %s: %w", w.Namespace, w.Pods, err)
	}
	return nil
}

// raise gives an interface its addresses and brings it up.
func raise(h *netlink.Handle, name string, addresses []netip.Prefix) (netlink.Link, error) {
	link, err := h.LinkByName(name)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, a := range addresses {
		if err := h.AddrAdd(link, &netlink.Addr{IPNet: ipNet(a)}); err != nil {
			errs = append(errs, fmt.Errorf("address %s of %s: %w", a, name, err))
		}
	}
	return link, errors.Join(append(errs, h.LinkSetUp(link))...)
}
