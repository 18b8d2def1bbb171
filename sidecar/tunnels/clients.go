package tunnels

import (
	"net/netip"

	"github.com/sallyport/sallyport/egress/audit/record"
)

// clients are who came last from an address, by SPIFFE id, as certificates said. It is for sharing places out, and for nothing that is allowed or denied.
type clients map[netip.Addr]string

// mostClients is how many addresses are remembered at a time. When there are more all are forgotten: whoever is there is known again by his next record.
const mostClients = 1 << 14

func (c clients) saw(at netip.Addr, peer string) {
	if peer == "" || c[at] == peer {
		return
	}
	if len(c) >= mostClients {
		clear(c)
	}
	c[at] = peer
}

// Saw takes a record of the proxy's: at a gateway, a pod or a waypoint it says who has the address that it came from.
func (t *Table) Saw(r *record.Record) {
	peer := ""
	switch {
	case r.Reporter == record.ReporterDestination:
		peer = r.Claim
	case r.Reporter == record.ReporterGateway && r.Direction == record.Outbound:
		peer = r.Workload.Principal
	}
	if peer == "" {
		return
	}
	from, err := netip.ParseAddrPort(r.Source)
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients.saw(from.Addr(), peer)
}
