package world

import (
	"errors"
	"net/netip"
	"os"
)

// What there is of IPv6, where a test asks for it: a network of pods, and a server outside, behind the same router.
var (
	OutsideAddr6 = netip.MustParseAddr("2001:db8:77::10")
	routerAddr6  = netip.MustParseAddr("fd00:77::1")
)

// AddIPv6 gives the world IPv6. Hosts have none before GiveIPv6.
func (w *World) AddIPv6() error {
	router, outside := "-n "+w.Router.namespace+" ", "-n "+w.Outside.namespace+" "
	for _, call := range []string{
		router + "addr add " + routerAddr6.String() + "/64 dev pods nodad",
		router + "addr add 2001:db8:77::1/64 dev outside nodad",
		outside + "addr add " + OutsideAddr6.String() + "/64 dev eth0 nodad",
		outside + "route add default via 2001:db8:77::1",
	} {
		if err := ip(call); err != nil {
			return err
		}
	}
	return w.Router.Do(func() error { return os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0) })
}

// GiveIPv6 gives a pod's host an address of the pods' network.
func (w *World) GiveIPv6(h *Host, addr netip.Addr) error {
	return errors.Join(
		ip("-n "+h.namespace+" addr add "+addr.String()+"/64 dev eth0 nodad"),
		ip("-n "+h.namespace+" route add default via "+routerAddr6.String()),
	)
}

// TakeIPv4 takes a host's IPv4 addresses away, and its routes with them. What it asks of name servers goes nowhere then, unless somebody takes it.
func (w *World) TakeIPv4(h *Host) error { return ip("-n " + h.namespace + " -4 addr flush dev eth0") }
