package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/sallyport/sallyport/sidecar/redirect"
)

// netlinkLinks does by netlink what the ip command does.
type netlinkLinks struct{}

// SetAddress implements [redirect.Kernel].
func (netlinkLinks) SetAddress(_ context.Context, p netip.Prefix, present bool) (bool, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return false, fmt.Errorf("find the loopback interface: %w", err)
	}
	addr := &netlink.Addr{IPNet: ipNet(p)}
	if present {
		return done(netlink.AddrAdd(lo, addr), syscall.EEXIST)
	}
	// Without IPv6 in the kernel there is no such address either.
	return done(netlink.AddrDel(lo, addr), syscall.EADDRNOTAVAIL, syscall.EAFNOSUPPORT, syscall.EOPNOTSUPP)
}

// SetDivert implements [redirect.Kernel].
func (netlinkLinks) SetDivert(_ context.Context, f redirect.Family, d redirect.Divert, present bool) (bool, error) {
	family, everything := unix.AF_INET, netip.MustParsePrefix("0.0.0.0/0")
	if f == redirect.IPv6 {
		family, everything = unix.AF_INET6, netip.MustParsePrefix("::/0")
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return false, fmt.Errorf("find the loopback interface: %w", err)
	}
	route := &netlink.Route{
		Family: family, Dst: ipNet(everything), Scope: netlink.SCOPE_HOST, Type: unix.RTN_LOCAL,
		Table: int(d.Table), LinkIndex: lo.Attrs().Index,
	}
	rule := netlink.NewRule()
	rule.Family, rule.Table, rule.Mark = family, int(d.Table), d.Mark
	if d.Mask != 0 {
		rule.Mask = &d.Mask
	}
	exists, err := ruleExists(family, d)
	if err != nil {
		return false, err
	}
	if present {
		routed, err := done(netlink.RouteAdd(route), syscall.EEXIST)
		if err != nil || exists {
			return routed, err
		}
		ruled, err := done(netlink.RuleAdd(rule), syscall.EEXIST)
		return routed || ruled, err
	}
	if !exists {
		return false, nil
	}
	if _, err := done(netlink.RuleDel(rule), syscall.ENOENT); err != nil {
		return false, err
	}
	_, err = done(netlink.RouteDel(route), syscall.ESRCH, syscall.ENOENT)
	return true, err
}

// ruleExists looks for the rule: adding it twice would not fail everywhere.
func ruleExists(family int, d redirect.Divert) (bool, error) {
	rules, err := netlink.RuleList(family)
	if errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EOPNOTSUPP) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("list routing rules: %w", err)
	}
	for _, r := range rules {
		if r.Mark == d.Mark && r.Table == int(d.Table) {
			return true, nil
		}
	}
	return false, nil
}

// done tells a change from "it was so already", which the kernel reports as one of the given errors.
func done(err error, already ...syscall.Errno) (bool, error) {
	for _, e := range already {
		if errors.Is(err, e) {
			return false, nil
		}
	}
	return err == nil, err
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
