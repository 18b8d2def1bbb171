package admission

import (
	"fmt"
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/sallyport/sallyport/config/host"
	"github.com/sallyport/sallyport/config/mesh"
)

// checkOwnHost warns of what a gateway does not connect to, since it would be the gateway's own host.
func (w *world) checkOwnHost(r *report, e *entry) {
	if !e.external() || w.leavesDirectly(e) {
		return
	}
	for i, n := range e.names {
		if n.IsWildcard() && strings.HasSuffix(string(n), ".localhost") {
			r.warn(at("spec.hosts", i), string(n), "names below localhost mean the gateway's own host, to which it does not connect", "name the hosts that are meant")
		}
	}
}

func (w *world) leavesDirectly(e *entry) bool {
	name := w.gatewayOf(e)
	if name == "" {
		return w.cfg.DefaultGateway.IsDirect()
	}
	g, err := mesh.ParseGateway(name)
	return err == nil && g.IsDirect()
}

// checkMadeUp warns of written addresses that are not the user's to give.
func checkMadeUp(r *report, s *networking.ServiceEntry) {
	for i, a := range s.Addresses {
		if ip, ok := addressOf(a); ok && host.MadeUp(ip) {
			r.warn(at("spec.addresses", i), a, fmt.Sprintf("addresses in %s and %s are given out to hosts without one, so this one is not used", host.MadeUp4, host.MadeUp6),
				"remove it: the host gets an address by itself")
		}
	}
}

// addressOf reads an address or the first address of a range.
func addressOf(a string) (netip.Addr, bool) {
	if p, err := netip.ParsePrefix(a); err == nil {
		return p.Masked().Addr(), true
	}
	ip, err := netip.ParseAddr(a)
	return ip, err == nil
}

// sharedAddresses warns of an address that entries with different hosts wrote for the same port, where only the address
// tells them apart.
func (w *world) sharedAddresses() []Finding {
	type place struct {
		address string
		port    uint32
	}
	var findings []Finding
	owners := map[place][]*entry{}
	for _, e := range w.entries {
		for i, a := range e.spec.Addresses {
			for _, p := range e.spec.Ports {
				if isTLS(strings.ToUpper(p.Protocol)) || strings.EqualFold(p.Protocol, "UDP") {
					continue
				}
				at := place{a, p.Number}
				for _, first := range owners[at] {
					if !overlap(first.exportTo, e.exportTo) || sameHosts(first, e) {
						continue
					}
					r := &report{of: e.object}
					r.warn(fmt.Sprintf("spec.addresses[%d]", i), a, fmt.Sprintf("%s at %s has this address on port %d too; connections that show no name lead to one of the two: to the workload's own namespace's, else to the older",
						first.object.Key, first.object.Origin, p.Number), "give the hosts different addresses, or none: they get their own")
					findings = append(findings, r.findings...)
					break
				}
				owners[at] = append(owners[at], e)
			}
		}
	}
	return findings
}

func sameHosts(a, b *entry) bool {
	for _, n := range a.names {
		for _, m := range b.names {
			if n != m {
				return false
			}
		}
	}
	return true
}
